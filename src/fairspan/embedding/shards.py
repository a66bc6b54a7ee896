"""Shards: one Parquet file per unit, with what is known of the unit in its footer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fairspan.corpus.rows import Cursor, Fault
from fairspan.errors import FairspanError
from fairspan.report.files import write_whole
from fairspan.runs.folder import writing

VECTORS = {"float32": (np.float32, pl.Float32), "float16": (np.float16, pl.Float16)}
REJECTED = "rejected.jsonl"
_FOOTER = "fairspan"
UNUSABLE = "the model's vector"
"""What the reason begins with where a row was rejected for its vector."""


@dataclass(frozen=True, slots=True)
class Record:
    """What a shard says of its unit.

    Attributes:
        rows: rows with a vector.
        truncated: those of them that are longer than the model reads.
        tokens: what the model read, prompts and special tokens included.
        seconds: that the model took.
        rejected: rows without a vector.
        skipped: rows that keep the vector of the plain model.
        faults, skipped_ids: of the rejected and the skipped rows; empty in memory, where only the shard has them.
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

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=True)

    @classmethod
    def from_json(cls, text: str) -> Record:
        given: dict[str, Any] = json.loads(text)
        faults = [Fault(**one) for one in given.pop("faults")]
        return cls(**given | {end: Cursor(*given[end]) for end in ("start", "end")}, faults=faults)


def table(
    ids: Sequence[str], vectors: np.ndarray, tokens: np.ndarray, truncated: np.ndarray, dtype: str
) -> pl.DataFrame:
    """The columns of a shard: id, vector (a fixed-size list), tokens and truncated."""
    kind = pl.Array(VECTORS[dtype][1], vectors.shape[1])
    return pl.DataFrame(
        {
            "id": pl.Series(ids, dtype=pl.String),
            "vector": pl.Series(vectors, dtype=kind) if len(vectors) else pl.Series([], dtype=kind),
            "tokens": pl.Series(tokens, dtype=pl.Int32),
            "truncated": pl.Series(truncated, dtype=pl.Boolean),
        }
    )


def shard_name(number: int) -> str:
    return f"part-{number:05d}.parquet"


def write_shard(folder: Path, record: Record, rows: pl.DataFrame) -> None:
    """Write beside, then rename: a shard is there as a whole or not at all."""
    with writing(folder):
        write_whole(
            folder / shard_name(record.number),
            lambda file: rows.write_parquet(
                file, compression="zstd", compression_level=1, metadata={_FOOTER: record.to_json()}
            ),
        )


def read_records(folder: Path) -> dict[int, Record]:
    """What the shards of a folder say of their units, by their footers; a file that was cut off has none."""
    found: dict[int, Record] = {}
    for file in sorted(folder.glob("part-*.parquet")):
        with suppress(KeyError, TypeError, ValueError, pl.exceptions.PolarsError):
            record = _read_record(file)
            if file.name == shard_name(record.number):
                found[record.number] = replace(record, faults=(), skipped_ids=())
    return found


def _read_record(file: Path) -> Record:
    try:
        return Record.from_json(pl.read_parquet_metadata(file)[_FOOTER])
    except OSError as error:
        raise FairspanError(f"{file} cannot be read: {error.strerror or error}.") from None


def read_ids(folder: Path, number: int) -> list[str]:
    """The ids of a unit that no other row can have: also of rows that were skipped, or embedded and then rejected."""
    file = folder / shard_name(number)
    ids: list[str] = pl.read_parquet(file, columns=["id"], glob=False)["id"].to_list()
    record = _read_record(file)
    bad = (
        one.id for one in record.faults if one.id is not None and one.reason.startswith(UNUSABLE)
    )
    return [*ids, *record.skipped_ids, *bad]


def write_rejected(folder: Path, records: Mapping[int, Record]) -> None:
    """All rejected rows, in the order of the input."""

    found = sorted((one for one in records.values() if one.rejected), key=lambda one: one.start)
    faults = (
        fault for one in found for fault in _read_record(folder / shard_name(one.number)).faults
    )

    def write(file: Path) -> None:
        with file.open("w", encoding="utf-8", errors="backslashreplace") as opened:
            opened.writelines(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in faults)

    with writing(folder):
        write_whole(folder / REJECTED, write)


def remove_partial(folder: Path, whole: Iterable[int]) -> None:
    """What a killed process left half-written, and shards that are not among the whole ones."""
    kept = {folder / shard_name(number) for number in whole}
    shards = {*folder.glob("part-[0-9]*.parquet")} - kept
    for file in [*shards, *folder.glob(".part-*.parquet.*"), *folder.glob(".*.json*.*")]:
        with suppress(OSError):
            file.unlink()
