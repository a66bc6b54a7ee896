"""Tables of `benchmarks.tiles_quality`, and the setting that is chosen on the tune half."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.quality import arms_of, change, interval, short, summarize, table, write_csv
from benchmarks.splits import CORPORA
from fairspan.calibration.treatment import as_treatment
from fairspan.stats.bootstrap import Interval

LEVELS: dict[str, tuple[Any, ...]] = {
    "tile_size": (32, 64, 96, 128),
    "tile_layers": ("all", "first_three_quarters", "first_half"),
    "tile_reach": (0, 1),
    "temperature": (1, 0.9, 0.8),
}
BASELINES = ("none", "chunk-mean 64", "chunk-mean 128")
ONLY = "+sides=document"


def choose(rows: pl.DataFrame) -> str:
    """Of the settings within one standard error of the best the fairest; of those as fair, the mildest (§11)."""
    arms = {name: own for name, own in arms_of(rows).items() if _is_of_grid(name)}
    best = arms[max(arms, key=lambda name: arms[name]["value"].mean())]
    to_best = {name: change(best, own) for name, own in arms.items()}
    near = {name: one for name, one in to_best.items() if -one.overall.estimate <= _error(one.overall)}
    fairest = min(near, key=lambda name: near[name].psi.estimate)
    to_fairest = {name: change(arms[fairest], arms[name]) for name in near}
    fair = [name for name, one in to_fairest.items() if one.psi.estimate <= _error(one.psi)]
    return min(fair, key=_severity)


def _error(found: Interval) -> float:
    return (found.high - found.low) / (2 * 1.96)


def _severity(name: str) -> tuple[float, ...]:
    """How far a setting is from the plain model: colder, more layers, less reach, smaller tiles."""
    own = as_treatment(name).calibration
    assert isinstance(own.temperature, float)
    assert own.tile_size is not None
    layers = len(own.tiled_layers(12))
    return (round(1 - own.temperature, 3), layers, -own.tile_reach, -own.tile_size)


def _is_of_grid(arm: str) -> bool:
    return arm.startswith("tiles+tile_size")


def tune_tables(rows: pl.DataFrame, out: Path) -> str:
    """What was chosen, the levels of each factor, and every setting; also written to tune.csv and chosen.json."""
    parts, records, chosen = [], [], {}
    models = rows["model"].unique(maintain_order=True).to_list()
    for name in [*models, *(["all models"] if len(models) > 1 else [])]:
        own = rows if name == "all models" else rows.filter(model=name)
        pages = own.filter(pl.col("task").is_in(list(CORPORA)))
        found = summarize(pages, ["none"])
        records += [{"model": name, "task": "all pages", **one} for one in found]
        if any(_is_of_grid(one["arm"]) for one in found):
            chosen[name] = choose(pages)
        parts += [
            f"## Tune half, {name}",
            f"Chosen: `{chosen.get(name, 'nothing')}`",
            _levels(found),
            _settings(found),
        ]
    for (model, task), own in rows.group_by("model", "task", maintain_order=True):
        records += [{"model": model, "task": task, **one} for one in summarize(own, ["none"])]
    scifact = [one for one in records if one["task"] == "SciFact"]
    if scifact:
        lines = [[one["model"], *_setting_cells(one)] for one in scifact]
        parts += ["## Tune half, SciFact", table(["model", *SETTING_HEADS], lines)]
    write_csv(out / "tune.csv", records)
    (out / "chosen.json").write_text(json.dumps(chosen, indent=2) + "\n", "utf-8")
    return "\n\n".join(parts)


def _levels(found: Sequence[dict[str, Any]]) -> str:
    """Means over all settings with a level of one factor: its main effect."""
    lines = []
    tiled = {one["arm"]: one for one in found if _is_of_grid(one["arm"])}
    for factor, values in LEVELS.items():
        for value in values:
            own = [one for name, one in tiled.items() if f"{factor}={value}+" in name]
            if own:
                means = [float(np.mean([one[field] for one in own])) for field in ("ndcg", "psi")]
                lines.append([factor, str(value), short(means[0]), short(means[1]), str(len(own))])
    return table(["factor", "level", "mean nDCG@10", "mean PSI", "settings"], lines)


SETTING_HEADS = ["treatment", "nDCG@10", "change from none [95 %]", "PSI", "change of PSI [95 %]"]


def _setting_cells(one: dict[str, Any]) -> list[str]:
    changes = [interval(one, f"change{what} from none") for what in ("", " of PSI")]
    name, psi = one["arm"].removesuffix(ONLY), short(one["psi"], ".2f")
    return [f"`{name}`", short(one["ndcg"]), changes[0], psi, changes[1]]


def _settings(found: Sequence[dict[str, Any]]) -> str:
    return table(SETTING_HEADS, [_setting_cells(one) for one in sorted(found, key=lambda one: -one["ndcg"])])


def report_tables(rows: pl.DataFrame, out: Path) -> str:
    """Quality, also written to report.csv, then audits, as docs/findings has them."""
    records = []
    for (model, task), own in rows.group_by("model", "task", maintain_order=True):
        records += [{"model": model, "task": task, **one} for one in summarize(own, BASELINES)]
    write_csv(out / "report.csv", records)
    lines = []
    for one in records:
        where = f"{one['model']}, {one['task']} ({one['clusters']} clusters, {one['queries']} queries)"
        changes = [interval(one, f"change from {first}") for first in BASELINES]
        p = short(one.get("p against none")) or ""
        name = one["arm"].removesuffix(ONLY) + (", both sides" if one["arm"] == "tiles" else "")
        cells = [f"`{name}`", short(one["ndcg"]), changes[0], p, *changes[1:]]
        cells += [one["positions"], short(one["psi"], ".2f")]
        lines.append([where, *cells])
    heads = ["task", "treatment", "nDCG@10", "against none [95 %]", "p"]
    heads += [f"against {first}" for first in BASELINES[1:]] + ["by position", "PSI"]
    parts = ["## Report half", table(heads, lines)]
    if (out / "audits.csv").exists():
        lines = []
        for one in pl.read_csv(out / "audits.csv").iter_rows(named=True):
            cells = [f"`{one['arm']}`", one["verdict"], interval(one, "spread", ".4f"), short(one["β1"])]
            betas = [short(one[f"β{position}"], "+.4f") for position in (2, 3, 4)]
            lines.append([f"{one['model']}, {one['task']} ({one['sets']} sets)", *cells, *betas])
        heads = ["corpus", "treatment", "verdict", "spread [95 %]", "position 1", "β2", "β3", "β4"]
        parts += ["## Audits, report half", table(heads, lines)]
    return "\n\n".join(parts)


def write_tables(out: Path) -> None:
    """Tables of all that was measured so far, in tune.md and report.md."""
    weights = out / "weights.txt"
    note = "\n".join(dict.fromkeys(weights.read_text("utf-8").splitlines())) if weights.exists() else ""
    for part in ("tune", "report"):
        file = out / f"{part}_rows.parquet"
        if not file.exists():
            continue
        text = (tune_tables if part == "tune" else report_tables)(pl.read_parquet(file), out)
        (out / f"{part}.md").write_text(f"{text}\n\n{note}\n", "utf-8")
        print(text, flush=True)
