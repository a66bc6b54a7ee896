"""`embed`: a corpus of any size to vectors on disk, on one machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from fairspan.calibration.calibration import Calibration, as_calibration
from fairspan.calibration.file import read_if_file
from fairspan.calibration.temperature import Side
from fairspan.embedding.manifest import (
    new_manifest,
    now,
    read_manifest,
    refuse_other,
    refuse_other_engine,
    refuse_other_model,
    summary_of,
    write_manifest,
)
from fairspan.embedding.progress import Meter, RowProgress, as_row_progress
from fairspan.embedding.ray_checkpoint import remove_checkpoint
from fairspan.embedding.ray_engine import Cluster, RayEngine
from fairspan.embedding.shards import Record, explained, read_ids, read_records, remove_partial, write_rejected
from fairspan.embedding.source import Input, Place, Rejected, open_input
from fairspan.embedding.spec import ENGINES, ROWS_PER_SHARD, EmbedSpec
from fairspan.embedding.unit import SeenIds, Unit, missing_units, stopped
from fairspan.errors import CorpusError, DesignError, FairspanError, require_whole
from fairspan.model.source import DEFAULT_MODEL, Loading, find_model
from fairspan.runs.folder import locked

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from fairspan.embedding.encoder import Opened
    from fairspan.embedding.workers import Workers


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
        """Rows, rejected, truncated, tokens, shards, and the seconds that the model computed."""
        return dict(self.manifest["summary"])

    def scan(self) -> pl.LazyFrame:
        """All rows: id, vector, tokens, truncated."""
        return pl.scan_parquet(sorted(self.folder.glob("part-*.parquet")), glob=False)

    def to_dict(self) -> dict[str, Any]:
        return {"folder": str(self.folder), **self.manifest}


def embed(
    model: SentenceTransformer | str | None,
    input: str | Path,
    out: str | Path,
    *,
    calibration: Calibration | str | Path | Mapping[str, Any] | None = None,
    max_seq_length: int | None = None,
    side: Side = "document",
    prompt: str | None = None,
    text_field: str = "text",
    id_field: str | None = None,
    language_field: str | None = None,
    vectors: str = "float32",
    rows_per_shard: int = ROWS_PER_SHARD,
    batch_tokens: int | None = None,
    device: str | Sequence[str] | None = None,
    dtype: str | None = None,
    trust_remote_code: bool = False,
    strict: bool = False,
    engine: str = "local",
    address: str | None = None,
    actors: int | None = None,
    progress: bool | RowProgress = True,
) -> Embedding:
    """Embed every row of an input into Parquet shards with the columns id, vector, tokens and truncated.

    The same call again continues where the last one ended, or returns at once if all is done.

    Args:
        model: a SentenceTransformer, its folder or its name; None for all-MiniLM-L6-v2.
        input: a JSONL or Parquet file, a folder of them, a folder of .txt and .md files, or a Hugging Face dataset
            as `name`, `name:split` or `name:configuration:split`.
        out: the folder to write.
        calibration: a preset's name, a `Calibration`, or the file of one; by default the model as it is.
        max_seq_length: the longest text to read, in tokens. Longer ones are cut and marked.
        side: "document" or "query".
        prompt: put before every text; by default the model's own for the side.
        id_field: by default `id` where it is there, and otherwise ids are made of the file and the row.
        language_field: of the language of each text, such as "de", for a model whose correction of languages asks for
            it; by default a detector names it.
        vectors: "float32" or "float16".
        rows_per_shard: rows of the input for one shard; fewer where texts are very long.
        batch_tokens: tokens in a batch, padding included.
        device: one or several, such as "cuda:0,cuda:1"; each of several gets a process of its own.
        strict: stop at the first row that cannot be embedded. By default such rows go to `rejected.jsonl`.
        engine: "local" for this machine, or "ray" for the actors of a Ray cluster.
        address: of a Ray cluster that is running, "auto" or host:port; by default Ray starts on this machine.
        actors: how many load the model; by default one per GPU of the cluster, or one per four CPUs.
    """
    asked = as_request(
        model,
        input,
        out,
        calibration=None if calibration is None else as_calibration(read_if_file(calibration)),
        max_seq_length=max_seq_length,
        side=side,
        prompt=prompt,
        text_field=text_field,
        id_field=id_field,
        language_field=language_field,
        vectors=vectors,
        rows_per_shard=rows_per_shard,
        batch_tokens=batch_tokens,
        device=device,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
        strict=strict,
        engine=engine,
        address=address,
        actors=actors,
    )
    return asked.answer() or asked.run(as_row_progress(progress))


def as_request(
    model: SentenceTransformer | str | None,
    input: str | Path,
    out: str | Path,
    *,
    batch_tokens: int | None = None,
    device: str | Sequence[str] | None = None,
    dtype: str | None = None,
    trust_remote_code: bool = False,
    strict: bool = False,
    engine: str = "local",
    address: str | None = None,
    actors: int | None = None,
    **fields: Any,
) -> Request:
    """The keywords of `embed`, checked; `fields` are those of `EmbedSpec`."""
    devices = as_devices(device)
    spec = EmbedSpec(**fields)
    cluster = as_cluster(engine, address, actors)
    if cluster is not None and spec.language_field is not None:
        raise DesignError("[[engine=ray]] does not carry languages along with texts: omit [[language_field]].")
    if cluster is not None:
        model, input, out = (_seen_from_anywhere(one) for one in (model, input, out))
    loading = (dtype, trust_remote_code, batch_tokens)
    source = open_input(str(input), spec.fields)
    return Request(model, source, Path(out), spec, devices, *loading, strict, cluster)


def _seen_from_anywhere(given: Any) -> Any:
    """A path that does not depend on where a process runs; what is no path stays as it is."""
    is_path = isinstance(given, Path) or (isinstance(given, str) and Path(given).exists())
    return str(Path(given).absolute()) if is_path else given


def as_cluster(engine: str, address: str | None, actors: int | None) -> Cluster | None:
    """Where actors run; None for an engine without them."""
    if engine not in ENGINES:
        raise DesignError(f"[[engine]] is {' or '.join(ENGINES)}, got {engine!r}.")
    if engine == "ray":
        return Cluster(address, actors)
    for name, value in {"address": address, "actors": actors}.items():
        if value is not None:
            raise DesignError(f"[[{name}]] is for [[engine=ray]].")
    return None


def as_devices(given: str | Sequence[str] | None) -> tuple[str | None, ...]:
    """ "cuda:0,cuda:1" as two devices; None for the fastest that is there."""
    if given is None:
        return (None,)
    names = given.split(",") if isinstance(given, str) else list(given)
    return tuple(name.strip() for name in names) or (None,)


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for, checked as far as that goes without loading a model."""

    model: SentenceTransformer | str | None
    source: Input
    out: Path
    spec: EmbedSpec
    devices: tuple[str | None, ...]
    dtype: str | None
    trust_remote_code: bool
    batch_tokens: int | None
    strict: bool
    cluster: Cluster | None = None

    def __post_init__(self) -> None:
        for device in self.devices:
            self.loading(device)
        if self.batch_tokens is not None:
            require_whole("batch_tokens", self.batch_tokens)
        if self.name is not None:
            find_model(self.name)
        elif self.cluster is not None:
            raise DesignError(
                "[[engine=ray]] needs a model that is given by its name or folder: every actor loads its own."
            )
        elif len(self.devices) > 1:
            raise DesignError("several devices need a model that is given by its name or folder: each loads its own.")
        if self.cluster is not None and self.devices not in ((None,), ("cpu",), ("cuda",)):
            raise DesignError("[[device]] is cpu or cuda with [[engine=ray]]: set how many with [[actors]].")
        place, folder = Path(self.source.name).absolute(), self.out.absolute()
        if place == folder or place in folder.parents:
            raise DesignError(
                f"{self.out} is in the input {self.source.name} and would change it: choose another folder."
            )

    @property
    def name(self) -> str | None:
        """None for a model that is loaded already."""
        return self.model or DEFAULT_MODEL if isinstance(self.model, str | None) else None

    @property
    def engine(self) -> str:
        return "local" if self.cluster is None else "ray"

    def loading(self, device: str | None) -> Loading:
        return Loading(None, device, self.dtype, self.trust_remote_code)

    def answer(self) -> Embedding | None:
        """What is there already, if it is complete; nothing is loaded for that.

        Raises:
            LogError: if the folder was made otherwise, or by something else.
        """
        manifest = self._begun()
        if manifest is None:
            return None
        done = manifest["status"] == "complete" and manifest["model"] == self.name
        return Embedding(self.out, manifest) if done else None

    def run(self, shown: RowProgress) -> Embedding:
        """Embed what is missing."""
        with locked(self.out, "or choose another folder", explained):
            remove_partial(self.out)
            records = read_records(self.out)
            try:
                manifest = self._compute(records, shown)
            except BaseException:
                with suppress(FairspanError):  # of two reasons to stop, the first is reported
                    write_rejected(self.out, records)
                raise
            finally:
                shown.stop()
            if not records:
                raise CorpusError(f"{self.source.name} holds no rows.")
            write_rejected(self.out, records)
            manifest |= {"status": "complete", "finished": now(), "summary": summary_of(records.values())}
            write_manifest(self.out, manifest)
            if self.cluster is not None:
                remove_checkpoint(self.out)
        return Embedding(self.out, manifest)

    def _begun(self) -> dict[str, Any] | None:
        """The manifest of an earlier call that asked for the same."""
        manifest = read_manifest(self.out)
        if manifest is not None:
            refuse_other(self.out, manifest, self.spec, self.source)
            refuse_other_engine(self.out, manifest, self.engine)
        return manifest

    def _compute(self, records: dict[int, Record], shown: RowProgress) -> dict[str, Any]:
        """Write the missing shards, and add them to the records; returns the manifest."""
        manifest = self._begun()
        shown.stage(f"loading {self.name}" if self.name is not None else "preparing")
        engine = self._engine() if self.cluster is None else RayEngine(self.cluster, self)
        try:
            if manifest is None:
                manifest = new_manifest(self.engine, engine.name, self.spec, self.source, engine.identity)
                write_manifest(self.out, manifest)
            else:
                refuse_other_model(self.out, manifest, engine.identity)
            if manifest["status"] == "complete" and "ray" in (self.engine, manifest["engine"]):
                return manifest  # the engines number their shards differently
            shown.stage("embedding")
            finished = sum(one.end.done - one.start.done for one in records.values())
            meter = Meter(shown, max(0, self.source.total - finished), sum(one.rows for one in records.values()))
            if isinstance(engine, RayEngine):
                engine.embed(records, meter)
                return manifest
            units = self._units({number: one.end for number, one in records.items()})
            for record in engine.embed(units, self.out, strict=self.strict, advance=meter.advance):
                records[record.number] = record
                meter.finish(record.rows)
        finally:
            engine.close()
        return manifest

    def _engine(self) -> Opened | Workers:
        if len(self.devices) > 1 and self.name is not None:
            from fairspan.embedding.workers import Workers

            jobs = [(self.name, self.spec, self.loading(device), self.batch_tokens) for device in self.devices]
            return Workers(jobs)
        from fairspan.embedding.encoder import open_encoder

        return open_encoder(self.model, self.spec, self.loading(self.devices[0]), self.batch_tokens)

    def _units(self, finished: Mapping[int, Place]) -> Iterator[Unit]:
        return self.checked(missing_units(self.source, finished, self.spec.rows_per_shard), finished)

    def checked(self, units: Iterable[Unit], finished: Iterable[int]) -> Iterator[Unit]:
        """The units with the second row of an id rejected; the ids of finished shards count as well."""
        seen = SeenIds()
        for number in finished:
            seen.add(read_ids(self.out, number))
        for unit in units:
            checked = seen.without_seen(unit)
            if checked.rejected and self.strict:
                raise stopped(min(checked.rejected, key=Rejected.place))
            if unit.number == 0 and not checked.rows:
                bad = checked.rejected[0]
                raise CorpusError(
                    f"none of the first {len(checked.rejected):,} rows of {self.source.name} can be embedded; "
                    f"{bad.file}, row {bad.row}: {bad.reason}"
                )
            yield checked
