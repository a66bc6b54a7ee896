"""Audits of real models: biased as they come, and much less so once calibrated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.runs.sides import pairs_to_compare
from fairspan.studies.audit.comparison import Comparison, compare_sides
from fairspan.studies.audit.summary import Summary, summarize

TREATMENTS = ["none", "paper+basket_size=64"]


@pytest.fixture(autouse=True)
def both_cores() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


def spread_change(summary: Summary) -> Comparison:
    (pair,) = pairs_to_compare(summary.log)
    (found,) = compare_sides(*pair)
    return found


@pytest.mark.slow
def test_minilm_on_the_embedded_corpus(minilm: SentenceTransformer, tmp_path: Path) -> None:
    """Mean pooling. The demo's 40 sets gave spreads of .139 and .032; these are its first 12, which are disjoint."""
    log = fairspan.audit(minilm, name="MiniLM", sets=12, treatments=TREATMENTS, out=tmp_path / "run")
    summary = summarize(log)
    before, after = (summary.worst("representation", treatment) for treatment in TREATMENTS)
    assert before.verdict.kind == "biased"
    assert (before.verdict.position, before.verdict.against) == (4, 1)
    assert after.verdict.kind != "biased"
    change = spread_change(summary)
    print(f"MiniLM, spread {change.spreads[0]:.3f} → {change.spreads[1]:.3f}")
    assert change.spreads[1] < 0.5 * change.spreads[0]
    assert change.paired.spread.high < 0


@pytest.mark.slow
def test_granite_on_articles(granite: SentenceTransformer, shared: Path, tmp_path: Path) -> None:
    """CLS pooling. 40 such sets gave .879 .749 .742 .769 and .818 .781 .778 .791, with errors of about .005."""
    corpus = shared / "corpora" / "ethereum_org"
    if not corpus.is_dir():
        pytest.skip("needs ../shared/corpora/ethereum_org")
    log = fairspan.audit(
        granite,
        name="granite",
        corpus=str(corpus),
        languages=["en"],
        opening=118,
        sets=16,
        treatments=TREATMENTS,
        out=tmp_path / "run",
    )
    summary = summarize(log)
    before, after = (summary.worst("representation", treatment) for treatment in TREATMENTS)
    assert before.verdict.kind == "biased"
    assert before.effects.means.estimate == pytest.approx([0.879, 0.749, 0.742, 0.769], abs=0.03)
    assert after.effects.means.estimate == pytest.approx([0.818, 0.781, 0.778, 0.791], abs=0.03)
    change = spread_change(summary)
    print(f"granite, spread {change.spreads[0]:.3f} → {change.spreads[1]:.3f}")
    assert change.spreads[1] < 0.5 * change.spreads[0]
    assert change.paired.spread.high < 0
