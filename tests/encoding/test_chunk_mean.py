"""The treatment `chunk-mean`: the mean of the vectors of a document's chunks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.calibration.treatment import as_treatment
from fairspan.encoding.chunks import ChunkMean
from fairspan.encoding.encoder import ObjectEncoder
from fairspan.encoding.fill import Tally
from fairspan.encoding.store import Store
from fairspan.encoding.text import Text
from fairspan.encoding.tokens import Characters
from fairspan.errors import UnsupportedModel
from fairspan.runs.embedder import Embedder
from fairspan.runs.progress import Silent
from fairspan.runs.subject import open_subject
from tests.builders.embedding_server import Words, embed
from tests.builders.tiny import tiny_model
from tests.builders.verbs import write_articles

Make = Callable[..., SentenceTransformer]
FIRST, SECOND, THIRD = "Aa bb cc dd.", "Ee ff gg.", "Hh ii jj kk ll."


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return str(write_articles(tmp_path / "corpus"))


@pytest.mark.parametrize("normalise", [True, False])
def test_the_mean_by_hand_of_chunks_that_are_stored(normalise: bool) -> None:
    """As texts of their own, so that an index of chunks finds them; each is embedded and counted
    once."""
    encoder, tally = ObjectEncoder(Words()), Tally()
    encoder.chunks = ChunkMean(Characters(), 25, normalise=normalise)
    long, short = Text(f"{FIRST} {SECOND} {THIRD}", 38), Text(FIRST, 12)
    both = [f"{FIRST} {SECOND}", THIRD]
    parts = [[chunk.text for chunk in row] for row in encoder.pieces([long, short])]
    assert parts == [both, [FIRST]]
    first, second, alone = embed([*both, FIRST]).astype(np.float64)
    expected = [unit(unit(first) + unit(second)), unit(alone)]
    if not normalise:
        expected = [(first + second) / 2, alone]
    with Store(":memory:") as store:
        embedder = Embedder(store, 100, tally, Silent())
        means = embedder.embed(encoder, [long, short, long])
        np.testing.assert_allclose(means, [*expected, expected[0]], atol=1e-6)
        assert (tally.computed, tally.stored, tally.computed_tokens) == (3, 0, 37 + 12)
        plain = ObjectEncoder(Words())
        assert not store.missing([plain.key(Text(text, 1)) for text in (*both, FIRST)])
        again = Embedder(store, 100, tally, Silent())
        assert again.embed(encoder, [long]).tobytes() == means[:1].tobytes()
        assert (tally.computed, tally.stored) == (3, 2)


@pytest.mark.parametrize(("name", "size"), [("chunk-mean-8", 8), ("chunk-mean-window", 20)])
def test_of_a_sentence_transformer(tmp_path: Path, name: str, size: int) -> None:
    """Documents and segments by chunks in the model's tokens, queries whole; against encode and
    numpy. The window is that of the plain model, of 22 positions, though tiles read further. A text
    that fits has its plain vector."""
    model = tiny_model(tmp_path / "short", "bert", "mean", max_position_embeddings=22)
    model.max_seq_length = 60
    treatment = as_treatment(name)
    subject = open_subject(model).reading((treatment, as_treatment("tiles-8")))
    assert subject.counter.window != 22, "the premise"
    text = " ".join(f"w{number} w{number + 1} w{number + 2} ." for number in range(9))
    whole, fitting = (Text(one, subject.counter.count_whole([one])[0]) for one in (text, text[:10]))
    with Store(":memory:") as store:
        embed = Embedder(store, 500, Tally(), Silent()).embed
        treated = subject.under(treatment)
        found, fits = embed(treated.documents, [whole, fitting])
        (query,) = embed(treated.queries, [fitting])
    (chunks,) = treated.documents.pieces([whole])
    lengths = subject.counter.count([chunk.text for chunk in chunks])
    assert lengths == {8: [8, 4, 8, 8, 8], 20: [16, 20]}[size]
    assert " ".join(chunk.text for chunk in chunks) == text
    alone = np.asarray(model.encode([chunk.text for chunk in chunks]), dtype=np.float64)
    mean = unit(np.stack([unit(one) for one in alone]).mean(axis=0))
    np.testing.assert_allclose(found, mean, atol=1e-5)
    np.testing.assert_allclose(query, model.encode(text[:10]), atol=1e-5)
    np.testing.assert_allclose(fits, unit(model.encode(text[:10])), atol=1e-5)


def test_what_has_no_single_pass_is_refused(make_tiny: Make, corpus: str) -> None:
    model = make_tiny("bert", "mean")
    treatments = ["plain", "chunk-mean"]
    common: dict[str, Any] = {"corpus": corpus, "treatments": treatments, "progress": False}
    with pytest.raises(UnsupportedModel, match="in which retention is not"):
        fairspan.audit(model, **common, measures=["retention"])
    with pytest.raises(UnsupportedModel, match="chunk-mean reads a document in several passes"):
        fairspan.audit(model, **common, measures=["attention"])
