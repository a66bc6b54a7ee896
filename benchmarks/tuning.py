"""What `fairspan tune` decides on real weights, beside an oracle, and how long it takes.

    python -m benchmarks.tuning regret --models granite=FOLDER minilm=all-MiniLM-L6-v2 --data SHARED --out OUT
    python -m benchmarks.tuning speed --data SHARED [--model FOLDER]

`regret`: for every model and corpus, the full grid is tuned with SciFact, all of its queries, as guard. Afterwards
every candidate is searched on the report part as well: the oracle is the one that is best there, and the fixed
treatment the one that is best there on average over all models and corpora; both have seen the data that judges them.
Pages are of four segments of 118 tokens (news: two of 70), each a piece of an article, so that pages of different
parts may hold pieces of one article; passages are cut out of whole articles.

`speed`: 24 candidates on 200 pages, timed, beside the seconds that the model itself was at work.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

import fairspan
from benchmarks.quality import NamedModel, open_model, say
from benchmarks.splits import CORPORA, write_pieces
from fairspan.encoding.encoder import ModelEncoder, Text
from fairspan.runs.log import RunLog
from fairspan.runs.runner import Run, RunOptions, run_study
from fairspan.runs.subject import open_subject
from fairspan.stats.choice import quality, unfairness
from fairspan.studies.tune.budget import Budget
from fairspan.studies.tune.decision import PLAIN, REPORT, samples_of
from fairspan.studies.tune.measuring import Tuning
from fairspan.studies.tune.prepare import prepare_tuning
from fairspan.studies.tune.spec import make_tuning
from fairspan.studies.tune.view import view_of

PAGES: dict[str, Any] = {"languages": ["en"], "opening": 118, "query_tokens": 60, "too_long": "shorten"}
PASSAGES: dict[str, Any] = {"languages": ["en"], "query_tokens": 60, "sets": 400, "too_long": "shorten"}


@dataclass(frozen=True, slots=True)
class Cell:
    """A model on a corpus: the log of its tuning, and what every treatment gets on the report part."""

    model: str
    task: str
    log: RunLog
    report: dict[str, tuple[float, float]]


def settings_of(data: Path, work: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for name, file in CORPORA.items():
        # News are short, and there are few.
        short = name == "news"
        pieces = work / f"{name}-pieces.jsonl"
        write_pieces(data / file, pieces, size=700 if short else 1400, most=8)
        changes = {"size": 2, "opening": 70, "query_tokens": 40} if short else {}
        found[f"{name}, pages"] = "pages", {**PAGES, "corpus": str(pieces), "sets": 240, **changes}
        found[f"{name}, passages"] = "passages", {**PASSAGES, "corpus": str(data / file)}
    return found


def write_guard(folder: Path, into: Path) -> None:
    """SciFact with the queries of both its splits."""
    (into / "qrels").mkdir(parents=True, exist_ok=True)
    for name in ("corpus.jsonl", "queries.jsonl"):
        (into / name).write_bytes((folder / name).read_bytes())
    test, train = ((folder / f"qrels/{split}.tsv").read_text("utf-8").splitlines() for split in ("test", "train"))
    (into / "qrels/test.tsv").write_text("\n".join([*test, *train[1:]]) + "\n", "utf-8")


def tune_and_report(
    subject: NamedModel, task: str, kind: str, settings: dict[str, Any], given: argparse.Namespace, work: Path
) -> Cell:
    guards = [f"beir:{work / 'scifact'}"] if not given.no_guard else []
    asked = {"guards": guards, "grid": given.grid, **settings, **({"sets": given.sets} if given.sets else {})}
    where = work / f"{subject.name}-{task.replace(', ', '-')}"
    store = work / "store.sqlite"
    started = time.monotonic()
    run: dict[str, Any] = {"name": subject.name, "out": where, "store": store, "progress": False}
    log = fairspan.tune(subject.model, kind, **asked, **run)
    say(f"{subject.name}, {task}: {time.monotonic() - started:.0f} s: {log.verdicts['sentence'][0]}")
    prepared = prepare_tuning(open_subject(subject.model, name=subject.name), make_tuning(kind, **asked))

    def measure(run: Run) -> None:
        tuning = Tuning(prepared, run, Budget())
        for treatment in prepared.spec.treatments:
            tuning.search(treatment.name, REPORT, guards=False)

    options = RunOptions(out=work / f"{where.name}-oracle", store=store)
    every = run_study(prepared, measure, options, view_of)
    sample = samples_of(every.rows, every.header, REPORT)
    own = [sample[one] for one in sample if one.startswith(kind)]
    return Cell(subject.name, task, log, {name: (quality(own, name), unfairness(own, name)) for name in own[0].sums})


def regrets(cells: Sequence[Cell]) -> pl.DataFrame:
    """One row for each cell."""
    candidates = [name for name in cells[0].report if all(name in cell.report for cell in cells)]
    fixed = max(candidates, key=lambda name: sum(cell.report[name][0] for cell in cells))
    rows = []
    for cell in cells:
        verdict = cell.log.verdicts.row(0, named=True)
        oracle = max(cell.report, key=lambda name: cell.report[name][0])
        (plain, psi), (chosen, fairer) = cell.report[PLAIN], cell.report[verdict["treatment"]]
        reported = cell.log.frame("report").filter(treatment=verdict["treatment"])
        change = reported.filter(pl.col("task") == cell.log.header["task"]["source"])
        low, high = change.select("change_low", "change_high").row(0) if len(change) else (None, None)
        rows.append(
            {
                "model": cell.model,
                "task": cell.task,
                "answer": verdict["verdict"],
                "chosen": verdict["treatment"],
                "plain": plain,
                "nDCG@10": chosen,
                "low": low,
                "high": high,
                "PSI plain": psi,
                "PSI": fairer,
                "oracle": oracle,
                "best": cell.report[oracle][0],
                "regret": cell.report[oracle][0] - chosen,
                "regret of plain": cell.report[oracle][0] - plain,
                "fixed": fixed,
                "regret of fixed": cell.report[oracle][0] - cell.report[fixed][0],
                "clusters": next(t["parts"]["guard"]["clusters"] for t in cell.log.header["tasks"]),
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


def regret(given: argparse.Namespace) -> None:
    given.out.mkdir(parents=True, exist_ok=True)
    work = given.work or Path(tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    write_guard(given.data / "retrieval/scifact", work / "scifact")
    cells = []
    for one in given.models:
        subject = open_model(one, given.device)
        for task, (kind, settings) in settings_of(given.data, work).items():
            if given.tasks and task not in given.tasks:
                continue
            try:
                cells.append(tune_and_report(subject, task, kind, settings, given, work))
            except fairspan.FairspanError as error:
                say(f"{subject.name}, {task}: {error}")
                continue
            table = regrets(cells)
            table.write_csv(given.out / "tuning.csv")
            with (given.out / "tuning.jsonl").open("a") as file:
                known = {"model": cells[-1].model, "task": task, "report": cells[-1].report}
                tests = cells[-1].log.view.frames.get("tests", pl.DataFrame()).to_dicts()
                known |= {"sentence": cells[-1].log.verdicts["sentence"][0], "tests": tests}
                known |= {"candidates": cells[-1].log.frame("candidates").to_dicts()}
                known |= {"figures": cells[-1].log.view.frames.get("report", pl.DataFrame()).to_dicts()}
                file.write(json.dumps(known) + "\n")
    with pl.Config(tbl_cols=-1, tbl_rows=-1, tbl_width_chars=220, float_precision=3):
        print(regrets(cells))


def speed(given: argparse.Namespace) -> None:
    """Seconds of a tuning, and of the model alone."""
    work = Path(tempfile.mkdtemp())
    write_pieces(given.data / CORPORA["Wikipedia"], work / "pieces.jsonl")
    spent = 0.0
    bare = ModelEncoder.vectors

    def timed(self: ModelEncoder, batch: Sequence[Text]) -> Any:
        nonlocal spent
        started = time.perf_counter()
        found = bare(self, batch)
        spent += time.perf_counter() - started
        return found

    ModelEncoder.vectors = timed  # type: ignore[method-assign]
    model = open_model(f"model={given.model}", given.device).model
    started = time.perf_counter()
    asked = {**PAGES, "corpus": str(work / "pieces.jsonl"), "grid": "full", "sets": given.sets or 200}
    log = fairspan.tune(model, "pages", **asked, out=work / "run", store=work / "s.sqlite", progress=False)
    whole = time.perf_counter() - started
    parts = log.header["tasks"][0]["parts"]
    clusters = {part: own["clusters"] for part, own in parts.items()}
    print(f"{len(log.treatments) - 1} candidates, pages {clusters}: {whole:.0f} s, of which the model {spent:.0f} s")
    print(f"overhead {whole / spent - 1:.1%}; tokens {log.header['timings']['tokens_computed']:,}")
    print(log.verdicts["sentence"][0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["regret", "speed"])
    parser.add_argument("--models", nargs="+", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="of the benchmark of speed")
    parser.add_argument("--data", type=Path, required=True, help="the folder with corpora/ and retrieval/")
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--work", type=Path)
    parser.add_argument("--device")
    parser.add_argument("--grid", default="full")
    parser.add_argument("--sets", type=int)
    parser.add_argument("--tasks", nargs="+")
    parser.add_argument("--no-guard", action="store_true")
    given = parser.parse_args()
    (regret if given.part == "regret" else speed)(given)


if __name__ == "__main__":
    main()
