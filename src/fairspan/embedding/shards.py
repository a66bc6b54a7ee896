"""Shards: one Parquet file per unit, with a summary of the unit and a digest in its footer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
import polars as pl

from fairspan.embedding.unit import Row
from fairspan.errors import FairspanError
from fairspan.report.files import write_whole
from fairspan.runs.folder import writing

VECTORS = {"float32": (np.float32, pl.Float32), "float16": (np.float16, pl.Float16)}
REJECTED = "rejected.jsonl"
_NAME = re.compile(r"part-\d+\.parquet")
# Entries of a footer.
_SUMMARY = "fairspan"
_FAULTS = "fairspan.rejected"
_DIGEST = "fairspan.digest"
_DAMAGES = (OSError, KeyError, TypeError, ValueError, pl.exceptions.PolarsError)
# Threads that verify shards.
_READERS = 4


@dataclass(frozen=True, slots=True)
class ShardSummary:
    """What a shard's footer says of its unit.

    Attributes:
        rows: with a vector.
        truncated: those of them that are longer than the model reads.
        tokens: read by the model, prompts and special tokens included.
        rejected: rows without a vector.
        skipped: rows that keep the vector of the plain model.
        texts: the digest of the ids and texts of the unit.
    """

    number: int
    rows: int
    truncated: int
    tokens: int
    seconds: float
    rejected: int
    skipped: int
    texts: str

    @property
    def file_name(self) -> str:
        return shard_name(self.number)


def shard_name(number: int) -> str:
    """The name of a shard's file; of ten million shards, names sort like numbers."""
    return f"part-{number:07d}.parquet"


def shard_files(folder: Path) -> list[Path]:
    """The files of a folder's shards by number."""
    files = [file for file in folder.glob("part-*.parquet") if _NAME.fullmatch(file.name)]
    return sorted(files, key=lambda file: (len(file.name), file.name))


def table(
    ids: Sequence[str],
    parts: np.ndarray | None,
    vectors: np.ndarray,
    tokens: np.ndarray,
    truncated: np.ndarray,
    dtype: str,
) -> pl.DataFrame:
    """The columns of a shard: id, vector (a fixed-size list), tokens and truncated.

    With `parts` [rows, 3] also the number of each part, from 0, and the characters of its document
    that it begins and ends with.
    """
    kind = pl.Array(VECTORS[dtype][1], vectors.shape[1])
    places = {} if parts is None else dict(zip(("part", "start", "end"), parts.T, strict=True))
    return pl.DataFrame(
        {
            "id": pl.Series(ids, dtype=pl.String),
            **{name: pl.Series(place, dtype=pl.Int32) for name, place in places.items()},
            "vector": pl.Series(vectors if len(vectors) else [], dtype=kind),
            "tokens": pl.Series(tokens, dtype=pl.Int32),
            "truncated": pl.Series(truncated, dtype=pl.Boolean),
        }
    )


def write_shard(
    folder: Path, summary: ShardSummary, faults: Sequence[Row], rows: pl.DataFrame
) -> None:
    """Write beside, then rename: a shard is there as a whole or not at all."""
    rejected = [
        {"file": row.file, "row": row.number, "id": row.id, "reason": row.fault} for row in faults
    ]
    footer = {_SUMMARY: json.dumps(asdict(summary)), _FAULTS: json.dumps(rejected)}
    footer[_DIGEST] = _digest(footer[_SUMMARY], footer[_FAULTS], rows)

    def write(file: Path) -> None:
        rows.write_parquet(file, compression="zstd", compression_level=1, metadata=footer)

    with writing(folder):
        write_whole(folder / summary.file_name, write)


def _digest(summary: str, faults: str, rows: pl.DataFrame) -> str:
    """A hash of what a shard holds, footer and columns."""
    digest = blake2b(f"{len(summary)} {summary}{faults}".encode(), digest_size=16)
    for column in rows:
        digest.update(f"{column.name} {column.dtype} {len(column)} ".encode())
        if column.dtype == pl.String:
            digest.update(column.str.len_bytes().to_numpy().tobytes())
            digest.update("".join(column).encode())
        else:
            digest.update(column.to_numpy().tobytes())
    return digest.hexdigest()


def read_shards(folder: Path) -> tuple[dict[int, ShardSummary], list[str]]:
    """The summaries of the whole shards by number, and the names of the damaged files."""
    files = shard_files(folder)
    with ThreadPoolExecutor(_READERS) as pool:
        summaries = list(pool.map(_verified, files))
    whole = {summary.number: summary for summary in summaries if summary is not None}
    pairs = zip(files, summaries, strict=True)
    return whole, [file.name for file, summary in pairs if summary is None]


def _verified(file: Path) -> ShardSummary | None:
    """The summary of a shard; None for one that is damaged."""
    try:
        footer = pl.read_parquet_metadata(file)
        summary = ShardSummary(**json.loads(footer[_SUMMARY]))
        rows = pl.read_parquet(file, glob=False)
        digest = _digest(footer[_SUMMARY], footer[_FAULTS], rows)
    except PermissionError as error:
        raise FairspanError(f"{file} cannot be read: {error.strerror or error}.") from None
    except (*_DAMAGES, pl.exceptions.PanicException):
        return None
    is_whole = digest == footer.get(_DIGEST) and file.name == summary.file_name
    return summary if is_whole else None


def has_shards(folder: Path) -> bool:
    """Whether there is a file with the footer of a shard."""
    for file in folder.glob("part-*.parquet"):
        with suppress(*_DAMAGES):
            if _SUMMARY in pl.read_parquet_metadata(file):
                return True
    return False


def write_rejected(folder: Path, summaries: Iterable[ShardSummary]) -> None:
    """Write all rejected rows, in the order of the input."""

    def write(file: Path) -> None:
        with file.open("w", encoding="utf-8", errors="backslashreplace") as opened:
            for summary in sorted(summaries, key=lambda summary: summary.number):
                if summary.rejected:
                    footer = pl.read_parquet_metadata(folder / summary.file_name)
                    for fault in json.loads(footer[_FAULTS]):
                        opened.write(json.dumps(fault, ensure_ascii=False) + "\n")

    with writing(folder):
        write_whole(folder / REJECTED, write)


def remove_partial(folder: Path) -> None:
    """Remove what a killed process left half-written."""
    for file in [*folder.glob(".part-*.parquet.*"), *folder.glob(".*.json*.*")]:
        with suppress(OSError):
            file.unlink()
