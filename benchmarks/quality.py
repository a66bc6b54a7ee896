"""What the benchmarks of quality share: models, evaluations that survive a failing treatment, statistics, tables."""

from __future__ import annotations

import hashlib
import json
import math
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.model.loading import Loading, load_model
from fairspan.stats.bootstrap import Interval
from fairspan.stats.distributions import holm
from fairspan.stats.queries import QueryChange, query_change, query_effects

METRIC = "ndcg@10"
WINDOW = 512
TILED = "tiles+sides=document"
KEYS = ["task", "set", "order", "query", "document"]
STARTED = time.monotonic()


def say(line: str) -> None:
    print(f"[{time.monotonic() - STARTED:7.1f} s] {line}", flush=True)


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model in float32 under the name that tables show; `stored` is the dtype of its weights on disk."""

    name: str
    folder: str
    model: SentenceTransformer
    stored: str


def open_model(given: str, device: str | None) -> NamedModel:
    """Load NAME=FOLDER; the folder all-MiniLM-L6-v2 stands for the model of that package."""
    name, equals, folder = given.partition("=")
    if not equals:
        raise SystemExit(f"a model is given as NAME=FOLDER, such as granite=models/granite, got {given!r}.")
    model = load_model(folder, Loading(window=WINDOW, device=device, dtype="float32"))
    say(f"{name}: loaded on {model.device}")
    return NamedModel(name, folder, model, _stored_dtype(Path(folder)))


def _stored_dtype(folder: Path) -> str:
    """The most frequent dtype in a safetensors file."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        return "float32"
    with files[0].open("rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    kinds = [one["dtype"] for name, one in header.items() if name != "__metadata__"]
    return {"F16": "float16", "F32": "float32", "BF16": "bfloat16"}.get(max(set(kinds), key=kinds.count), "other")


@dataclass(slots=True)
class Bench:
    """Runs evaluations of one model and writes their rows to one file after each.

    Attributes:
        work: where runs and vectors are kept; the same folder continues an interrupted run.
        file: Parquet, with the rows of all models and tasks so far.
        batch: treatments per evaluation; if one fails, each is tried alone.
    """

    subject: NamedModel
    work: Path
    file: Path
    batch: int = 12
    failures: list[str] = field(default_factory=list)

    def measure(self, task: str, treatments: Sequence[str], **settings: Any) -> None:
        """Search a task under some treatments; settings are those of `fairspan.evaluate`."""
        for start in range(0, len(treatments), self.batch):
            self._measure(task, list(treatments[start : start + self.batch]), settings)

    def _measure(self, task: str, treatments: list[str], settings: dict[str, Any]) -> None:
        try:
            rows = self._evaluate(task, treatments, settings)
        except Exception as error:  # whatever one treatment raises, the others are measured
            if len(treatments) > 1:
                for treatment in treatments:
                    self._measure(task, [treatment], settings)
                return
            self.failures.append(f"{self.subject.name}, {task}, {treatments[0]}: {error}")
            say(f"FAILED {self.failures[-1]}")
            return
        add_rows(self.file, rows)
        for name, own in rows.group_by("arm", maintain_order=True):
            means = own.drop_nulls("position").group_by("position").agg(pl.col("value").mean())["value"].to_list()
            psi = f", PSI {1 - min(means) / max(means):.2f}" if means and max(means) > 0 else ""
            say(f"{self.subject.name}, {task}, {name[0]}: {own['value'].mean():.3f}{psi}, {len(own)} queries")

    def _evaluate(self, task: str, treatments: list[str], settings: dict[str, Any]) -> pl.DataFrame:
        subject, given = self.subject, dict(settings)
        asked = json.dumps([subject.name, task, treatments, settings], default=str)
        folder = self.work / "runs" / hashlib.sha256(asked.encode()).hexdigest()[:16]
        longer = "window" in given
        loading = {"device": str(subject.model.device), "dtype": "float32"} if longer else {}
        # Documents are as long as some treatment reads; the others read the beginning.
        treatments = list(dict.fromkeys([*treatments, *([TILED] if longer else [])]))
        log = fairspan.evaluate(
            subject.folder if longer else subject.model,
            given.pop("source"),
            treatments=treatments,
            documents_only=False,
            metrics=[METRIC],
            name=subject.name,
            out=folder,
            store=self.work / "store.sqlite",
            progress=False,
            **loading,
            **given,
        )
        size = settings.get("chunk_tokens")
        arms = pl.struct("treatment", "part").map_elements(lambda one: _arm(one, size), return_dtype=pl.String)
        columns = [pl.col(name) for name in ("set", "order", "query", "document", "position", "value")]
        named = [pl.lit(subject.name).alias("model"), pl.lit(task).alias("task"), arms.alias("arm")]
        return log.rows.filter(measure=METRIC).select(*named, *columns)


def _arm(row: dict[str, str], chunk_tokens: int | None) -> str:
    return row["treatment"] if row["part"] == "whole" else f"{row['part']} {chunk_tokens}"


def add_rows(file: Path, rows: pl.DataFrame) -> None:
    """Append to a Parquet file; of the same query under the same arm the later one counts."""
    if file.exists():
        rows = pl.concat([pl.read_parquet(file), rows])
    file.parent.mkdir(parents=True, exist_ok=True)
    rows.unique(["model", "arm", *KEYS], keep="last", maintain_order=True).write_parquet(file)


def arms_of(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The rows of each arm in the same order, the plain model's first, without arms that lack some of the queries."""
    counts = rows.group_by("arm", maintain_order=True).len()
    complete = sorted(counts.filter(pl.col("len") == counts["len"].max())["arm"], key=lambda arm: arm != "none")
    return {arm: rows.filter(arm=arm).sort("model", *KEYS) for arm in complete}


def change(before: pl.DataFrame, after: pl.DataFrame) -> QueryChange:
    """Paired by query and resampled by set."""
    values = before["value"].to_numpy(), after["value"].to_numpy()
    return query_change(*values, _groups(before), _clusters(before), rng=np.random.default_rng(0))


def _groups(rows: pl.DataFrame) -> np.ndarray:
    """The position of every query's evidence, numbered without gaps; 0 where it is not known."""
    positions = rows["position"].fill_null(0).to_numpy()
    there = np.unique(positions[positions > 0])
    return np.where(positions > 0, np.searchsorted(there, positions) + 1, 0)


def _clusters(rows: pl.DataFrame) -> np.ndarray:
    return rows.select(pl.concat_str("model", "task", "set", separator="/")).to_series().to_numpy()


def summarize(rows: pl.DataFrame, against: Sequence[str]) -> list[dict[str, Any]]:
    """One record per arm: mean, PSI and means by position, and the paired change from each of `against`.

    p values are corrected by Holm for the number of arms that are compared with the same one.
    """
    arms, records = arms_of(rows), []
    changes: dict[str, dict[str, QueryChange]] = {}
    for first in against:
        if first in arms:
            changes[first] = {name: change(arms[first], own) for name, own in arms.items() if name != first}
    adjusted = {
        first: dict(zip(found, holm([one.p_value for one in found.values()]), strict=True))
        for first, found in changes.items()
    }
    for name, own in arms.items():
        effects = query_effects(own["value"], _groups(own), _clusters(own), rng=np.random.default_rng(0))
        record = {"arm": name, "queries": effects.counts.queries, "clusters": effects.counts.clusters}
        record |= _ends("ndcg", effects.overall) | _ends("psi", effects.psi)
        record["positions"] = " ".join(short(one.estimate) for one in effects.groups)
        for first, found in changes.items():
            one = found.get(name)
            record |= _ends(f"change from {first}", one and one.overall)
            record |= _ends(f"change of PSI from {first}", one and one.psi)
            record[f"p against {first}"] = None if one is None else float(adjusted[first][name])
        records.append(record)
    return records


def _ends(name: str, found: Interval | None) -> dict[str, float | None]:
    values = (None, None, None) if found is None else (found.estimate, found.low, found.high)
    known = [None if value is None or not math.isfinite(value) else float(value) for value in values]
    return dict(zip((name, f"{name} low", f"{name} high"), known, strict=True))


def short(value: float | None, form: str = ".3f") -> str:
    """A number without the 0 before its point, as in our tables."""
    if value is None:
        return ""
    return f"{value:{form}}".replace("-", "−").replace("0.", ".", 1)


def interval(record: dict[str, Any], name: str, form: str = "+.3f") -> str:
    """An estimate with its limits; the limits are missing where nothing could be resampled."""
    estimate, low, high = (record.get(f"{name}{end}") for end in ("", " low", " high"))
    limits = "" if low is None else f" [{short(low, form)}, {short(high, form)}]"
    return "" if estimate is None else short(estimate, form) + limits


def table(heads: Sequence[str], lines: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> str:
    """A Markdown table; a first cell that repeats is left empty."""
    written, last = [], None
    for first, *rest in lines:
        written.append(f"| {'' if first == last else first} | {' | '.join(rest)} |")
        last = first
    return "\n".join([f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *written])


def write_csv(file: Path, records: Sequence[dict[str, Any]]) -> None:
    pl.DataFrame(records, infer_schema_length=None).write_csv(file)
