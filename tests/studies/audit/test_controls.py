"""Models whose fairness is known: an audit must find what was built in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.errors import FairspanError


class Fading:
    """Words count the less the later they come: 1 at the start, `last` at the end of a text."""

    def __init__(self, last: float) -> None:
        self.last = last

    def encode(self, sentences: list[str]) -> np.ndarray:
        return np.stack([self._encode(text.split()) for text in sentences])

    def _encode(self, words: list[str]) -> np.ndarray:
        weights = np.linspace(1, self.last, len(words))
        vectors = [np.random.default_rng(list(word.encode())).normal(size=64) for word in words]
        return np.asarray(weights @ np.array(vectors))


def test_a_bag_of_words_is_fair(bag_of_words: SentenceTransformer, tmp_path: Path) -> None:
    log = fairspan.audit(
        bag_of_words, name="bag", sets=12, treatments=["plain"], out=tmp_path / "run"
    )
    assert log.frame("families")["sentence"].to_list() == ["within ±0.02"]
    # Only rounding is left: an order changes the sum of the same vectors, not its terms.
    assert np.abs(log.frame("coefficients")["estimate"][1:].to_numpy()).max() < 1e-6


def test_fading_words_are_a_bias_against_the_end(tmp_path: Path) -> None:
    log = fairspan.audit(Fading(0.2), sets=12, treatments=["plain"], out=tmp_path / "run")
    assert log.frame("families").select("verdict", "position", "against").rows() == [
        ("biased", 4, 1)
    ]
    assert (np.diff(log.frame("means")["estimate"].to_numpy()) < 0).all()


def test_a_tokenizer_that_cuts_is_found_out(
    bag_of_words: SentenceTransformer, tmp_path: Path
) -> None:
    """Its limit is only in the tokenizer. Cut documents would look like a bias of the model."""
    bag_of_words.tokenizer.enable_truncation(128)
    try:
        log = fairspan.audit(bag_of_words, sets=4, treatments=["plain"], out=tmp_path / "run")
        assert any("cut to their first 30 tokens" in note for note in log.notes)
    finally:
        bag_of_words.tokenizer.no_truncation()


def test_an_object_that_cuts_is_found_out(tmp_path: Path) -> None:
    class Cuts(Fading):
        def encode(self, sentences: list[str]) -> np.ndarray:
            return super().encode([text[:1000] for text in sentences])

    with pytest.raises(FairspanError, match=r"does not read its longest document .* to the end"):
        fairspan.audit(Cuts(1.0), sets=4, treatments=["plain"], out=tmp_path / "run")
