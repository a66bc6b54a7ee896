"""Audits of real models: biased as they come, and much less so once calibrated."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path

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
def test_the_demo_finds_what_the_readme_says(
    minilm: SentenceTransformer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mean pooling. Rounding may move the number of sets by one, and ends of intervals by one in the last digit."""
    (typed,) = re.findall(r"fairspan (audit .*?) \\\n", (ROOT / "Makefile").read_text())
    monkeypatch.setattr("sys.argv", ["fairspan", *typed.split(), "--out", str(tmp_path / "demo"), "--json"])
    printed = io.StringIO()
    with redirect_stdout(printed), suppress(SystemExit):
        main()
    found = json.loads(printed.getvalue())["verdicts"]
    shown = re.findall(
        r"^    (plain|tiles\S*) +(\w+: .*)$", (ROOT / "README.md").read_text("utf-8"), flags=re.MULTILINE
    )
    assert [name for name, _ in shown] == [one["treatment"] for one in found] == typed.split()[-1].split(",")
    assert [said.split(":")[0] for _, said in shown] == [one["verdict"] for one in found]
    for (_, said), one in zip(shown, found, strict=True):
        expected, measured = (
            [float(number) for number in re.findall(r"-?[\d.]*\d", text.replace("−", "-"))]
            for text in (said, one["sentence"])
        )
        assert measured == pytest.approx(expected, abs=0.011, rel=0.05), said


@pytest.mark.slow
def test_granite_on_articles(granite: SentenceTransformer, shared: Path, tmp_path: Path) -> None:
    """CLS pooling. 40 such sets gave .879 .749 .742 .769 and .818 .781 .778 .791, with errors of about .005: .011 of
    eight sets.
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
    before, after = (log.frame("means").filter(treatment=name)["estimate"].to_list() for name in TREATMENTS)
    assert before == pytest.approx([0.879, 0.749, 0.742, 0.769], abs=0.03)
    assert after == pytest.approx([0.818, 0.781, 0.778, 0.791], abs=0.03)
    [change] = log.frame("changes").iter_rows(named=True)
    assert change["second_spread"] < 0.5 * change["first_spread"]
    assert change["change_high"] < 0
