"""`embed`: a corpus of any size to vectors on disk."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from fairspan.corpus.source import open_source
from fairspan.embedding.manifest import (
    new_manifest,
    read_manifest,
    refuse_other_model,
    summary_of,
    write_manifest,
)
from fairspan.embedding.options import EmbedOptions
from fairspan.embedding.shards import Record, read_ids, read_records, remove_partial, write_rejected
from fairspan.embedding.unit import SeenIds, Unit, missing_units, stopped
from fairspan.encoding.calling import call_of
from fairspan.errors import CorpusError, DesignError, FairspanError
from fairspan.report.text import counted
from fairspan.runs.folder import locked
from fairspan.runs.key import model_key
from fairspan.runs.log import now
from fairspan.runs.progress import Progress, as_progress

if TYPE_CHECKING:
    from fairspan.embedding.engines import Engine


class Meter:
    """Adds up progress and passes it on."""

    def __init__(self, shown: Progress, total: int, rows: int) -> None:
        self._shown, self._rows, self._tokens, self._began = shown, rows, 0, time.monotonic()
        shown.start(total)

    def advance(self, rows: int, tokens: int, amount: float) -> None:
        """Report rows and tokens that were read, and their share of the input."""
        self._rows += rows
        self._tokens += tokens
        self._shown.advance(amount)
        speed = self._tokens / max(1e-9, time.monotonic() - self._began)
        self._shown.say(f"{counted(self._rows, 'row')}, {speed:,.0f} tokens/s")


@dataclass(frozen=True, slots=True)
class Embedding:
    """A folder of vectors.

    Attributes:
        manifest: `fairspan-embed.json`.
    """

    folder: Path
    manifest: Mapping[str, Any]

    @property
    def summary(self) -> dict[str, Any]:
        """Rows, rejected, skipped, truncated, tokens, shards, and the seconds that the model computed."""
        return dict(self.manifest["summary"])

    def scan(self) -> pl.LazyFrame:
        """All rows: id, vector, tokens, truncated."""
        return pl.scan_parquet(sorted(self.folder.glob("part-*.parquet")), glob=False)

    def to_dict(self) -> dict[str, Any]:
        return {"folder": str(self.folder), **self.manifest}


class Job:
    """What was asked for, checked as far as that goes without loading a model."""

    def __init__(self, asked: EmbedOptions) -> None:
        self.asked, self.out = asked, Path(asked.out)
        if asked.engine == "ray":
            from fairspan.embedding.ray_engine import refuse_unreachable

            refuse_unreachable(asked.address)
        self.source = open_source(asked.input, asked.fields)
        self._begun_units: Iterator[Unit] | None = None
        place, folder = Path(self.source.name).absolute(), self.out.absolute()
        if place == folder or place in folder.parents:
            raise DesignError(
                f"{self.out} is in the input {self.source.name} and would change it: choose another folder."
            )

    def answer(self) -> Embedding | None:
        """The finished result, if there is one, without loading anything. Otherwise starts reading the input.

        Raises:
            FairspanError: if the folder was made otherwise, or by something else.
            CorpusError: if the first rows of the input cannot be embedded.
        """
        manifest, records = read_manifest(self.out, self.asked, self.source), read_records(self.out)
        key = self._model_key()
        whole = manifest is not None and (manifest["summary"] or {}).get("shards") == len(records)
        if manifest is not None and whole and key is not None and manifest.get("model_key") == key:
            return Embedding(self.out, manifest)
        if not records:
            units = self._units({})
            first = next(units, None)
            if first is None:
                raise CorpusError(f"{self.source.name} holds no rows.")
            self._begun_units = chain([first], units)
        for device in self.asked.devices if self.asked.engine == "local" else ():
            self.asked.loading(device).require_device()
        return None

    def run(self, shown: Progress) -> Embedding:
        """Embed what is missing."""
        with locked(self.out):
            records = read_records(self.out)
            remove_partial(self.out, records)
            try:
                manifest = self._compute(records, shown)
            except BaseException:
                with suppress(FairspanError):  # of two reasons to stop, the first is reported
                    if records:
                        write_rejected(self.out, records)
                raise
            finally:
                shown.stop()
            write_rejected(self.out, records)
            manifest |= {
                "status": "complete",
                "finished": now(),
                "summary": summary_of(records.values()),
            }
            write_manifest(self.out, manifest)
        return Embedding(self.out, manifest)

    def _model_key(self) -> str | None:
        """Of the files of a model that is given by its name."""
        asked = self.asked
        return (
            None if asked.name is None else model_key(asked.name, asked.loading(asked.devices[0]))
        )

    def _compute(self, records: dict[int, Record], shown: Progress) -> dict[str, Any]:
        """Write the missing shards, and add them to the records; returns the manifest."""
        from fairspan.embedding.engines import ThisProcess, embed_units

        manifest = read_manifest(self.out, self.asked, self.source)
        shown.stage(f"loading {self.asked.name}" if self.asked.name is not None else "preparing")
        key = self._model_key()
        engine = self._engine()
        try:
            if manifest is None:
                manifest = new_manifest(engine.name, self.asked, self.source, engine.identity)
            else:
                refuse_other_model(self.out, manifest, engine.identity)
            lost = (manifest["summary"] or {"shards": 0})["shards"] - len(records)
            # A model that was just fetched from the hub had no files before.
            manifest |= {
                "status": "incomplete",
                "model_key": key or self._model_key(),
                "summary": None,
            }
            write_manifest(self.out, manifest)
            shown.stage(
                f"embedding {counted(lost, 'shard')} again, missing or damaged"
                if lost > 0
                else "embedding"
            )
            finished = sum(one.end.done - one.start.done for one in records.values())
            meter = Meter(
                shown,
                max(0, self.source.total - finished),
                sum(one.rows for one in records.values()),
            )
            if isinstance(engine, ThisProcess):
                engine.advance = meter.advance
            units = self._begun_units if self._begun_units and not records else self._units(records)
            for record in embed_units(engine, units):
                records[record.number] = record
                if not (isinstance(engine, ThisProcess) and record.tokens):
                    meter.advance(record.rows, record.tokens, record.end.done - record.start.done)
        finally:
            engine.close()
        return manifest

    def _engine(self) -> Engine:
        if self.asked.engine == "ray":
            from fairspan.embedding.ray_engine import RayActors

            return RayActors(self.asked)
        from fairspan.embedding.engines import Processes, ThisProcess

        return Processes(self.asked) if len(self.asked.devices) > 1 else ThisProcess(self.asked)

    def _units(self, records: Mapping[int, Record]) -> Iterator[Unit]:
        """The missing units, with rows of repeated ids rejected; the ids of finished shards count as well."""
        seen = SeenIds()
        finished = {number: record.end for number, record in records.items()}
        for number in finished:
            seen.add(read_ids(self.out, number))
        for unit in missing_units(
            self.source, self.asked.fields, finished, self.asked.rows_per_shard
        ):
            checked = seen.without_seen(unit)
            if checked.rejected and self.asked.strict:
                raise stopped(min(checked.rejected, key=lambda one: (one.file, one.row)))
            if unit.number == 0 and not checked.rows:
                raise CorpusError(
                    f"none of the first {len(checked.rejected):,} rows of {self.source.name} can be embedded; "
                    f"{checked.rejected[0]}"
                )
            yield checked


def _embed(asked: EmbedOptions) -> Embedding:
    """Embed every row of an input into Parquet shards with the columns id, vector, tokens and truncated.

    The same call continues an interrupted run, or returns at once if everything is done.
    """
    job = Job(asked)
    return job.answer() or job.run(as_progress(asked.progress))


embed = call_of(EmbedOptions, _embed, "embed", __name__)
