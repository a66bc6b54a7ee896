"""The page of measured models is what the files of facts make; a new file makes one more row."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from benchmarks import measured

WHOLE = {
    "model": "owner/model",
    "note": "(a note)",
    "parameters": 33_360_000,
    "dimensions": 1024,
    "window": 8192,
    "pooling": "cls",
    "audit": {
        "plain": {"verdict": "biased", "position": 3, "estimate": -0.0691},
        "tiles": {"verdict": "fair", "position": 2, "estimate": 0.004},
    },
    "tune": {"answer": "use", "treatment": "tiles-128", "before": 0.672, "after": 0.734}
    | {
        "estimate": 0.062,
        "low": 0.042,
        "high": 0.083,
        "candidates": {"plain": 0.672, "chunk-mean-128": 0.73},
    },
    "qmsum": {
        **{
            arm: {"estimate": value}
            for arm, value in (("plain", 0.238), ("chunks", 0.399), ("several", 0.6))
        },
        "long": {
            "estimate": 0.427,
            "change_estimate": 0.189,
            "change_low": 0.155,
            "change_high": 0.222,
        },
    },
}
ROW = (
    "| owner/model (a note) | 33 M | 1,024 | 8,192 | cls | biased: −.069 at position 3 "
    "| fair: +.004 | use tiles-128: .672 → .734 (+.062 [+.042, +.083]); averaged chunks .730 "
    "| .238 | .399 | .427 (+.189 [+.155, +.222]) | .600 |\n"
)


def test_the_page_is_what_the_facts_make() -> None:
    text = measured.PAGE.read_text("utf-8")
    assert measured.with_table(text) == text, "run `python -m benchmarks.measured --page`"
    head, *rows = re.findall(r"^\|.*\|$", text, flags=re.MULTILINE)
    assert {one.count("|") for one in rows} == {head.count("|")}


@pytest.mark.parametrize("file", sorted(measured.FACTS.glob("*.json")), ids=lambda file: file.stem)
def test_facts_name_versions_and_machine_and_no_place(file: Path) -> None:
    facts = json.loads(file.read_text("utf-8"))
    for study in (facts[name] for name in ("audit", "tune", "qmsum") if name in facts):
        assert study["machine"]
        assert {"fairspan", "torch", "transformers"} <= study["versions"].keys()
    assert not re.search(r'[" ](/|\w:\\)', json.dumps(facts))


def test_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured.row(WHOLE) == ROW
    (tmp_path / "model.json").write_text(
        json.dumps({**WHOLE, "tune": None, "qmsum": None}), "utf-8"
    )
    monkeypatch.setattr(measured, "FACTS", tmp_path)
    made = measured.with_table("| a |\n|---|\n| old |\n\n| b |\n|---|\n")
    assert made == f"| a |\n|---|\n{ROW.split(' | use')[0]} |  |  |  |  |  |\n\n| b |\n|---|\n"
