"""Audits of real models: biased as they come, and much less so once calibrated."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.cli import main

ROOT = Path(__file__).parents[1]
TREATMENTS = ["plain", "paper+basket_size=64"]


@pytest.fixture(autouse=True)
def both_cores() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
def test_the_demo_finds_what_the_pages_say(
    minilm: SentenceTransformer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mean pooling. Rounding may change the ranks of a few of the 431 queries."""

    def answer(verb: str) -> dict[str, Any]:
        (typed,) = re.findall(
            rf"fairspan ({verb}.*?) --out", (ROOT / "Makefile").read_text("utf-8")
        )
        monkeypatch.setattr(
            "sys.argv", ["fairspan", *typed.split(), "--out", str(tmp_path / verb), "--json"]
        )
        printed = io.StringIO()
        with redirect_stdout(printed), suppress(SystemExit):
            main()
        found: dict[str, Any] = json.loads(printed.getvalue())
        return found

    searched, (verdict,) = (found := answer("evaluate"))["quality"], found["verdicts"]
    (shown,) = re.findall(
        r"^    fair +better: (.*?);", (ROOT / "docs/evaluate.md").read_text("utf-8"), re.MULTILINE
    )
    numbers = [
        [float(one) for one in re.findall(r"-?\d+\.\d+", text)]
        for text in (verdict["sentence"], shown)
    ]
    assert verdict["verdict"] == "better"
    assert numbers[0][: len(numbers[1])] == pytest.approx(numbers[1], abs=0.02)
    found_first = [
        row["estimate"]
        for row in searched
        if row["metric"] == "recall@10" and row["index"] == "whole"
    ]
    (said,) = re.findall(
        r"(\.\d+) of all passages instead of (\.\d+)", (ROOT / "README.md").read_text("utf-8")
    )
    assert found_first == pytest.approx([float(said[1]), float(said[0])], abs=0.01)
    audited = [(one["treatment"], one["verdict"]) for one in answer("audit")["verdicts"]]
    assert audited == [("plain", "biased"), ("fair", "fair")]


@pytest.mark.slow
def test_granite_on_articles(granite: SentenceTransformer, shared: Path, tmp_path: Path) -> None:
    """CLS pooling. 40 such sets gave .879 .749 .742 .769 and .818 .781 .778 .791, with errors of
    about .005: .011 of eight sets.
    """
    corpus = shared / "corpora" / "ethereum_org"
    if not corpus.is_dir():
        pytest.skip("needs ../shared/corpora/ethereum_org")
    log = fairspan.audit(
        granite,
        name="granite",
        corpus=str(corpus),
        languages=["en"],
        opening=118,
        sets=8,
        treatments=TREATMENTS,
        out=tmp_path / "run",
    )
    assert log.verdicts["verdict"][0] == "biased"
    before, after = (
        log.frame("means").filter(treatment=name)["estimate"].to_list() for name in TREATMENTS
    )
    assert before == pytest.approx([0.879, 0.749, 0.742, 0.769], abs=0.03)
    assert after == pytest.approx([0.818, 0.781, 0.778, 0.791], abs=0.03)
    [change] = log.frame("changes").iter_rows(named=True)
    assert change["second_spread"] < 0.5 * change["first_spread"]
    assert change["change_high"] < 0
