"""Does it help search? nDCG@10 and, in brackets, PSI, on the halves of the corpora that no setting
was chosen on.

    python -m benchmarks.quality --models granite=FOLDER minilm=FOLDER --data SHARED [--limit 24
    --skip scifact]

Corpora are split by document; of SciFact, settings are chosen on the train queries (`--half tune`)
and reported on the test queries. Pages have four segments of 110 tokens in four rotations, so that
no border of a tile is one of a segment by construction, and queries are the 60 tokens that follow.
Articles are read whole, and queries are 16 tokens that were cut out of them. Treatments act on
documents only. A command that was stopped continues where it was; `--limit 24` is a quick check on
a CPU.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

import fairspan
from benchmarks.splits import CORPORA, split_corpora
from fairspan.model.loading import Loading, load_model

METRIC = "ndcg@10"
# Models read their 512 positions, and in tiles any length.
MAX_SEQ_LENGTH = 1_000_000
ONLY = "+sides=document"
SIZES = (64, 128, 256)
ROWS = {
    "plain": "plain",
    "`paper`, baskets of 64": f"paper+basket_size=64{ONLY}",
    **{f"mean of chunks of {size}": f"chunk-mean-{size}" for size in (*SIZES, 510)},
    **{f"tiles of {size}": f"tiles-{size}{ONLY}" for size in SIZES},
    "`fair`": "fair",
}
STARTED = time.monotonic()


def say(line: str) -> None:
    print(f"[{time.monotonic() - STARTED:7.1f} s] {line}", flush=True)


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model in float32 under the name that tables show."""

    name: str
    model: SentenceTransformer


def open_model(given: str, device: str | None) -> NamedModel:
    """Load NAME=FOLDER or NAME=FOLDER@TOKENS; the folder all-MiniLM-L6-v2 stands for the model of
    that package.

    The tokens are what the plain model reads; tiles read texts to their end.
    """
    found = re.fullmatch(r"(.+?)=(.+?)(?:@(\d+))?", given)
    if found is None:
        raise SystemExit(
            f"a model is given as NAME=FOLDER, such as granite=models/granite, got {given!r}."
        )
    name, folder, tokens = found.groups()
    model = load_model(folder, Loading(None, device, "float32"))
    model.max_seq_length = int(tokens or MAX_SEQ_LENGTH)
    say(f"{name}: loaded on {model.device}")
    return NamedModel(name, model)


def link_xquad(data: Path, folder: Path) -> Path:
    """A folder with the English questions of XQuAD and their articles."""
    folder.mkdir(exist_ok=True)
    links = {"en.jsonl": "retrieval/xquad_positions/en.jsonl", "documents": "corpora/xquad"}
    for name, source in links.items():
        if not (folder / name).exists():
            (folder / name).symlink_to((data / source).resolve())
    return folder


def tasks_of(data: Path, splits: Path, half: str, skip: list[str]) -> dict[str, dict[str, Any]]:
    """What is searched, as keywords of `fairspan.evaluate`."""
    kinds: dict[str, dict[str, Any]] = {
        "pages": {"task": "pages", "languages": ["en"], "opening": 110, "query_tokens": 60},
        "articles": {
            "task": "passages",
            "languages": ["en"],
            "query_tokens": 16,
            "too_long": "cut",
        },
    }
    found = {
        f"{corpus} {kind}": {**asked, "corpus": str(splits / f"{corpus}-{half}-{kind}.jsonl")}
        for kind, asked in kinds.items()
        for corpus in CORPORA
        if (corpus, kind) != ("news", "articles")  # too short for such passages
    }
    questions = link_xquad(data, splits.parent / "xquad_positions")
    found["XQuAD questions"] = {"task": str(questions), "language": "en"}
    split = {"tune": "train", "report": "test"}[half]
    found["SciFact abstracts"] = {"task": f"beir:{data / 'retrieval/scifact'}", "split": split}
    return {
        name: one for name, one in found.items() if not any(word in name.lower() for word in skip)
    }


def measure(subject: NamedModel, task: str, asked: dict[str, Any], work: Path) -> dict[str, str]:
    """The cell of each row: the score and, where positions are known, PSI."""
    run = f"{subject.name}-{task.replace(' ', '-')}-{Path(asked.get('corpus', asked['task'])).stem}"
    log = fairspan.evaluate(
        subject.model,
        **asked,
        treatments=list(ROWS.values()),
        documents_only=False,
        metrics=[METRIC],
        name=subject.name,
        out=work / "runs" / run,
        store=work / "store.sqlite",
        progress=False,
    )
    quality, cells = log.frame("quality").filter(plan=""), {}
    for row, treatment in ROWS.items():
        one = quality.filter(treatment=treatment).row(0, named=True)
        psi = one["psi_estimate"]
        known = psi is not None and psi == psi
        cells[row] = short(one["estimate"]) + (f" ({short(psi, '.2f')})" if known else "")
        say(
            f"{subject.name}, {task}, {row}: {cells[row]}, {one['queries']} queries in "
            f"{one['clusters']} clusters"
        )
    return cells


def short(value: float | None, form: str = ".3f") -> str:
    """A number without the 0 before its point, as in our tables."""
    return "" if value is None else f"{value:{form}}".replace("-", "−").replace("0.", ".", 1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", required=True, metavar="NAME=FOLDER")
    parser.add_argument(
        "--data", type=Path, required=True, help="the folder with corpora/ and retrieval/"
    )
    parser.add_argument(
        "--work",
        type=Path,
        default=Path(tempfile.gettempdir()) / "quality",
        help="runs and vectors",
    )
    parser.add_argument("--device", help="cpu or cuda; by default the fastest that is there")
    parser.add_argument(
        "--skip", default="", help="tasks such as xquad,scifact,news; separated by commas"
    )
    parser.add_argument("--limit", type=int, help="documents per corpus, for a quick check")
    parser.add_argument("--seed", type=int, default=0, help="of the split")
    parser.add_argument(
        "--half", choices=["tune", "report"], default="report", help="tune: to choose settings on"
    )
    parser.add_argument(
        "--also", nargs="*", default=[], help="more treatments, such as fair+temperature=0.8"
    )
    given = parser.parse_args()
    ROWS.update({one: one + ONLY for one in given.also})
    work = given.work / f"{given.seed}-{given.limit}"
    splits = work / "splits"
    if not splits.exists():
        split_corpora(given.data, splits, given.limit, given.seed)
    tasks = tasks_of(
        given.data, splits, given.half, [word for word in given.skip.lower().split(",") if word]
    )
    lines = [f"| | {' | '.join(tasks)} |", "|---|" + "---|" * len(tasks)]
    for one in given.models:
        subject = open_model(one, given.device)
        found = {task: measure(subject, task, asked, work) for task, asked in tasks.items()}
        for row in ROWS:
            name = f"{subject.name}, {row}" if row == "plain" else row
            lines.append(f"| {name} | {' | '.join(found[task][row] for task in tasks)} |")
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
