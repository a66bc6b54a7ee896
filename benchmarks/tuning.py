"""What `fairspan tune` decides on real weights, beside an oracle.

    python -m benchmarks.tuning --models granite=FOLDER minilm=all-MiniLM-L6-v2 --data SHARED --out OUT

For every model and corpus, the candidates are tuned with SciFact, all of its queries, as guard. Afterwards every
candidate is evaluated on the report part as well: the oracle is the one that is best there, and the fixed treatment
the one that is best there on average over all models and corpora; both have seen the data that judges them. Pages
have four segments of 118 tokens (news: two of 70), each a piece of an article, so that pages of different parts may
hold pieces of one article; passages are cut out of whole articles.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl

import fairspan
from benchmarks.quality import NamedModel, open_model, say
from benchmarks.splits import CORPORA, write_pieces
from fairspan.calibration.treatment import PLAIN
from fairspan.runs.log import RunLog
from fairspan.runs.study import Run, Study
from fairspan.stats.choice import quality
from fairspan.studies.tune.options import CANDIDATES, TuneOptions
from fairspan.studies.tune.prepare import PreparedTuning, prepare_tuning
from fairspan.studies.tune.run import Tuning
from fairspan.studies.tune.summary import REPORT, samples_of
from fairspan.studies.tune.view import view_of

PAGES: dict[str, Any] = {"opening": 118, "sets": 240}
PASSAGES: dict[str, Any] = {"sets": 400}
NEWS: dict[str, Any] = {"size": 2, "opening": 70, "query_tokens": 40}


def settings_of(data: Path, work: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for name, file in CORPORA.items():
        # News are short, and there are few.
        short = name == "news"
        pieces = work / f"{name}-pieces.jsonl"
        write_pieces(data / file, pieces, size=700 if short else 1400, most=8)
        found[f"{name}, pages"] = "pages", {**PAGES, "corpus": str(pieces), **(NEWS if short else {})}
        found[f"{name}, passages"] = "passages", {**PASSAGES, "corpus": str(data / file)}
    return found


def write_guard(folder: Path, into: Path) -> None:
    """SciFact with the queries of both its splits."""
    (into / "qrels").mkdir(parents=True, exist_ok=True)
    for name in ("corpus.jsonl", "queries.jsonl"):
        (into / name).write_bytes((folder / name).read_bytes())
    test, train = ((folder / f"qrels/{split}.tsv").read_text("utf-8").splitlines() for split in ("test", "train"))
    (into / "qrels/test.tsv").write_text("\n".join([*test, *train[1:]]) + "\n", "utf-8")


def tune_and_report(subject: NamedModel, kind: str, asked: dict[str, Any], where: Path) -> tuple[RunLog, Any]:
    """The log of a tuning, and what every treatment gets on the report part of its task."""
    common: dict[str, Any] = {"name": subject.name, "store": where.parent / "store.sqlite", "progress": False}
    log = fairspan.tune(subject.model, kind, **asked, **common, out=where)

    def search_all(prepared: PreparedTuning, run: Run) -> None:
        for treatment in prepared.options.measured:
            Tuning(prepared, run).search(treatment.name, REPORT)

    own = {name: value for name, value in asked.items() if name != "guards"}
    options = TuneOptions(subject.model, kind, **own, **common, out=where.with_suffix(".oracle"))
    every = Study(prepare_tuning, search_all, view_of)(options)
    sample = samples_of(every.rows, every.header, REPORT)[log.header["task"]["source"]]
    return log, {name: quality([sample], name) for name in sample.sums}


def regrets(cells: list[tuple[str, str, RunLog, dict[str, float]]]) -> pl.DataFrame:
    """One row for each model and task."""
    fixed = max(cells[0][3], key=lambda name: sum(report[name] for *_, report in cells))
    rows = []
    for model, task, log, report in cells:
        verdict, best = log.verdicts.row(0, named=True), max(report, key=lambda name: report[name])
        named = {"plain": PLAIN, "chosen": verdict["treatment"], "fixed": fixed, "oracle": best}
        found = {"model": model, "task": task, "answer": verdict["verdict"], **named}
        found |= {f"nDCG@10 {who}": report[name] for who, name in named.items()}
        rows.append(found | {f"regret {who}": report[best] - report[name] for who, name in named.items()})
    return pl.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--data", type=Path, required=True, help="the folder with corpora/ and retrieval/")
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--device")
    parser.add_argument("--candidates", nargs="+", default=CANDIDATES)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    work, cells = Path(tempfile.mkdtemp()), []
    write_guard(given.data / "retrieval/scifact", work / "scifact")
    shared = {"languages": ["en"], "too_long": "shorten", "candidates": given.candidates}
    for subject in (open_model(one, given.device) for one in given.models):
        for task, (kind, own) in settings_of(given.data, work).items():
            asked, started = {"guards": [str(work / "scifact")], **shared, **own}, time.monotonic()
            try:
                log, report = tune_and_report(
                    subject, kind, asked, work / f"{subject.name}-{task.replace(', ', '-')}"
                )
            except fairspan.FairspanError as error:
                say(f"{subject.name}, {task}: {error}")
                continue
            say(f"{subject.name}, {task}: {time.monotonic() - started:.0f} s: {log.verdicts['sentence'][0]}")
            cells.append((subject.name, task, log, report))
            regrets(cells).write_csv(given.out / "tuning.csv")
    with pl.Config(tbl_cols=-1, tbl_rows=-1, tbl_width_chars=220, float_precision=3):
        print(regrets(cells))


if __name__ == "__main__":
    main()
