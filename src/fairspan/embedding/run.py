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
    total_of,
    write_manifest,
)
from fairspan.embedding.options import EmbedOptions
from fairspan.embedding.shards import (
    ShardSummary,
    read_ids,
    read_summaries,
    remove_partial,
    write_rejected,
)
from fairspan.embedding.unit import SeenIds, Unit, missing_units, stopped
from fairspan.encoding.calling import call_of
from fairspan.errors import CorpusError, DesignError, FairspanError
from fairspan.report.text import counted
from fairspan.runs.folder import locked
from fairspan.runs.header import now
from fairspan.runs.key import model_key
from fairspan.runs.progress import Progress, as_progress

if TYPE_CHECKING:
    from fairspan.embedding.engines import Engine


class Meter:
    """Adds up progress and passes it on."""

    def __init__(self, progress: Progress, total: int, rows: int) -> None:
        self._progress = progress
        self._rows = rows
        self._tokens = 0
        self._began = time.monotonic()
        progress.start(total)

    def advance(self, rows: int, tokens: int, amount: float) -> None:
        """Report rows and tokens that were read, and their share of the input."""
        self._rows += rows
        self._tokens += tokens
        self._progress.advance(amount)
        speed = self._tokens / max(1e-9, time.monotonic() - self._began)
        self._progress.say(f"{counted(self._rows, 'row')}, {speed:,.0f} tokens/s")


@dataclass(frozen=True, slots=True)
class Embedding:
    """A folder of vectors, and the content of its `fairspan-embed.json`."""

    folder: Path
    manifest: Mapping[str, Any]

    @property
    def summary(self) -> dict[str, Any]:
        """Counts of rows, tokens and shards, and the seconds that the model computed."""
        return dict(self.manifest["summary"])

    def scan(self) -> pl.LazyFrame:
        """All rows: id, vector, tokens, truncated."""
        return pl.scan_parquet(sorted(self.folder.glob("part-*.parquet")), glob=False)

    def to_dict(self) -> dict[str, Any]:
        return {"folder": str(self.folder), **self.manifest}


class Job:
    """A call of `embed`, checked as far as that goes without loading a model."""

    def __init__(self, options: EmbedOptions) -> None:
        """Open the input."""
        self.options = options
        self.out = Path(options.out)
        if options.engine == "ray":
            from fairspan.embedding.ray_engine import refuse_unreachable

            refuse_unreachable(options.address)
        self.source = open_source(options.input, options.fields)
        self._begun_units: Iterator[Unit] | None = None
        place = Path(self.source.name).absolute()
        if place in (self.out.absolute(), *self.out.absolute().parents):
            raise DesignError(
                f"{self.out} is in the input {self.source.name} and would change it: choose "
                "another folder."
            )

    def answer(self) -> Embedding | None:
        """The finished result, if there is one, without loading a model; else begins to read."""
        manifest = read_manifest(self.out, self.options, self.source)
        shards = read_summaries(self.out)
        key = self._model_key()
        if manifest is not None and key is not None:
            count = (manifest["summary"] or {}).get("shards")
            if manifest.get("model_key") == key and count == len(shards):
                return Embedding(self.out, manifest)
        if not shards:
            units = self._units({})
            first = next(units, None)
            if first is None:
                raise CorpusError(f"{self.source.name} holds no rows.")
            self._begun_units = chain([first], units)
        if self.options.engine == "local":
            for device in self.options.devices:
                self.options.loading(device).require_device()
        return None

    def run(self, progress: Progress) -> Embedding:
        """Embed what is missing."""
        with locked(self.out):
            shards = read_summaries(self.out)
            remove_partial(self.out, shards)
            try:
                manifest = self._compute(shards, progress)
            except BaseException:
                with suppress(FairspanError):  # of two reasons to stop, the first is reported
                    if shards:
                        write_rejected(self.out, shards)
                raise
            finally:
                progress.stop()
            write_rejected(self.out, shards)
            manifest["status"] = "complete"
            manifest["finished"] = now()
            manifest["summary"] = total_of(shards.values())
            write_manifest(self.out, manifest)
        return Embedding(self.out, manifest)

    def _model_key(self) -> str | None:
        """Of the files of a model that is given by its name."""
        options = self.options
        if options.name is None:
            return None
        return model_key(options.name, options.loading(options.devices[0]))

    def _compute(self, shards: dict[int, ShardSummary], progress: Progress) -> dict[str, Any]:
        """Write the missing shards, and add them to `shards`; returns the manifest."""
        name = self.options.name
        progress.stage("preparing" if name is None else f"loading {name}")
        key = self._model_key()
        engine = self._engine()
        try:
            manifest = self._begin(engine)
            lost = (manifest["summary"] or {"shards": 0})["shards"] - len(shards)
            again = f" {counted(lost, 'shard')} again, missing or damaged" if lost > 0 else ""
            # A model that was just fetched from the hub had no files before.
            manifest["model_key"] = key or self._model_key()
            manifest["status"] = "incomplete"
            manifest["summary"] = None
            write_manifest(self.out, manifest)
            progress.stage(f"embedding{again}")
            self._embed(engine, shards, progress)
        finally:
            engine.close()
        return manifest

    def _begin(self, engine: Engine) -> dict[str, Any]:
        """The manifest of the folder, or a new one; it has to be of the engine's model."""
        manifest = read_manifest(self.out, self.options, self.source)
        if manifest is None:
            return new_manifest(engine.name, self.options, self.source, engine.identity)
        refuse_other_model(self.out, manifest, engine.identity)
        return manifest

    def _embed(self, engine: Engine, shards: dict[int, ShardSummary], progress: Progress) -> None:
        """Embed the missing units, and add their shards."""
        from fairspan.embedding import engines

        left = self.source.total - sum(shard.done for shard in shards.values())
        meter = Meter(progress, max(0, left), sum(shard.rows for shard in shards.values()))
        reports = isinstance(engine, engines.ThisProcess)
        if isinstance(engine, engines.ThisProcess):
            engine.advance = meter.advance
        units = self._begun_units if self._begun_units and not shards else self._units(shards)
        for shard in engines.embed_units(engine, units):
            shards[shard.number] = shard
            if not (reports and shard.tokens):
                meter.advance(shard.rows, shard.tokens, shard.done)

    def _engine(self) -> Engine:
        """The workers that the options ask for, with the model loaded."""
        if self.options.engine == "ray":
            from fairspan.embedding.ray_engine import RayActors

            return RayActors(self.options)
        from fairspan.embedding.engines import Processes, ThisProcess

        several = len(self.options.devices) > 1
        return Processes(self.options) if several else ThisProcess(self.options)

    def _units(self, shards: Mapping[int, ShardSummary]) -> Iterator[Unit]:
        """The missing units, with rows of repeated ids rejected, also of ids in other shards."""
        options = self.options
        seen = SeenIds()
        for number in shards:
            seen.add(read_ids(self.out, number))
        ends = {number: shard.end for number, shard in shards.items()}
        for unit in missing_units(self.source, options.fields, ends, options.rows_per_shard):
            checked = seen.without_seen(unit)
            if checked.rejected and options.strict:
                raise stopped(min(checked.rejected, key=lambda fault: (fault.file, fault.row)))
            if unit.number == 0 and not checked.rows:
                raise CorpusError(
                    f"none of the first {len(checked.rejected):,} rows of {self.source.name} can "
                    f"be embedded; {checked.rejected[0]}"
                )
            yield checked


@call_of(EmbedOptions)
def embed(options: EmbedOptions) -> Embedding:
    """Embed every row of an input into Parquet shards: id, vector, tokens and truncated.

    The same call continues an interrupted run, or returns at once if everything is done.
    """
    job = Job(options)
    return job.answer() or job.run(as_progress(options.progress))
