"""The treatment `chunk-mean`: the mean of the vectors of a document's chunks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.calibration.treatment import Treatment, as_treatment
from fairspan.encoding.chunks import ChunkEncoder
from fairspan.encoding.encoder import ObjectEncoder, Text
from fairspan.encoding.fill import Tally, fill
from fairspan.encoding.store import Store
from fairspan.encoding.tokens import Characters
from fairspan.errors import DesignError, UnsupportedModel
from fairspan.runs.bases import embed_through
from fairspan.runs.subject import open_subject
from tests.embedding_server import Words, embed
from tests.verbs import write_articles

Make = Callable[..., SentenceTransformer]
FIRST, SECOND, THIRD = "Aa bb cc dd.", "Ee ff gg.", "Hh ii jj kk ll."


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return str(write_articles(tmp_path / "corpus"))


def test_segments_as_chunks() -> None:
    """The first segment has two chunks and the second has one; both have the same weight, whatever their lengths."""
    for wrong, said in (
        ("tiles+chunks=segments", "has no chunks: begin with chunk-mean"),
        ("chunk-mean+tile_size=8+tiles=segments", "make these segments with chunks=segments"),
    ):
        with pytest.raises(DesignError, match=said):
            as_treatment(wrong)
    treatment = as_treatment("chunk-mean-25+chunks=segments")
    assert (treatment.by_segments, treatment.chunk_size()) == (True, 25)
    assert Treatment.from_dict(treatment.to_dict()) == treatment
    known = {name: unit(embed([name])[0]) for name in (f"{FIRST} {SECOND}", THIRD, FIRST)}
    first, second = f"{FIRST} {SECOND} {THIRD}", FIRST
    text = Text(f"{first} {second}", len(first) + 1 + len(second), borders=(0, len(first) + 1))
    encoder = ChunkEncoder(ObjectEncoder(Words()), Characters(), 25, by_segments=True)
    parts = [unit(known[f"{FIRST} {SECOND}"] + known[THIRD]), known[FIRST]]
    np.testing.assert_allclose(encoder.vectors([text])[0], unit(sum(parts)), rtol=0, atol=1e-6)
    # Alone, and without borders, nothing changes; and a document in segments is stored under a key of its own.
    plain = ChunkEncoder(ObjectEncoder(Words()), Characters(), 25)
    assert encoder.key(Text(first, len(first), borders=(0,))) == plain.key(Text(first, len(first)))
    assert encoder.key(text) != plain.key(text)


def test_the_mean_by_hand() -> None:
    """Two sentences fit into 25 characters, the third is alone; a short text is its own mean, at length 1."""
    encoder = ChunkEncoder(ObjectEncoder(Words()), Characters(), 25)
    long, short = Text(f"{FIRST} {SECOND} {THIRD}", 38), Text(FIRST, 12)
    assert [[chunk.text for chunk in own] for own in encoder.parts([long, short])] == [
        [f"{FIRST} {SECOND}", THIRD],
        [FIRST],
    ]
    first, second, alone = (unit(one) for one in embed([f"{FIRST} {SECOND}", THIRD, FIRST]).astype(np.float64))
    found = encoder.vectors([long, short])
    np.testing.assert_allclose(found, [unit(first + second), alone], atol=1e-6)
    raw = ChunkEncoder(ObjectEncoder(Words()), Characters(), 25, normalise=False)
    np.testing.assert_allclose(raw.vectors([long])[0], embed([f"{FIRST} {SECOND}", THIRD]).mean(axis=0), atol=1e-6)
    assert raw.key(long) != encoder.key(long)


def test_chunks_are_stored_under_the_plain_models_keys() -> None:
    """So that an index of chunks finds them; what is counted is what was embedded."""
    plain = ObjectEncoder(Words())
    encoder = ChunkEncoder(plain, Characters(), 25)
    text, tally, done = Text(f"{FIRST} {SECOND} {THIRD}", 38), Tally(), list[int]()
    with Store(":memory:") as store:
        fill(encoder, [text, text], store, budget=100, tally=tally, progress=done.append)
        assert (tally.computed, tally.found, sum(done)) == (2, 0, 76)
        chunks = [Text(f"{FIRST} {SECOND}", 22), Text(THIRD, 15)]
        assert not store.missing([plain.key(chunk) for chunk in chunks])
        np.testing.assert_array_equal(store.get([encoder.key(text)])[encoder.key(text)], encoder.vectors([text])[0])
        fill(encoder, [text], store, budget=100, tally=tally, progress=done.append)
        assert (tally.computed, tally.found, sum(done)) == (2, 1, 114)


def test_of_a_sentence_transformer(make_tiny: Make) -> None:
    """Documents and segments by chunks in the model's tokens, queries whole; against encode and numpy."""
    model = make_tiny("bert", "mean")
    subject = open_subject(model)
    sentences = [f"w{number} w{number + 1} w{number + 2}." for number in range(9)]
    text, treatment = " ".join(sentences), as_treatment("chunk-mean-8")
    with Store(":memory:") as store:
        embed = embed_through(store, budget=500, tally=Tally(), progress=lambda tokens: None)
        treated = subject.under(treatment, embed=embed)
        length = subject.counter.count_whole([text])[0]
        (found,) = embed(treated.documents, [Text(text, length)])
        (query,) = embed(treated.queries, [Text(text, length)])
    assert isinstance(treated.documents, ChunkEncoder)
    (chunks,) = treated.documents.parts([Text(text, length)])
    assert all(subject.counter.count([chunk.text])[0] <= 8 for chunk in chunks)
    assert " ".join(chunk.text for chunk in chunks) == text
    assert len(chunks) > 2
    alone = np.asarray(model.encode([chunk.text for chunk in chunks]), dtype=np.float64)
    mean = unit(np.stack([unit(one) for one in alone]).mean(axis=0))
    np.testing.assert_allclose(found, mean, atol=1e-5)
    np.testing.assert_allclose(query, model.encode(text), atol=1e-5)


def test_it_is_the_index_of_the_same_name(make_tiny: Make, corpus: str) -> None:
    """In an evaluation: rows of the treatment on whole documents are those of the plain model's index."""
    asked: dict[str, Any] = {"size": 2, "sets": 5, "metrics": ["mrr"], "chunk_tokens": 20, "progress": False}
    log = fairspan.evaluate(
        make_tiny("bert", "mean"),
        **asked,
        corpus=corpus,
        treatments=["plain", "chunk-mean-20"],
        indexes=["whole", "chunk-mean"],
        store="store.db",
    )
    by_treatment = log.rows.filter(treatment="chunk-mean-20", part="whole")["value"]
    by_index = log.rows.filter(treatment="plain", part="chunk-mean")["value"]
    assert len(by_index) > 10
    assert by_treatment.equals(by_index)
    assert not by_treatment.equals(log.rows.filter(treatment="plain", part="whole")["value"])


def test_what_has_no_single_pass_is_refused(make_tiny: Make, corpus: str) -> None:
    model = make_tiny("bert", "mean")
    treatments = ["plain", "chunk-mean"]
    common: dict[str, Any] = {"corpus": corpus, "treatments": treatments, "progress": False}
    with pytest.raises(UnsupportedModel, match="chunk-mean are not comparable with token vectors: omit it"):
        fairspan.audit(model, **common, measures=["retention"])
    with pytest.raises(UnsupportedModel, match="chunk-mean reads a document in several passes"):
        fairspan.audit(model, **common, measures=["attention"])
    with pytest.raises(UnsupportedModel, match="not comparable with token vectors"):
        fairspan.evaluate(model, **common, indexes=["late-max"], cross=True)
    with pytest.raises(DesignError, match="chunk-mean has no single pass over a document and cannot be inspected"):
        fairspan.inspect(model, "w1 w2. w3 w4.", treatments=treatments, progress=False)
    with pytest.raises(DesignError, match=r"chunk-mean-600 has chunks of 600 tokens, and the model reads 510 of a"):
        fairspan.audit(model, corpus=corpus, treatments=["chunk-mean-600"], progress=False)
