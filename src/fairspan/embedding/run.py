"""`embed`: a corpus of any size to vectors on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import polars as pl

from fairspan.calibration.words import in_words
from fairspan.corpus.segment import few
from fairspan.corpus.source import Source, open_source
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
    read_shards,
    remove_partial,
    shard_files,
    shard_name,
    write_rejected,
)
from fairspan.embedding.unit import Unit, units_of
from fairspan.encoding.calling import call_of
from fairspan.errors import CorpusError, DesignError, FairspanError
from fairspan.report.text import counted
from fairspan.runs.folder import locked
from fairspan.runs.header import now
from fairspan.runs.progress import Progress, as_progress

if TYPE_CHECKING:
    from fairspan.embedding.engines import Engine


class Meter:
    """Adds up progress and passes it on."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = Lock()
        self._rows = 0
        self._tokens = 0
        self._stored = 0
        self._began: float | None = None

    def start(self, total: int, rows: int) -> None:
        """Start the bar when the model is ready; `rows` have vectors already."""
        self._rows = rows
        self._began = time.monotonic()
        self._progress.start(total)
        self._progress.advance(self._stored, stored=True)

    def skip(self, amount: int) -> None:
        """Count input that has vectors already."""
        if self._began is None:
            self._stored += amount
        else:
            self._progress.advance(amount, stored=True)

    def advance(self, rows: int, tokens: int, amount: float) -> None:
        """Report rows and tokens that were read, and their share of the input."""
        with self._lock:
            self._rows += rows
            self._tokens += tokens
            self._progress.advance(amount)
            speed = self._tokens / max(1e-9, time.monotonic() - (self._began or 0))
            self._progress.say(f"{counted(self._rows, 'row')}, {speed:,.0f} tokens/s")


@dataclass(frozen=True, slots=True)
class Embedding:
    """A folder of vectors, and the content of its `fairspan-embed.json`.

    Attributes:
        shards: how many shards this call embedded.
        embedded_again: the names of those that were there before, missing or damaged.
    """

    folder: Path
    manifest: Mapping[str, Any]
    shards: int = 0
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
        """All rows in the order of the input: id, vector, tokens, truncated."""
        return pl.scan_parquet(shard_files(self.folder), glob=False)

    def to_dict(self) -> dict[str, Any]:
        return {"folder": str(self.folder), **self.manifest, "notes": self.notes}


class ChangedInputError(CorpusError):
    """The texts of a folder's vectors are not those of the input."""

    def __init__(self, folder: str | Path, difference: str) -> None:
        remedy = "Choose another folder, or remove this one to start over."
        super().__init__(f"{folder} was made from other texts: {difference}. {remedy}")


def run(
    options: EmbedOptions, progress: Progress, before_loading: Callable[[], None] = lambda: None
) -> Embedding:
    """What `embed` returns; `before_loading` is called when all is checked that needs no model."""
    if options.engine == "ray":
        from fairspan.embedding.ray_engine import refuse_unreachable

        refuse_unreachable(options.address)
    else:
        options.loading.require_device()
    folder = Path(options.out)
    source = _open_input(options, folder)
    read_manifest(folder, options)  # no lock is left in a folder of something else
    try:
        with locked(folder):
            return _run_alone(options, folder, source, progress, before_loading)
    finally:
        progress.stop()


def _open_input(options: EmbedOptions, folder: Path) -> Source:
    """The input; raise if the folder is in it, whose next reader would read vectors as texts."""
    if isinstance(options.input, str | Path):
        name = str(options.input)
        for path in (Path(name), Path(name.partition(":")[0])):
            place = path.expanduser().resolve()
            if place.exists() and place in (folder.resolve(), *folder.resolve().parents):
                raise DesignError(
                    f"{folder} is in the input {name} and would change it: choose another folder."
                )
    columns = [options.text_field, *filter(None, [options.id_field])]
    return open_source(options.input, columns=columns, optional=["id"])


def _run_alone(
    options: EmbedOptions,
    folder: Path,
    source: Source,
    progress: Progress,
    before_loading: Callable[[], None],
) -> Embedding:
    """Embed what is missing; no other process writes the folder meanwhile."""
    manifest = read_manifest(folder, options)
    shards, damaged = read_shards(folder)
    meter = Meter(progress)
    missing = _missing(source, options, shards, meter)
    first = next(missing, None)
    if first is None and not shards:
        raise CorpusError(f"{source.name} holds no rows.")
    before_loading()
    progress.stage("preparing" if options.name is None else f"loading {options.name}")
    with closing(_open_engine(options, meter)) as engine:
        if manifest is None:
            manifest = new_manifest(engine.name, options, source, engine.identity)
        refuse_other_model(folder, manifest, engine.identity)
        was_complete = manifest["status"] == "complete"
        if first is None and was_complete and manifest["summary"] == total_of(shards.values()):
            return Embedding(folder, manifest)
        remove_partial(folder)
        manifest |= {"status": "incomplete", "summary": None}
        write_manifest(folder, manifest)
        again = " again what is missing or damaged" if damaged or was_complete else ""
        progress.stage(f"embedding{again}")
        meter.start(source.total, sum(shard.rows for shard in shards.values()))
        embedded = _embed(engine, chain(filter(None, [first]), missing), folder)
    shards |= {shard.number: shard for shard in embedded}
    write_rejected(folder, shards.values())
    summary = total_of(shards.values())
    manifest |= {"status": "complete", "finished": now(), "summary": summary}
    write_manifest(folder, manifest)
    names = sorted(shard.file_name for shard in embedded)
    lost = tuple(name for name in names if was_complete or name in damaged)
    return Embedding(folder, manifest, len(embedded), lost)


def _missing(
    source: Source, options: EmbedOptions, shards: Mapping[int, ShardSummary], meter: Meter
) -> Iterator[Unit]:
    """The units without a shard; raise if the texts of a shard are not those of its unit."""
    number = -1
    for unit in units_of(source, options):
        number = unit.number
        if number in shards:
            if unit.digest != shards[number].texts:
                difference = f"{unit.place} are not those of {shard_name(number)}"
                raise ChangedInputError(options.out, difference)
            meter.skip(unit.amount)
            continue
        faults = [row for row in unit.rows if row.fault]
        if faults and options.strict:
            raise faults[0].stopped()
        if number == 0 and len(faults) == len(unit.rows):
            raise CorpusError(
                f"none of the first {len(faults):,} rows of {source.name} can be embedded; "
                f"{unit.place}: {faults[0].fault}"
            )
        yield unit
    if number < max(shards, default=-1):
        difference = f"{source.name} has no rows for {shard_name(number + 1)}"
        raise ChangedInputError(options.out, difference)


def _open_engine(options: EmbedOptions, meter: Meter) -> Engine:
    """The workers that the options ask for, with the model loaded."""
    if options.engine == "ray":
        from fairspan.embedding.ray_engine import RayActors

        return RayActors(options, meter.advance)
    from fairspan.embedding.engines import ThisProcess

    return ThisProcess(options, meter.advance)


def _embed(engine: Engine, units: Iterator[Unit], folder: Path) -> list[ShardSummary]:
    """The shards of units; raise at the end if some of them could not be embedded."""
    from fairspan.embedding.engines import embed_units

    embedded: list[ShardSummary] = []
    failed: list[str] = []
    try:
        for unit, shard in embed_units(engine, units):
            if shard is None:
                failed.append(f"{shard_name(unit.number)} ({unit.place})")
            else:
                embedded.append(shard)
    except ChangedInputError:
        # Units before the difference may be of other texts as well.
        for shard in embedded:
            (folder / shard.file_name).unlink(missing_ok=True)
        raise
    if failed:
        raise FairspanError(
            f"{folder} is incomplete: the process that embeds died every time at {few(failed)}. "
            "Perhaps memory ran out. All else is done; the same command tries again what is "
            "missing."
        )
    return embedded


@call_of(EmbedOptions)
def embed(options: EmbedOptions) -> Embedding:
    """Embed every row of an input into Parquet shards: id, vector, tokens and truncated.

    The same call continues an interrupted run, or returns at once if everything is done.
    """
    return run(options, as_progress(options.progress))
