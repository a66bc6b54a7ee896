"""docs/schema.json, what `--json` prints, made from small runs of every verb: `python -m tests.output_schema`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

import fairspan
from fairspan.runs.log import FORMAT, RunLog
from fairspan.studies.logs import changes, compare
from tests.tiny import tiny_model, words
from tests.verbs import GRID, write_articles

FILE = Path(__file__).parents[1] / "docs" / "schema.json"

Schema = dict[str, Any]


def schema() -> Schema:
    """One definition per verb. Every column may be null: a number that is not defined is."""
    with tempfile.TemporaryDirectory() as folder:
        verbs = {name: _object(*told) for name, told in outputs(Path(folder)).items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"What fairspan prints with --json, format {FORMAT}",
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in verbs],
        "$defs": verbs,
    }


def outputs(folder: Path) -> dict[str, tuple[Mapping[str, Any], Mapping[str, pl.DataFrame]]]:
    """What each verb prints, and the frames of which its lists are made; with everything that a run may have."""
    model = tiny_model(folder / "weights", "bert", "mean")
    corpus = str(write_articles(folder / "corpus", 12))
    labelled = folder / "labelled.jsonl"
    texts = [
        {"text": " ".join(words(5, 50 * n + k) + "." for k in range(12)), "label": "ab"[n % 2]} for n in range(24)
    ]
    labelled.write_text("".join(json.dumps(one) + "\n" for one in texts))
    kept: dict[str, Any] = {"store": folder / "store.sqlite", "progress": False}
    audit = fairspan.audit(
        model,
        corpus=corpus,
        languages=["en", "it"],
        mixed=["en:it", "it:en"],
        sizes=[3],
        sets=4,
        measures=["representation", "attention"],
        treatments=["none", "tiles+tile_size=8"],
        out=folder / "audit",
        **kept,
    )
    search = fairspan.evaluate(
        model,
        corpus=corpus,
        size=2,
        sets=6,
        treatments=["none", "paper+basket_size=8"],
        temperature_grid=[1.0, 0.5],
        out=folder / "evaluate",
        **kept,
    )
    across = fairspan.evaluate(
        model,
        str(_questions(folder / "asked", Path(corpus))),
        languages=["en", "it"],
        documents=corpus,
        treatments=["none", "paper+basket_size=8"],
        out=folder / "across",
        **kept,
    )
    length = fairspan.collapse(
        model,
        corpus=corpus,
        lengths=[10, 20, 40],
        temperatures=[1.0, 0.5],
        documents=12,
        labelled=labelled,
        out=folder / "collapse",
        **kept,
    )
    tuning = fairspan.tune(
        model,
        corpus=str(write_articles(folder / "more")),
        size=2,
        sets=8,
        grid=GRID,
        chunk_tokens=16,
        out=folder / "tune",
        **kept,
    )
    page = fairspan.inspect(model, "\n\n".join(words(12, n) + "." for n in range(4)), progress=False)
    found = {log.verb: (log.to_dict(), log.view.frames) for log in (audit, search, length, tuning)}
    found["inspect"] = (page.to_dict(), page.view.frames)
    for log in (audit, search):
        found[f"compare ({log.verb})"] = _compared(log)
    more = {"evaluate": (across.to_dict(), across.view.frames), "compare (evaluate)": _compared(across)}
    for name, (told, frames) in more.items():
        found[name] = ({**told, **found[name][0]}, {**found[name][1], **frames})
    return found


def _questions(folder: Path, corpus: Path) -> Path:
    """One question about each article, in the languages of the corpus."""
    folder.mkdir()
    for file in corpus.glob("*.jsonl"):
        rows = []
        for line in file.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            answer = one["text"].split()[0]
            place = {"article": one["id"], "answer": answer, "start_in_article": 0}
            rows.append(json.dumps({"qid": one["id"], "question": one["title"], **place}) + "\n")
        (folder / file.name).write_text("".join(rows), encoding="utf-8")
    return folder


def _compared(log: RunLog) -> tuple[Mapping[str, Any], Mapping[str, pl.DataFrame]]:
    frames = {"verdicts": pl.DataFrame([one.to_dict() for one in changes(log)])}
    frames |= {table.name: table.frame for table in compare(log)}
    return {"format": FORMAT, **dict.fromkeys(frames, ())}, frames


def _object(told: Mapping[str, Any], frames: Mapping[str, pl.DataFrame]) -> Schema:
    own = {name: _plain(name, value) for name, value in told.items() if name not in frames}
    lists = {
        name: {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {column: _column(dtype) for column, dtype in frame.schema.items()},
                "required": list(frame.columns),
            },
        }
        for name, frame in frames.items()
    }
    return {"type": "object", "properties": {**own, **lists}, "required": [*own, "verdicts"]}


def _plain(name: str, value: Any) -> Schema:
    if name in ("format", "verb"):
        return {"const": value}
    kinds = {dict: "object", list: "array", tuple: "array", bool: "boolean", int: "integer", float: "number"}
    return {"type": [kinds.get(type(value), "string"), "null"]}


def _column(dtype: pl.DataType) -> Schema:
    if isinstance(dtype, pl.List):
        return {"type": ["array", "null"], "items": _column(dtype.inner)}  # type: ignore[arg-type]
    if dtype == pl.Null:
        return {}
    if dtype == pl.Boolean:
        kind = "boolean"
    elif dtype.is_integer():
        kind = "integer"
    else:
        kind = "number" if dtype.is_numeric() else "string"
    return {"type": [kind, "null"]}


def write() -> str:
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(write(), encoding="utf-8")
