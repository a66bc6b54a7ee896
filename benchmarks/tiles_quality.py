"""The quality of tiles on real weights: a setting is chosen on one half of the data and reported on the other.

    python -m benchmarks.tiles_quality --part tune --models granite=FOLDER minilm=FOLDER --data SHARED --out OUT
    python -m benchmarks.tiles_quality --part report --models … --data SHARED --out OUT [--chosen OUT/chosen.json]
    python -m benchmarks.tiles_quality --part tables --out OUT

Corpora are split by document, the queries of SciFact by the documents that answer them. Pages have four segments of
118 tokens in four rotations, and queries are the 60 tokens that follow. Treatments act on documents only, unless a
table says "both sides". `--limit 24 --grid small --skip scifact,long` is a quick check on a CPU. Results are written
after every batch of treatments; `--part tables` makes tables of whatever is there.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import fairspan
from benchmarks.quality import (
    Bench,
    NamedModel,
    arms_of,
    change,
    interval,
    open_model,
    say,
    short,
    summarize,
    table,
    write_csv,
)
from benchmarks.splits import CORPORA, split_corpora, split_scifact
from fairspan.calibration.treatment import as_treatment

LEVELS: dict[str, tuple[Any, ...]] = {
    "tile_size": (32, 64, 96, 128),
    "tile_layers": ("all", "first_three_quarters", "first_half"),
    "tile_reach": (0, 1),
    "temperature": (1, 0.9, 0.8),
}
CENTRE = {"tile_size": 64, "tile_layers": "all", "tile_reach": 0, "temperature": 0.8}
REPORTED = ("paper", "paper+basket_size=64", "retrieval", "tempscale", "tiles")
BY_SEGMENTS = "tiles+tiles=segments"
ONLY = "+sides=document"
BASELINES = ("none", "chunk-mean 64", "chunk-mean 128")
PAGES = {"source": "pages", "languages": ["en"], "opening": 118, "query_tokens": 60}


def named(settings: dict[str, Any]) -> str:
    return "tiles+" + "+".join(f"{field}={value}" for field, value in settings.items()) + ONLY


def grid(kind: str) -> list[str]:
    """Every combination of levels, or one factor at a time around the preset."""
    if kind == "full":
        return [named(dict(zip(LEVELS, values, strict=True))) for values in product(*LEVELS.values())]
    single = [named({**CENTRE, name: value}) for name, values in LEVELS.items() for value in values]
    return list(dict.fromkeys([named(CENTRE), *single]))


def pages_of(corpus: Path, **changes: Any) -> dict[str, Any]:
    return {**PAGES, "corpus": str(corpus), **changes}


def measure_plain(bench: Bench, task: str, settings: dict[str, Any], indexes: Sequence[str]) -> None:
    """The plain model on whole documents and on chunks of 64 and 128 tokens."""
    for size in (64, 128):
        bench.measure(task, ["none"], **settings, indexes=["whole", *indexes], chunk_tokens=size)


def tune(bench: Bench, splits: Path, given: argparse.Namespace) -> None:
    by_segments = [
        f"{BY_SEGMENTS}+tile_layers={layers}+temperature={temperature}{ONLY}"
        for layers, temperature in product(LEVELS["tile_layers"], LEVELS["temperature"])
    ]
    for corpus in CORPORA:
        settings = pages_of(splits / f"{corpus}-tune.jsonl")
        measure_plain(bench, corpus, settings, ["chunk-mean"])
        bench.measure(corpus, grid(given.grid), **settings)
        bench.measure(corpus, by_segments if given.grid == "full" else by_segments[::4], **settings)
    if "scifact" not in given.skip:
        settings = {"source": f"beir:{splits / 'scifact'}", "split": "tune"}
        measure_plain(bench, "SciFact", settings, ["chunk-mean"])
        bench.measure("SciFact", grid(given.scifact_grid), **settings)


def choose(rows: pl.DataFrame) -> str:
    """Of the settings within one standard error of the best the fairest; of those as fair, the mildest (§11)."""
    tiled = rows.filter(pl.col("arm").str.starts_with("tiles+tile_size"), pl.col("task").is_in(list(CORPORA)))
    arms = arms_of(tiled)
    best = arms[max(arms, key=lambda name: arms[name]["value"].mean())]
    to_best = {name: change(best, own) for name, own in arms.items()}
    near = {name: one for name, one in to_best.items() if -one.overall.estimate <= _error(one.overall)}
    fairest = min(near, key=lambda name: near[name].psi.estimate)
    to_fairest = {name: change(arms[fairest], arms[name]) for name in near}
    fair = [name for name, one in to_fairest.items() if one.psi.estimate <= _error(one.psi)]
    return min(fair, key=_severity)


def _error(found: Any) -> float:
    return (found.high - found.low) / (2 * 1.96)


def _severity(name: str) -> tuple[float, ...]:
    """How far a setting is from the plain model: colder, more layers, less reach, smaller tiles."""
    own = as_treatment(name).calibration
    assert isinstance(own.temperature, float)
    assert own.tile_size is not None
    layers = len(own.tiled_layers(12))
    return (round(1 - own.temperature, 3), layers, -own.tile_reach, -own.tile_size)


def report(bench: Bench, splits: Path, given: argparse.Namespace) -> None:
    chosen = read_chosen(given, bench.subject.name)
    treatments = [f"{one}{ONLY}" for one in REPORTED] + ["tiles", *chosen]
    treatments = list(dict.fromkeys(treatments))
    by_segments = [BY_SEGMENTS + ONLY]
    indexes = ["chunk-mean", "chunk-max", "late-max"]
    tasks: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for corpus in CORPORA:
        tasks[corpus] = pages_of(splits / f"{corpus}-report.jsonl"), treatments + by_segments
    if "xquad" not in given.skip:
        folder = given.data / "retrieval/xquad_positions"
        articles = {"source": str(folder), "documents": given.data / "corpora/xquad"}
        tasks["XQuAD"] = {**articles, "language": "en", "too_long": "shorten"}, treatments + by_segments
    if "scifact" not in given.skip:
        tasks["SciFact"] = {"source": f"beir:{splits / 'scifact'}", "split": "report"}, treatments
    if "long" not in given.skip:
        for size in (8, 16):
            pages = pages_of(splits / "Wikipedia-pieces.jsonl", size=size, editions=4, too_long="cut")
            tasks[f"Wikipedia, pages of {size}"] = {**pages, "window": given.window}, treatments + by_segments
    for task, (settings, own) in tasks.items():
        measure_plain(bench, task, settings, indexes)
        bench.measure(task, own, **settings)


def read_chosen(given: argparse.Namespace, model: str) -> list[str]:
    """Of a file what was chosen for the model and for all models, or else the treatment that was given."""
    if given.chosen is None and not (given.out / "chosen.json").exists():
        return []
    if given.chosen is not None and not Path(given.chosen).is_file():
        return [str(given.chosen)]
    found = json.loads(Path(given.chosen or given.out / "chosen.json").read_text("utf-8"))
    return list(dict.fromkeys(found[name] for name in (model, "all models") if name in found))


def audit(subject: NamedModel, splits: Path, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Verdict, spread and β of each position, corpus by corpus."""
    records: list[dict[str, Any]] = []
    for corpus, treatment in product(CORPORA, ("none", "paper", "tiles", BY_SEGMENTS)):
        file = splits / f"{corpus}-report.jsonl"
        sets = min(40, sum(1 for _ in file.open()) // 4)
        try:
            log = fairspan.audit(
                subject.model,
                corpus=str(file),
                languages=["en"],
                opening=118,
                sets=sets,
                treatments=[treatment],
                name=subject.name,
                out=given.work / "audits" / f"{subject.name}-{corpus}-{treatment}",
                store=given.work / "store.sqlite",
                progress=False,
            )
        except Exception as error:  # the other treatments are audited all the same
            say(f"FAILED audit of {subject.name}, {corpus}, {treatment}: {error}")
            continue
        spread, beta = log.frame("unevenness").row(0, named=True), log.frame("coefficients")
        record = {"model": subject.name, "task": corpus, "arm": treatment, "verdict": spread["verdict"], "sets": sets}
        record |= {name: spread[f"spread_{end}"] for name, end in (("spread", "estimate"), ("spread low", "low"))}
        record |= {"spread high": spread["spread_high"]}
        record |= {f"β{one['position']}": one["estimate"] for one in beta.iter_rows(named=True)}
        say(f"{subject.name}, {corpus}, {treatment}: {record['verdict']}, spread {record['spread']:.4f}")
        records.append(record)
    return records


def tune_tables(rows: pl.DataFrame, out: Path) -> str:
    """What was chosen, the levels of each factor, and every setting; also written to tune.csv and chosen.json."""
    parts, records, chosen = [], [], {}
    models = rows["model"].unique(maintain_order=True).to_list()
    for name in [*models, *(["all models"] if len(models) > 1 else [])]:
        own = rows if name == "all models" else rows.filter(model=name)
        pages = own.filter(pl.col("task").is_in(list(CORPORA)))
        chosen[name] = choose(own)
        found = summarize(pages, BASELINES)
        records += [{"model": name, "task": "all pages", **one} for one in found]
        parts += [f"## Tune half, {name}", f"Chosen: `{chosen[name]}`", _levels(found), _settings(found)]
    for (model, task), own in rows.group_by("model", "task", maintain_order=True):
        records += [{"model": model, "task": task, **one} for one in summarize(own, BASELINES)]
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
    tiled = {one["arm"]: one for one in found if one["arm"].startswith("tiles+tile_size")}
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
    return [
        f"`{one['arm'].removesuffix(ONLY)}`",
        short(one["ndcg"]),
        changes[0],
        short(one["psi"], ".2f"),
        changes[1],
    ]


def _settings(found: Sequence[dict[str, Any]]) -> str:
    return table(SETTING_HEADS, [_setting_cells(one) for one in sorted(found, key=lambda one: -one["ndcg"])])


def report_tables(rows: pl.DataFrame, audits: Sequence[dict[str, Any]], out: Path) -> str:
    """Quality, then audits, as docs/findings has them; also written to report.csv and audits.csv."""
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
        cells = [
            f"`{name}`",
            short(one["ndcg"]),
            changes[0],
            p,
            *changes[1:],
            one["positions"],
            short(one["psi"], ".2f"),
        ]
        lines.append([where, *cells])
    heads = [
        "task",
        "treatment",
        "nDCG@10",
        "against none [95 %]",
        "p",
        "against chunk-mean 64",
        "against chunk-mean 128",
    ]
    parts = ["## Report half", table([*heads, "by position", "PSI"], lines)]
    if audits:
        write_csv(out / "audits.csv", audits)
        betas = sorted({name for one in audits for name in one if name.startswith("β") and name != "β0"})
        lines = [
            [f"{one['model']}, {one['task']} ({one['sets']} sets)", f"`{one['arm']}`", one["verdict"],
             interval(one, "spread", ".4f"), *(short(one.get(beta), "+.4f") for beta in betas)]
            for one in audits
        ]  # fmt: skip
        parts += ["## Audits, report half", table(["corpus", "treatment", "verdict", "spread [95 %]", *betas], lines)]
    return "\n\n".join(parts)


def write_tables(out: Path, note: str) -> None:
    """Tables of all that was measured so far."""
    for part in ("tune", "report"):
        file, audits = out / f"{part}_rows.parquet", out / "audits.json"
        if not file.exists():
            continue
        rows = pl.read_parquet(file)
        found = json.loads(audits.read_text("utf-8")) if audits.exists() else []
        text = tune_tables(rows, out) if part == "tune" else report_tables(rows, found, out)
        (out / f"{part}.md").write_text(f"{text}\n\n{note}\n", "utf-8")
        print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["tune", "report", "tables"], required=True)
    parser.add_argument("--models", nargs="+", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--data", type=Path, help="the folder with corpora/ and retrieval/")
    parser.add_argument("--out", type=Path, required=True, help="where results go")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "tiles-quality")
    parser.add_argument("--device", help="cpu or cuda; by default the fastest that is there")
    parser.add_argument("--grid", choices=["full", "small"], default="full")
    parser.add_argument("--scifact-grid", choices=["full", "small"], default="small")
    parser.add_argument("--chosen", help="what tune chose: chosen.json or a treatment; by default OUT/chosen.json")
    parser.add_argument("--skip", default="", help="of scifact, xquad, long, audit; separated by commas")
    parser.add_argument("--limit", type=int, help="documents per corpus, for a quick check")
    parser.add_argument("--window", type=int, default=2048, help="tokens to read of long pages")
    parser.add_argument("--seed", type=int, default=0, help="of the split")
    given = parser.parse_args()
    given.skip = given.skip.split(",")
    given.out.mkdir(parents=True, exist_ok=True)

    note, failures = "", list[str]()
    if given.part != "tables":
        splits = given.work / f"splits-{given.seed}-{given.limit}"
        split_corpora(given.data, splits, given.limit, given.seed)
        split_scifact(given.data / "retrieval/scifact", splits / "scifact", given.limit, given.seed)
        audits: list[dict[str, Any]] = []
        for one in given.models:
            bench = Bench(open_model(one, given.device), given.work, given.out / f"{given.part}_rows.parquet")
            note += f"{bench.subject.name}: weights stored as {bench.subject.stored}, computed in float32. "
            (tune if given.part == "tune" else report)(bench, splits, given)
            if given.part == "report" and "audit" not in given.skip:
                audits += audit(bench.subject, splits, given)
                (given.out / "audits.json").write_text(json.dumps(audits), "utf-8")
            failures += bench.failures
            write_tables(given.out, note)
    else:
        write_tables(given.out, note)
    for failure in failures:
        say(f"FAILED {failure}")


if __name__ == "__main__":
    main()
