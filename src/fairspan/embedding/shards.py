"""Shards: one Parquet file per unit, with a summary of the unit in its footer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fairspan.corpus.record import Record
from fairspan.errors import FairspanError
from fairspan.report.files import write_whole
from fairspan.runs.folder import writing

VECTORS = {"float32": (np.float32, pl.Float32), "float16": (np.float16, pl.Float16)}
REJECTED = "rejected.jsonl"
_DAMAGES = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
_FOOTER = "fairspan"
# Threads that read shards to verify them: sha256 takes 1.5 GB/s in each.
_READERS = 4
UNUSABLE = "the model's vector"
"""What the reason begins with where a row was rejected for its vector."""


class Cursor(NamedTuple):
    """A position in a source: the records before it, and how much of the source they are."""

    row: int = 0
    done: int = 0


START = Cursor()


@dataclass(frozen=True, slots=True)
class Fault:
    """A record that cannot be used, and why; with its id if that was read."""

    file: str
    row: int
    id: str | None
    reason: str

    def __str__(self) -> str:
        return f"{Record(self.file, self.row, {}).place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class ShardSummary:
    """What a shard's footer says of its unit.

    Attributes:
        rows: with a vector.
        truncated: those of them that are longer than the model reads.
        tokens: read by the model, prompts and special tokens included.
        skipped: rows that keep the vector of the plain model.
        digest: of the ids and texts of the unit.
        faults, skipped_ids: of the rejected and the skipped rows; in the file only, not in memory.
        checksum: of the file; in memory only.
    """

    number: int
    start: Cursor
    end: Cursor
    rows: int
    truncated: int
    tokens: int
    seconds: float
    rejected: int
    skipped: int
    faults: Sequence[Fault]
    skipped_ids: Sequence[str]
    digest: str = ""
    checksum: str = ""

    @property
    def done(self) -> int:
        """How much of the input the unit is, in the source's own unit."""
        return self.end.done - self.start.done

    def without_lists(self) -> ShardSummary:
        return replace(self, faults=(), skipped_ids=())

    @property
    def file_name(self) -> str:
        return shard_name(self.number)

    @classmethod
    def from_json(cls, text: str) -> ShardSummary:
        values: dict[str, Any] = json.loads(text)
        for name in ("start", "end"):
            values[name] = Cursor(*values[name])
        values["faults"] = [Fault(**fault) for fault in values["faults"]]
        return cls(**values)


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


def shard_name(number: int) -> str:
    return f"part-{number:05d}.parquet"


def write_shard(folder: Path, summary: ShardSummary, rows: pl.DataFrame) -> str:
    """Write beside, then rename: a shard is there as a whole or not at all. Its checksum."""
    checksums = []

    def write(file: Path) -> None:
        entries = asdict(summary)
        del entries["checksum"]
        footer = {_FOOTER: json.dumps(entries)}
        rows.write_parquet(file, compression="zstd", compression_level=1, metadata=footer)
        checksums.append(checksum_of(file))

    with writing(folder):
        write_whole(folder / summary.file_name, write)
    return checksums[0]


def checksum_of(file: Path) -> str:
    """The size of a file and its SHA-256."""
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return f"{file.stat().st_size}:{digest}"


def read_summaries(folder: Path, checksums: Mapping[str, Any]) -> dict[int, ShardSummary]:
    """The summaries of a folder's whole shards by number, with their checksums.

    A shard is whole if its file has the checksum of the manifest, or can be read where that has
    none, as after a kill.
    """
    files = sorted(folder.glob("part-*.parquet"))
    with ThreadPoolExecutor(_READERS) as pool:
        read = pool.map(lambda file: _read_whole(file, checksums.get(file.name)), files)
        return {summary.number: summary for summary in read if summary is not None}


def _read_whole(file: Path, expected: Any) -> ShardSummary | None:
    """The summary of a shard; None for one that is damaged."""
    try:
        if expected and str(expected).partition(":")[0] != str(file.stat().st_size):
            return None
        checksum = checksum_of(file)
    except OSError as error:
        raise FairspanError(f"{file} cannot be read: {error.strerror or error}.") from None
    with suppress(KeyError, TypeError, ValueError, *_DAMAGES):
        summary = _read_summary(file)
        if not expected:
            pl.read_parquet(file, glob=False)
        if file.name == summary.file_name and checksum == (expected or checksum):
            return replace(summary.without_lists(), checksum=checksum)
    return None


def _read_summary(file: Path) -> ShardSummary:
    return ShardSummary.from_json(pl.read_parquet_metadata(file)[_FOOTER])


def read_ids(folder: Path, number: int) -> list[str]:
    """The ids of a unit that no other row can have, also of skipped and unusable rows."""
    file = folder / shard_name(number)
    ids: list[str] = pl.read_parquet(file, columns=["id"], glob=False)["id"].to_list()
    summary = _read_summary(file)
    unusable = [fault.id for fault in summary.faults if fault.reason.startswith(UNUSABLE)]
    return [*ids, *summary.skipped_ids, *filter(None, unusable)]


def write_rejected(folder: Path, summaries: Mapping[int, ShardSummary]) -> None:
    """Write all rejected rows, in the order of the input."""

    def write(file: Path) -> None:
        with file.open("w", encoding="utf-8", errors="backslashreplace") as opened:
            for summary in sorted(summaries.values(), key=lambda summary: summary.start):
                if summary.rejected:
                    for fault in _read_summary(folder / summary.file_name).faults:
                        opened.write(json.dumps(asdict(fault), ensure_ascii=False) + "\n")

    with writing(folder):
        write_whole(folder / REJECTED, write)


def remove_partial(folder: Path, whole: Iterable[int]) -> None:
    """Remove what a killed process left half-written, and shards other than the whole ones."""
    kept = {folder / shard_name(number) for number in whole}
    shards = {*folder.glob("part-[0-9]*.parquet")} - kept
    for file in [*shards, *folder.glob(".part-*.parquet.*"), *folder.glob(".*.json*.*")]:
        with suppress(OSError):
            file.unlink()
