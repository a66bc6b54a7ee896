"""What `fairspan tune` answers, and what its answers lose.

    python -m benchmarks.tuning --models granite=FOLDER minilm=all-MiniLM-L6-v2 --data SHARED
    [--device cuda]

Every corpus is halved by document. Each half is tuned on, with SciFact and all of its queries as
guard, and the answer is judged by the other half: regret is what it finds less there than the best
of all candidates. The same is computed for every treatment that is used everywhere. Articles are
read whole, as they are; pages are made of pieces of articles (`--parts`); XQuAD has questions of
people. A command that was stopped continues where it was.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import fairspan
from benchmarks.quality import NamedModel, open_model, say
from benchmarks.splits import CORPORA, split_corpora, write_pieces

HALVES = ("tune", "report")
# Where balanced tiles end, of 64, 128 or 256 tokens, no segment ends.
PAGES: dict[str, Any] = {"parts": True, "size": 5, "opening": 80}
# News are short, and there are few.
SHORT_PAGES: dict[str, Any] = {"parts": True, "size": 3, "opening": 70, "query_tokens": 40}


def settings_of(data: Path, work: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """By task and half, what is asked of `tune`."""
    split_corpora(data, work, None, seed=0)
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name in CORPORA:
        articles = {half: work / f"{name}-{half}-articles.jsonl" for half in HALVES}
        found[f"{name}, articles"] = {
            half: {"corpus": str(file)} for half, file in articles.items()
        }
        short, pages = name == "news", {}
        for half, file in articles.items():
            pieces = work / f"{name}-{half}-pieces.jsonl"
            write_pieces(file, pieces, size=700 if short else 1400, most=8)
            pages[half] = {"corpus": str(pieces), **(SHORT_PAGES if short else PAGES)}
        found[f"{name}, pages"] = pages
    found["XQuAD"] = {
        half: {"tasks": str(folder)}
        for half, folder in zip(HALVES, halve_xquad(data, work), strict=True)
    }
    return found


def halve_xquad(data: Path, work: Path) -> Iterator[Path]:
    """The questions of one half of the articles, on an index of all."""
    lines = (data / "retrieval/xquad_positions/en.jsonl").read_text("utf-8").splitlines()
    articles = list(dict.fromkeys(json.loads(line)["article"] for line in lines))
    order = np.random.default_rng(0).permutation(len(articles))
    for half, numbers in zip(HALVES, np.array_split(order, 2), strict=True):
        folder, kept = work / f"xquad-{half}", {articles[number] for number in numbers}
        (folder / "documents").mkdir(parents=True, exist_ok=True)
        (folder / "documents/en.jsonl").write_bytes((data / "corpora/xquad/en.jsonl").read_bytes())
        own = [line for line in lines if json.loads(line)["article"] in kept]
        (folder / "en.jsonl").write_text("\n".join(own) + "\n", "utf-8")
        yield folder


def write_guard(folder: Path, into: Path) -> None:
    """SciFact with the queries of both its splits."""
    (into / "qrels").mkdir(parents=True, exist_ok=True)
    for name in ("corpus.jsonl", "queries.jsonl"):
        (into / name).write_bytes((folder / name).read_bytes())
    test, train = (
        (folder / f"qrels/{split}.tsv").read_text("utf-8").splitlines()
        for split in ("test", "train")
    )
    (into / "qrels/test.tsv").write_text("\n".join([*test, *train[1:]]) + "\n", "utf-8")


def answers(
    subject: NamedModel, task: str, halves: dict[str, dict[str, Any]], guard: Path, work: Path
) -> list[Any]:
    """A record for each half that was tuned on, with what every candidate finds in the other
    half."""
    logs = {}
    for half, asked in halves.items():
        started, out = time.monotonic(), work / f"{subject.name}-{task.replace(', ', '-')}-{half}"
        common: dict[str, Any] = {
            "name": subject.name,
            "store": work / "store.sqlite",
            "progress": False,
            "out": out,
        }
        logs[half] = fairspan.tune(subject.model, guards=[str(guard)], **asked, **common)
        sentence = logs[half].verdicts["sentence"][0]
        say(f"{subject.name}, {task}, {half}: {time.monotonic() - started:.0f} s: {sentence}")
    found = []
    for half, other in zip(HALVES, reversed(HALVES), strict=True):
        fresh = (
            logs[other]
            .frame("candidates")
            .filter(~pl.col("treatment").str.starts_with("chunk-mean"))
        )
        values = dict(fresh.select("treatment", "quality").rows())
        verdict = logs[half].verdicts.row(0, named=True)
        best = max(values, key=lambda name: values[name])
        record = {"model": subject.name, "task": task, "half": half, "answer": verdict["verdict"]}
        record |= {
            "chosen": verdict["treatment"],
            "best": best,
            "found": values[verdict["treatment"]],
        }
        found.append(
            record
            | {"regret": values[best] - record["found"]}
            | {f"at {one}": values[one] for one in values}
        )
    return found


def regrets(cells: pl.DataFrame) -> pl.DataFrame:
    """The mean regret of the answers, and of every treatment that is used everywhere."""
    names = [name.removeprefix("at ") for name in cells.columns if name.startswith("at ")]
    best = pl.max_horizontal(f"at {name}" for name in names)
    fixed = cells.select((best - pl.col(f"at {name}")).mean().alias(name) for name in names).row(
        0, named=True
    )
    rows = [{"choice": "tune", "regret": cells["regret"].mean()}]
    rows += [{"choice": f"{name} everywhere", "regret": value} for name, value in fixed.items()]
    return pl.DataFrame(rows).sort("regret")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", required=True, metavar="NAME=FOLDER")
    parser.add_argument(
        "--data", type=Path, required=True, help="the folder with corpora/ and retrieval/"
    )
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--device")
    parser.add_argument("--only", default="", help="tasks whose names contain this")
    given = parser.parse_args()
    work = given.out / "tuning"
    work.mkdir(parents=True, exist_ok=True)
    write_guard(given.data / "retrieval/scifact", work / "scifact")
    cells: list[Any] = []
    for subject in (open_model(one, given.device) for one in given.models):
        for task, halves in settings_of(given.data, work).items():
            if given.only in task:
                cells += answers(subject, task, halves, work / "scifact", work)
                pl.DataFrame(cells).write_csv(given.out / "tuning.csv")
    with pl.Config(
        tbl_cols=-1,
        tbl_rows=-1,
        tbl_width_chars=220,
        float_precision=3,
        tbl_hide_dataframe_shape=True,
    ):
        print(pl.DataFrame(cells), regrets(pl.DataFrame(cells)), sep="\n")


if __name__ == "__main__":
    main()
