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

import polars as pl

import fairspan
from benchmarks.quality import Bench, NamedModel, open_model, say, write_csv
from benchmarks.splits import CORPORA, split_corpora, split_scifact
from benchmarks.tiles_tables import LEVELS, ONLY, choose, write_tables

CENTRE = {"tile_size": 64, "tile_layers": "all", "tile_reach": 0, "temperature": 0.8}
REPORTED = ("paper", "paper+basket_size=64", "retrieval", "tempscale", "tiles")
BY_SEGMENTS = "tiles+tiles=segments"
AUDITED = ("none", "paper", "tiles", BY_SEGMENTS)
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
        pages = pl.read_parquet(bench.file).filter(pl.col("task").is_in(list(CORPORA)), model=bench.subject.name)
        bench.measure("SciFact", list(dict.fromkeys([*grid(given.scifact_grid), choose(pages)])), **settings)


def report(bench: Bench, splits: Path, given: argparse.Namespace) -> None:
    chosen = read_chosen(given, bench.subject.name)
    reported = given.treatments.split(",") if given.treatments else REPORTED
    treatments = list(dict.fromkeys([*(f"{one}{ONLY}" for one in reported), "tiles", *chosen]))
    by_segments = [BY_SEGMENTS + ONLY]
    indexes = ["chunk-mean", "chunk-max", "late-max"]
    tasks: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for corpus in CORPORA if "pages" not in given.skip else ():
        tasks[corpus] = pages_of(splits / f"{corpus}-report.jsonl"), treatments + by_segments
    if "xquad" not in given.skip:
        folder = given.data / "retrieval/xquad_positions"
        articles = {"source": str(folder), "documents": given.data / "corpora/xquad"}
        tasks["XQuAD"] = {**articles, "language": "en", "too_long": "shorten"}, treatments + by_segments
    if "scifact" not in given.skip:
        tasks["SciFact"] = {"source": f"beir:{splits / 'scifact'}", "split": "report"}, treatments
    if "long" not in given.skip:
        for size in (8, 16):
            pages = pages_of(splits / "Wikipedia-pieces.jsonl", size=size, too_long="cut")
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


def audit(subject: NamedModel, splits: Path, given: argparse.Namespace) -> None:
    """Add verdict, spread and β of each position to audits.csv, corpus by corpus."""
    for corpus in CORPORA:
        try:
            found = _audit(subject, corpus, AUDITED, splits, given)
        except Exception as error:  # one treatment failed: each is audited alone
            say(f"{subject.name}, audit of {corpus}: {error}")
            found = []
            for treatment in AUDITED:
                try:
                    found += _audit(subject, corpus, [treatment], splits, given)
                except Exception as error:  # the other treatments are audited all the same
                    say(f"FAILED audit of {subject.name}, {corpus}, {treatment}: {error}")
        file = given.out / "audits.csv"
        before = pl.read_csv(file).to_dicts() if file.exists() else []
        write_csv(file, [one for one in before if (one["model"], one["task"]) != (subject.name, corpus)] + found)


def _audit(
    subject: NamedModel, corpus: str, treatments: Sequence[str], splits: Path, given: argparse.Namespace
) -> list[dict[str, Any]]:
    file = splits / f"{corpus}-report.jsonl"
    sets = min(40, sum(1 for _ in file.open()) // 4)
    log = fairspan.audit(
        subject.model,
        corpus=str(file),
        languages=["en"],
        opening=118,
        sets=sets,
        treatments=treatments,
        name=subject.name,
        out=given.work / "audits" / f"{subject.name}-{corpus}-{given.limit}-{len(treatments)}-{treatments[0]}",
        store=given.work / "store.sqlite",
        progress=False,
    )
    records = []
    for spread in log.frame("unevenness").iter_rows(named=True):
        beta = log.frame("coefficients").filter(treatment=spread["treatment"])
        record = {"model": subject.name, "task": corpus, "arm": spread["treatment"], "sets": sets}
        record |= {"verdict": spread["verdict"], "spread": spread["spread_estimate"]}
        record |= {f"spread {end}": spread[f"spread_{end}"] for end in ("low", "high")}
        record |= {f"β{one['position']}": one["estimate"] for one in beta.iter_rows(named=True)}
        say(f"{subject.name}, {corpus}, {record['arm']}: {record['verdict']}, spread {record['spread']:.4f}")
        records.append(record)
    return records


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
    parser.add_argument("--treatments", help="to report, in place of the usual ones; separated by commas")
    parser.add_argument("--skip", default="", help="of pages, scifact, xquad, long, audit; separated by commas")
    parser.add_argument("--limit", type=int, help="documents per corpus, for a quick check")
    parser.add_argument("--window", type=int, default=2048, help="tokens to read of long pages")
    parser.add_argument("--seed", type=int, default=0, help="of the split")
    given = parser.parse_args()
    given.skip = given.skip.split(",")
    given.out.mkdir(parents=True, exist_ok=True)

    failures, weights = list[str](), given.out / "weights.txt"
    if given.part != "tables":
        splits = given.work / f"splits-{given.seed}-{given.limit}"
        split_corpora(given.data, splits, given.limit, given.seed)
        split_scifact(given.data / "retrieval/scifact", splits / "scifact", given.limit, given.seed)
        for one in given.models:
            bench = Bench(open_model(one, given.device), given.work, given.out / f"{given.part}_rows.parquet")
            with weights.open("a", encoding="utf-8") as file:
                file.write(f"{bench.subject.name}: weights stored as {bench.subject.stored}, computed in float32.\n")
            (tune if given.part == "tune" else report)(bench, splits, given)
            if given.part == "report" and "audit" not in given.skip:
                audit(bench.subject, splits, given)
            failures += bench.failures
            write_tables(given.out)
    else:
        write_tables(given.out)
    say(f"done, {len(failures)} failures")


if __name__ == "__main__":
    main()
