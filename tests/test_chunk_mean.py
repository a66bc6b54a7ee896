"""The treatment `chunk-mean`: the mean of the vectors of a document's chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.calibration.treatment import Treatment, as_treatment
from fairspan.encoding.chunks import ChunkEncoder, chunk_documents
from fairspan.encoding.encoder import ObjectEncoder, Text
from fairspan.encoding.fill import Tally, fill
from fairspan.encoding.store import Store
from fairspan.encoding.tokens import Characters
from fairspan.errors import DesignError, UnsupportedModel
from fairspan.runs.embedder import Embedder
from fairspan.runs.progress import Silent
from fairspan.runs.subject import open_subject
from tests.embedding_server import Words, embed
from tests.test_design import Words as ByWords
from tests.tiny import tiny_model
from tests.verbs import write_articles

Make = Callable[..., SentenceTransformer]
FIRST, SECOND, THIRD = "Aa bb cc dd.", "Ee ff gg.", "Hh ii jj kk ll."


def even_chunks(parts: Sequence[str], size: int) -> list[str]:
    """Runs of parts, counted in words, by trying all: as many as if one is filled after another,
    none longer than the longest of those, with the least sum of squares; of equal ones the longer
    first."""
    filled, found = [0], []
    for length in (len(part.split()) for part in parts):
        filled[-1:] = [filled[-1] + length] if filled[-1] + length <= size else [filled[-1], length]
    for cuts in combinations(range(1, len(parts)), len(filled) - 1):
        runs = [" ".join(parts[start:end]) for start, end in pairwise((0, *cuts, len(parts)))]
        lengths = [len(run.split()) for run in runs]
        if max(lengths) <= max(filled):
            found.append((sum(length**2 for length in lengths), lengths[::-1], runs))
    return min(found)[2]


@given(
    st.integers(2, 9),
    st.lists(st.floats(0, 2.2), min_size=1, max_size=6),
    st.sampled_from([-1, 0, 1]),
)
@example(8, [0.375, 0, 0.125, 0.125, 0.5, 0.25], 0)
def test_chunks_are_even(size: int, shares: list[float], joint: int) -> None:
    """Also if sentences have more or fewer tokens together than alone. A sentence that is longer
    than a chunk is cut into parts that differ by at most a word."""
    said = [" ".join(["Word", *["word"] * int(size * share)]) + "." for share in shares]
    text, counter = " ".join(said), ByWords(joint=joint)
    (spans,) = chunk_documents([Text(text, 0)], counter, size)
    chunks = [text[slice(*span)] for span in spans]
    assert " ".join(chunks) == text
    assert max(counter.count_whole(chunks)) <= size + 2
    assert (len(chunks) == 1) == (counter.count_whole([text])[0] <= size + 2)
    if joint == 0:
        cut = [np.array_split(own.split(), -(-len(own.split()) // size)) for own in said]
        parts = [" ".join(part) for own in cut for part in own]
        assert chunks == even_chunks(parts, size)


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return str(write_articles(tmp_path / "corpus"))


def test_segments_as_chunks() -> None:
    """The first segment has two chunks and the second has one; both have the same weight, whatever
    their lengths."""
    for wrong, said in (
        ("tiles-64+chunks=segments", "has no chunks: begin with chunk-mean"),
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
    # Alone, and without borders, nothing changes; and a document in segments is stored under a key
    # of its own.
    plain = ChunkEncoder(ObjectEncoder(Words()), Characters(), 25)
    assert encoder.key(Text(first, len(first), borders=(0,))) == plain.key(Text(first, len(first)))
    assert encoder.key(text) != plain.key(text)


def test_what_stands_before_the_first_border_belongs_to_the_first_segment() -> None:
    """Such as the title of a document in BEIR's layout."""
    title, first, second = "Mm nn.", f"{FIRST} {SECOND}", THIRD
    text = Text(f"{title} {first} {second}", 0, borders=(7, len(f"{title} {first} ")))
    assert text.text[7:].startswith(FIRST), "the premise"
    encoder = ChunkEncoder(ObjectEncoder(Words()), Characters(), 60, by_segments=True)
    assert [chunk.text for chunk in encoder.parts([text])[0]] == [f"{title} {first}", second]
    vectors = [unit(vector) for vector in embed([f"{title} {first}", second]).astype(np.float64)]
    # Vectors are float32.
    np.testing.assert_allclose(encoder.vectors([text])[0], unit(sum(vectors)), atol=1e-6)


def test_the_mean_by_hand() -> None:
    encoder = ChunkEncoder(ObjectEncoder(Words()), Characters(), 25)
    long, short = Text(f"{FIRST} {SECOND} {THIRD}", 38), Text(FIRST, 12)
    parts = [[chunk.text for chunk in own] for own in encoder.parts([long, short])]
    assert parts == [[f"{FIRST} {SECOND}", THIRD], [FIRST]]
    both = [f"{FIRST} {SECOND}", THIRD]
    first, second, alone = (unit(one) for one in embed([*both, FIRST]).astype(np.float64))
    found = encoder.vectors([long, short])
    np.testing.assert_allclose(found, [unit(first + second), alone], atol=1e-6)
    raw = ChunkEncoder(ObjectEncoder(Words()), Characters(), 25, normalise=False)
    np.testing.assert_allclose(raw.vectors([long])[0], embed(both).mean(axis=0), atol=1e-6)
    assert raw.key(long) != encoder.key(long)


def test_without_room_to_remember_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and vectors are the same, and nothing stays in memory."""
    text = Text(f"{FIRST} {SECOND} {THIRD}", 38)
    encoder, small = (ChunkEncoder(ObjectEncoder(Words()), Characters(), 25) for _ in range(2))
    expected = encoder.key(text), encoder.vectors([text])[0].tobytes()
    monkeypatch.setattr("fairspan.encoding.chunks._REMEMBERED", 20)
    assert (small.key(text), small.vectors([text])[0].tobytes()) == expected
    assert not small._remembered


def test_chunks_are_stored_under_the_plain_models_keys() -> None:
    """So that an index of chunks finds them; what is counted is what was embedded."""
    plain = ObjectEncoder(Words())
    encoder = ChunkEncoder(plain, Characters(), 25)
    text, tally, done = Text(f"{FIRST} {SECOND} {THIRD}", 38), Tally(), {False: 0, True: 0}

    def report(tokens: int, stored: bool) -> None:
        done[stored] += tokens

    with Store(":memory:") as store:
        fill(encoder, [text, text], store, budget=100, tally=tally, progress=report)
        assert (tally.computed, tally.stored, done) == (2, 0, {False: 38, True: 0})
        chunks = [Text(f"{FIRST} {SECOND}", 22), Text(THIRD, 15)]
        assert not store.missing([plain.key(chunk) for chunk in chunks])
        np.testing.assert_array_equal(
            store.get([encoder.key(text)])[encoder.key(text)], encoder.vectors([text])[0]
        )
        fill(encoder, [text], store, budget=100, tally=tally, progress=report)
        assert (tally.computed, tally.stored, done) == (2, 1, {False: 38, True: 38})


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
    assert isinstance(treated.documents, ChunkEncoder)
    (chunks,) = treated.documents.parts([whole])
    lengths = subject.counter.count([chunk.text for chunk in chunks])
    assert lengths == {8: [8, 8, 8, 8, 4], 20: [20, 16]}[size]
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
    with pytest.raises(
        DesignError, match="chunk-mean has no single pass over a document and cannot be inspected"
    ):
        fairspan.inspect(model, "w1 w2. w3 w4.", treatments=treatments, progress=False)
    with pytest.raises(DesignError, match="this model have 1 to 510 tokens, got 600"):
        fairspan.audit(model, corpus=corpus, treatments=["chunk-mean-600"], progress=False)
    with pytest.raises(DesignError, match="this model have 1 or more characters, got window"):
        fairspan.audit(Words(), corpus=corpus, treatments=["chunk-mean-window"], progress=False)
