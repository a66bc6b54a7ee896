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

from fairspan.calibration.words import in_words
from fairspan.corpus.segment import few
from fairspan.corpus.source import Records, open_source
from fairspan.embedding.manifest import (
    calibrations_of,
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
    shard_name,
    write_rejected,
)
from fairspan.embedding.unit import ChangedInputError, SeenIds, Unit, missing_units, stopped
from fairspan.encoding.calling import call_of
from fairspan.errors import CorpusError, DesignError, FairspanError
from fairspan.report.text import counted
from fairspan.runs.folder import locked
from fairspan.runs.header import now
from fairspan.runs.progress import Progress, as_progress

if TYPE_CHECKING:
    from fairspan.embedding.engines import Engine

# Between two records of the checksums, so that a kill loses few of them.
_SECONDS = 10


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
    """A folder of vectors, the content of its `fairspan-embed.json`, and shards made again."""

    folder: Path
    manifest: Mapping[str, Any]
    embedded_again: tuple[str, ...] = ()

    @property
    def notes(self) -> list[str]:
        """What a reader should know, such as which shards were damaged."""
        notes = [*self.manifest.get("notes", ())]
        if self.embedded_again:
            notes.append(f"missing or damaged, and embedded again: {few(self.embedded_again)}")
        return notes

    @property
    def summary(self) -> dict[str, Any]:
        """Counts of rows, tokens and shards, and the seconds that the model computed."""
        return dict(self.manifest["summary"])

    @property
    def calibration(self) -> str:
        """How the model was calibrated, in words."""
        calibrations = calibrations_of(self.manifest["encoder"]["calibrations"])
        return " and ".join(dict.fromkeys(map(in_words, calibrations)))

    def scan(self) -> pl.LazyFrame:
        """All rows: id, vector, tokens, truncated."""
        return pl.scan_parquet(sorted(self.folder.glob("part-*.parquet")), glob=False)

    def to_dict(self) -> dict[str, Any]:
        return {"folder": str(self.folder), **self.manifest, "notes": self.notes}


class Job:
    """A call of `embed`, checked as far as that goes without loading a model."""

    def __init__(self, options: EmbedOptions) -> None:
        """Open the input."""
        self.options = options
        self.out = Path(options.out)
        if options.engine == "ray":
            from fairspan.embedding.ray_engine import refuse_unreachable

            refuse_unreachable(options.address)
        id_field = options.id_field
        columns = [options.text_field] if id_field is None else [options.text_field, id_field]
        self.source = open_source(options.input, columns=columns, optional=["id"])
        self._begun_units: Iterator[Unit] | None = None
        self._shards: dict[int, ShardSummary] = {}
        self._lost: list[str] = []
        self.is_complete = False
        place = Path(self.source.name).absolute()
        if place in (self.out.absolute(), *self.out.absolute().parents):
            raise DesignError(
                f"{self.out} is in the input {self.source.name} and would change it: choose "
                "another folder."
            )

    def begin(self) -> None:
        """Find out what is missing, and read the first rows, before a model is loaded."""
        manifest = read_manifest(self.out, self.options, self.source)
        if manifest is not None:
            self._verify(manifest)
        if not self._shards:
            units = self._units({})
            first = next(units, None)
            if first is None:
                raise CorpusError(f"{self.source.name} holds no rows.")
            self._begun_units = chain([first], units)
        if self.options.engine == "local":
            for device in self.options.devices:
                self.options.loading(device).require_device()

    def _verify(self, manifest: Mapping[str, Any]) -> None:
        """Find out which shards are whole, and whether they are all, of the texts of the input."""
        self._shards = read_summaries(self.out, manifest["checksums"])
        files = {file.name for file in self.out.glob("part-[0-9]*.parquet")}
        whole = {shard.file_name for shard in self._shards.values()}
        self._lost = sorted({*files, *manifest["checksums"]} - whole)
        is_summed = manifest["summary"] == total_of(self._shards.values())
        self.is_complete = is_summed and not self._lost
        if not isinstance(self.source, Records):
            return
        # Before a model is loaded; an iterator that is continued is compared while it is read.
        if self.is_complete or not self.source.is_read_once:
            for unit in missing_units(self.source, self.options, self._shards):
                if self.is_complete:
                    rows = f"{self.source.name} from {unit.start.row + 1:,} on were not there"
                    raise ChangedInputError(self.out, rows)
                if unit.number > max(self._shards, default=-1):
                    break

    def run(self, progress: Progress) -> Embedding:
        """Embed what is missing."""
        try:
            if self.is_complete:
                engine, manifest = self._open(progress)
                engine.close()
                return Embedding(self.out, manifest)
            with locked(self.out):
                manifest = self._compute(progress)
        finally:
            progress.stop()
        return Embedding(self.out, manifest, tuple(self._lost))

    def _open(self, progress: Progress) -> tuple[Engine, dict[str, Any]]:
        """Workers with the model, and the manifest of the folder, which has to be of that model."""
        name = self.options.name
        progress.stage("preparing" if name is None else f"loading {name}")
        engine = self._engine()
        try:
            manifest = read_manifest(self.out, self.options, self.source)
            if manifest is None:
                manifest = new_manifest(engine.name, self.options, self.source, engine.identity)
            refuse_other_model(self.out, manifest, engine.identity)
        except BaseException:
            engine.close()
            raise
        return engine, manifest

    def _compute(self, progress: Progress) -> dict[str, Any]:
        """Write the missing shards; returns the manifest."""
        engine, manifest = self._open(progress)
        shards = dict(self._shards)
        remove_partial(self.out, shards)
        try:
            manifest |= {"status": "incomplete", "summary": None}
            self._write(manifest, shards)
            again = f" {counted(len(self._lost), 'shard')} again, missing or damaged"
            progress.stage(f"embedding{again if self._lost else ''}")
            self._embed(engine, manifest, shards, progress)
            write_rejected(self.out, shards)
            done = total_of(shards.values())
            manifest |= {"status": "complete", "finished": now(), "summary": done}
            self._write(manifest, shards)
        except BaseException as error:
            with suppress(FairspanError):  # of two reasons to stop, the first is reported
                if isinstance(error, ChangedInputError):
                    # Units before the difference may be of other texts as well.
                    shards = self._shards
                    remove_partial(self.out, shards)
                if shards:
                    write_rejected(self.out, shards)
                self._write(manifest, shards)
            raise
        finally:
            engine.close()
        return manifest

    def _write(self, manifest: dict[str, Any], shards: Mapping[int, ShardSummary]) -> None:
        """Write the manifest with the checksums of these shards."""
        numbers = sorted(shards)
        manifest["checksums"] = {shard_name(n): shards[n].checksum for n in numbers}
        write_manifest(self.out, manifest)

    def _embed(
        self,
        engine: Engine,
        manifest: dict[str, Any],
        shards: dict[int, ShardSummary],
        progress: Progress,
    ) -> None:
        """Embed the missing units, and add their shards."""
        from fairspan.embedding import engines

        written = time.monotonic()
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
            if time.monotonic() - written > _SECONDS:
                self._write(manifest, shards)
                written = time.monotonic()

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
        seen = SeenIds()
        for number in shards:
            seen.add(read_ids(self.out, number))
        for unit in missing_units(self.source, self.options, shards):
            checked = seen.without_seen(unit)
            if checked.rejected and self.options.strict:
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
    job.begin()
    return job.run(as_progress(options.progress))
