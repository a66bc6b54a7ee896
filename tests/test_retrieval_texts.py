"""What a search reads: tasks in a model's tokens, chunks, windows, indexes, encoders."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, combinations, pairwise
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers

import fairspan
from fairspan import DesignError, PerSide, SegmentedText
from fairspan.calibration.calibration import PRESETS, Calibration
from fairspan.corpus.corpus import Corpus
from fairspan.encoding.chunks import chunk_documents, grouped
from fairspan.encoding.encoder import ModelEncoder, Text
from fairspan.encoding.tokens import Characters, ModelTokens
from fairspan.errors import CorpusError
from fairspan.model.build import copy_sharing_weights
from fairspan.retrieval.indexes import INDEXES, assemble, plan_index
from fairspan.retrieval.measured import MeasuredTask, measure_task
from fairspan.retrieval.task import FIFTHS, Evidence, Passage, Query, RetrievalTask
from tests.tiny import HIDDEN, words

Make = Callable[..., SentenceTransformer]

# Float32 sums in padded batches are split otherwise than for a text alone: a few roundings (6e-8
# each) through four layers of vectors whose entries are of order 1.
BY_PADDING = 1e-5


def static(tokenizer: Tokenizer) -> SentenceTransformer:
    """That tokenizer with hardly any weights behind it."""
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=4)], device="cpu")


@pytest.fixture(scope="module")
def wordpiece(bag_of_words: SentenceTransformer) -> ModelTokens:
    """Of a real model."""
    return ModelTokens(bag_of_words)


def with_joining_spaces() -> ModelTokens:
    """One token a word, which begins with the space before it, as in XLM-R and Qwen."""
    vocabulary = ["<unk>", *(f"▁w{number}" for number in range(90)), "▁."]
    numbers = {word: number for number, word in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return ModelTokens(static(tokenizer))


def by_bytes() -> ModelTokens:
    """A token for every byte, as byte-level tokenizers have where they merged nothing."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    numbers = {letter: number for number, letter in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=numbers, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False)
    return ModelTokens(static(tokenizer))


def sentences(count: int, seed: int, length: int) -> list[str]:
    """Words, with a full stop in place of each `length`-th."""
    own = words(count, seed).split()
    own[length - 1 :: length] = ["."] * len(own[length - 1 :: length])
    return own


def narrow(model: SentenceTransformer, window: int) -> SentenceTransformer:
    copied = copy_sharing_weights(model)
    copied.max_seq_length = window
    return copied


# Tasks in tokens. One token a word, and <s> and </s> around them.

LENGTHS = {"d0": 10, "d1": 23, "d2": 31, "d3": 18}
# For each query: its document, the word where the evidence starts, and how many words it has.
PLACES = {"q0": ("d0", 0, 2), "q1": ("d0", 9, 1), "q2": ("d1", 4, 3), "q3": ("d1", 5, 1)}
PLACES |= {"q4": ("d1", 22, 1), "q5": ("d2", 17, 4), "q6": ("d2", 18, 4), "q7": ("d2", 30, 1)}
PLACES["q8"] = ("d3", 14, 2)


def known_evidence() -> RetrievalTask:
    """Sentences of five words; the fifth is a full stop."""
    texts = {name: sentences(count, seed, 5) for seed, (name, count) in enumerate(LENGTHS.items())}
    documents = [Passage(name, " ".join(text), "en") for name, text in texts.items()]
    evidence = {}
    for query, (document, word, count) in PLACES.items():
        start = len(" ".join(texts[document][:word])) + (word > 0)
        end = start + len(" ".join(texts[document][word : word + count]))
        evidence[query] = Evidence(document, start, end)
    numbered = enumerate(PLACES)
    queries = tuple(Query(name, words(3 + number, 50 + number), "en") for number, name in numbered)
    relevant = {query: {document: 1.0} for query, (document, _, _) in PLACES.items()}
    return RetrievalTask("known", queries, tuple(documents), relevant, evidence)


@pytest.mark.parametrize("prompt", ["", "w7 w8 w9 "])
def test_tokens_before_the_evidence_and_its_fifth(make_tiny: Make, prompt: str) -> None:
    """Counted in words. The prompt is part of a document's length and of no offset."""
    task = known_evidence()
    asked = ModelTokens(make_tiny(), "w1 w2 ")
    measured = measure_task(task, ModelTokens(make_tiny(), prompt), asked, too_long="leave-out")
    assert measured.task == task
    marks = 2 + len(prompt.split())
    assert measured.lengths == {name: marks + length for name, length in LENGTHS.items()}
    assert measured.query_lengths == {name: 7 + number for number, name in enumerate(PLACES)}
    for query, (document, word, _) in PLACES.items():
        place = measured.positions[query]
        assert (place.offset, place.groups) == (word, FIFTHS)
        assert place.group == 1 + 5 * word // LENGTHS[document]
    assert {place.group for place in measured.positions.values()} == {1, 2, 3, 4, 5}


def test_offsets_in_the_tokens_of_a_real_tokenizer(wordpiece: ModelTokens) -> None:
    """As many as the text before it has, for every word of Hindi, Chinese and English texts."""
    documents = real_documents(2)
    queries, evidence, relevant, expected = [], {}, {}, {}
    for document in documents:
        text = document.text
        (total,) = wordpiece.count([text])
        for start in (n for n in range(len(text)) if n == 0 or text[n - 1] in " 。，"):
            query = Query(f"{document.id}/{start}", "x", document.language)
            queries.append(query)
            relevant[query.id] = {document.id: 1.0}
            evidence[query.id] = Evidence(document.id, start, start + 1)
            (before,) = wordpiece.count([text[:start]])
            expected[query.id] = (before, 1 + min(4, 5 * before // total))
    task = RetrievalTask("real", tuple(queries), tuple(documents), relevant, evidence)
    places = measure_task(task, wordpiece, wordpiece, too_long="error").positions
    assert {name: (place.offset, place.group) for name, place in places.items()} == expected
    assert len(expected) > 200


# A token goes with its last character, as in `tokens_of_spans`; here all that begin earlier are
# taken to be before.


def test_a_token_that_begins_with_the_space_goes_with_its_word() -> None:
    task = known_evidence()
    counter = with_joining_spaces()
    places = measure_task(task, counter, counter, too_long="error").positions
    words_before = {query: word for query, (_, word, _) in PLACES.items()}
    assert {name: place.offset for name, place in places.items()} == words_before


def test_segments_are_the_positions_of_pages(make_tiny: Make) -> None:
    """Whatever the lengths: the second of three is at 2, though it lies in the last fifth."""
    text = f"{words(40, 1)} {words(3, 2)} {words(4, 3)}"
    first, second = len(words(40, 1)), len(words(3, 2))
    spans = ((0, first), (first + 1, first + 1 + second), (first + second + 2, len(text)))
    queries = tuple(Query(f"s{n}/en", words(4, n), "en") for n in range(3))
    task = RetrievalTask(
        "pages",
        queries,
        (Passage("p", text, "en", spans),),
        {query.id: {"p": 1.0} for query in queries},
        {query.id: Evidence("p", *span) for query, span in zip(queries, spans, strict=True)},
        lead="en",
        later="en",
    )
    counter = ModelTokens(make_tiny())
    positions = measure_task(task, counter, counter, too_long="error").positions
    places = [positions[query.id] for query in queries]
    told = [(place.group, place.groups, place.offset) for place in places]
    assert told == [(1, 3, 0), (2, 3, 40), (3, 3, 43)]


def test_a_fifth_that_was_given_is_the_position_unless_the_document_is_shortened(
    make_tiny: Make,
) -> None:
    """Of d1's 23 words 15 fit into 17, and words 4 and 5 are in their second fifth; d0 fits."""
    task = known_evidence()
    in_fifth = {query: replace(found, fifth=4) for query, found in task.evidence.items()}
    task = replace(task, evidence=in_fifth)
    whole, short = (ModelTokens(narrow(make_tiny(), window)) for window in (40, 17))
    measured = measure_task(task, whole, whole, too_long="shorten")
    assert {place.group for place in measured.positions.values()} == {5}
    shorter = measure_task(task, short, short, too_long="shorten").positions
    groups = {name: place.group for name, place in shorter.items()}
    assert groups == {"q0": 5, "q1": 5, "q2": 2, "q3": 2}


def test_documents_that_are_left_out(make_tiny: Make) -> None:
    """A window of 25: d2, of 33, goes with its three queries; d1, of exactly 25, stays."""
    counter = ModelTokens(narrow(make_tiny(), 25))
    measured = measure_task(known_evidence(), counter, counter, too_long="leave-out")
    assert [document.id for document in measured.task.documents] == ["d0", "d1", "d3"]
    left = [query.id for query in measured.task.queries]
    assert left == ["q0", "q1", "q2", "q3", "q4", "q8"]
    assert set(measured.positions) == set(measured.query_lengths) == set(left)
    (note,) = measured.task.notes
    assert note == (
        "1 of 4 documents are longer than the 25 tokens that the model reads and were left "
        "out, with 3 of 9 queries; what fits of them is kept if they are shortened instead"
    )


def test_of_several_relevant_documents_one_may_be_left_out(make_tiny: Make) -> None:
    """A query stays while something that fits answers it, unless its evidence is gone."""
    task = known_evidence()
    relevant = {**task.relevant, "q0": {"d0": 1.0, "d2": 2.0}, "q5": {"d2": 1.0, "d0": 3.0}}
    without = {query: found for query, found in task.evidence.items() if query != "q6"}
    task = replace(task, relevant={**relevant, "q6": {"d2": 1.0, "d3": 0.5}}, evidence=without)
    counter = ModelTokens(narrow(make_tiny(), 25))
    measured = measure_task(task, counter, counter, too_long="leave-out")
    left = [query.id for query in measured.task.queries]
    assert left == ["q0", "q1", "q2", "q3", "q4", "q6", "q8"]
    assert measured.task.relevant["q0"] == {"d0": 1.0}
    assert measured.task.relevant["q6"] == {"d3": 0.5}
    assert "q6" not in measured.positions


def test_documents_that_are_shortened(make_tiny: Make) -> None:
    """To whole sentences of five words: 20 of d1's 23 and d2's 31 into a window of 23."""
    task = known_evidence()
    counter = ModelTokens(narrow(make_tiny(), 23))
    measured = measure_task(task, counter, counter, too_long="shorten")
    texts = {document.id: document.text for document in measured.task.documents}
    for document in task.documents:
        kept = 20 if document.id in ("d1", "d2") else LENGTHS[document.id]
        assert texts[document.id] == " ".join(document.text.split()[:kept])
        assert measured.lengths[document.id] == 2 + kept
    # q4 and q7 come later, and q5 and q6 begin before the end and go on after it.
    assert [query.id for query in measured.task.queries] == ["q0", "q1", "q2", "q3", "q8"]
    groups = {name: place.group for name, place in measured.positions.items()}
    assert groups == {"q0": 1, "q1": 5, "q2": 2, "q3": 2, "q8": 4}
    (note,) = measured.task.notes
    assert note == (
        "2 of 4 documents are longer than the 23 tokens that the model reads and were "
        "shortened to the sentences that fit; 4 of 9 queries, whose evidence comes later, were "
        "left out"
    )


def test_a_sentence_that_does_not_fit_is_cut_between_tokens(make_tiny: Make) -> None:
    document = Passage("d", words(30, 1), "en")
    counter = ModelTokens(narrow(make_tiny(), 12), "w3 ")
    measured = shortened(document, counter)
    assert measured.task.documents[0].text.split() == document.text.split()[:9]
    assert measured.lengths == {"d": 12}


def shortened(document: Passage, counter: ModelTokens) -> MeasuredTask:
    """A task of this document, of which what fits is kept."""
    asked = ((Query("q", "w1"),), (document,), {"q": {"d": 1.0}}, {"q": Evidence("d", 0, 2)})
    return measure_task(RetrievalTask("t", *asked), counter, counter, too_long="shorten")


def test_a_shortened_document_keeps_the_border_of_its_last_segment(make_tiny: Make) -> None:
    """Segments of 10 and 20 words, of which 16 fit: the second begins where it did."""
    own = sentences(30, 1, 4)
    text = " ".join(own)
    border = len(" ".join(own[:10])) + 1
    document = Passage("d", text, "en", ((0, border - 1), (border, len(text))))
    (shorter,) = shortened(document, ModelTokens(narrow(make_tiny(), 18))).task.documents
    assert shorter.text.split() == own[:16]
    assert shorter.spans == ((0, border - 1), (border, len(shorter.text)))


def test_documents_that_are_cut_or_refused(make_tiny: Make) -> None:
    counter = ModelTokens(narrow(make_tiny(), 25))
    task = known_evidence()
    measured = measure_task(task, counter, counter, too_long="cut")
    assert measured.task.documents == task.documents
    assert measured.task.queries == task.queries
    assert measured.lengths["d2"] == 33, "the whole length, of which 25 are read"
    assert measured.task.notes[0] == (
        "1 of 4 documents are longer than the 25 tokens that the model reads: only their "
        "beginning is read"
    )
    # 23 of 31 words are read; only the evidence of q7, at word 30, is beyond them.
    assert measured.task.notes[1] == "the evidence of 1 queries is beyond the model's window"
    with pytest.raises(CorpusError, match=r"^1 of 4 .* than the 25 tokens that .* reads: leave"):
        measure_task(task, counter, counter, too_long="error")


def test_nothing_is_left(make_tiny: Make) -> None:
    counter = ModelTokens(narrow(make_tiny(), 6))
    task = known_evidence()
    late = {query: replace(e, start=e.end - 1) for query, e in task.evidence.items()}
    queries = tuple(query for query in task.queries if query.id not in ("q0", "q2"))
    said = "no query is left: every document that answers one is longer than the 6"
    for too_long, own in (
        ("leave-out", task),
        ("shorten", replace(task, evidence=late, queries=queries)),
    ):
        with pytest.raises(CorpusError, match=said):
            measure_task(own, counter, counter, too_long=too_long)


def test_characters_where_there_are_no_tokens() -> None:
    task = known_evidence()
    measured = measure_task(task, Characters(), Characters(), too_long="error")
    for query, found in task.evidence.items():
        length = len(next(d.text for d in task.documents if d.id == found.document))
        assert measured.positions[query].offset == found.start
        assert measured.positions[query].group == 1 + 5 * found.start // length


# Chunks.


def real_documents(count: int = 4) -> list[Passage]:
    corpus = Corpus.read("sample")
    return [
        Passage(f"{name}/{language}", corpus.text(name, language), language)
        for language in ("en", "zh", "hi")
        for name in corpus.ids()[:count]
    ]


def assert_chunked(
    documents: Sequence[Passage], chunks: Sequence[Sequence[tuple[int, int]]]
) -> None:
    """In order, without overlaps, and nothing but white space outside."""
    assert len(chunks) == len(documents)
    for document, spans in zip(documents, chunks, strict=True):
        assert all(start < end for start, end in spans)
        assert all(one[1] <= other[0] for one, other in pairwise(spans))
        outside = [0, *(place for span in spans for place in span), len(document.text)]
        gaps = [document.text[a:b] for a, b in zip(outside[::2], outside[1::2], strict=True)]
        assert not "".join(gaps).strip()


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.slow), 7, 20, 500])
def test_chunks_hold_everything_and_are_never_too_long(wordpiece: ModelTokens, size: int) -> None:
    """English, Chinese and Hindi; at 500 each article is one chunk, at 1 every token is one."""
    documents = real_documents()
    chunks = chunk_documents(documents, wordpiece, size)
    assert_chunked(documents, chunks)
    for document, spans in zip(documents, chunks, strict=True):
        assert max(wordpiece.count([document.text[slice(*span)] for span in spans])) <= size
        if size == 500:
            assert len(spans) == 1
        if size == 1:
            assert len(spans) >= wordpiece.count([document.text])[0]


def test_a_character_of_many_tokens_stays_whole() -> None:
    """Three bytes each: no chunk of two bytes can hold one, and none is lost."""
    document = Passage("d", "你好，世界", "zh")
    (spans,) = chunk_documents([document], by_bytes(), 2)
    assert [document.text[slice(*span)] for span in spans] == list(document.text)
    (spans,) = chunk_documents([document], by_bytes(), 6)
    assert [document.text[slice(*span)] for span in spans] == ["你", "好，", "世界"]


def test_chunks_that_the_model_cannot_read(make_tiny: Make) -> None:
    """A window of 20 less <s>, </s> and a prompt of three: chunks of 15 and no more."""
    counter = ModelTokens(narrow(make_tiny(), 20), "w1 w2 w3 ")
    document = Passage("d", words(40, 1), "en")
    (spans,) = chunk_documents([document], counter, 15)
    assert [len(document.text[slice(*span)].split()) for span in spans] == [14, 13, 13]
    with pytest.raises(DesignError, match="chunks for this model have 1 to 15 tokens, got 16"):
        chunk_documents([document], counter, 16)
    assert chunk_documents([document], counter, "window") == [spans]
    with pytest.raises(DesignError, match="this model have 1 or more characters, got window"):
        chunk_documents([document], Characters(), "window")


def test_windows_by_hand() -> None:
    """Room for 18: 5 + 1 + 6 + 1 + 5 fit exactly, one more token does not."""
    chunks = [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    windows = grouped(zip(chunks, [5, 6, 5, 2, 18], strict=True), 18, 1)
    assert windows == [chunks[:3], chunks[3:4], chunks[4:]]
    assert grouped(zip(chunks, [5, 6, 6, 2, 8], strict=True), 18, 1) == [chunks[:2], chunks[2:]]
    assert grouped(zip(chunks, [5] * 5, strict=True), None, 1) == [chunks]
    assert grouped([], 18, 1) == []


# Indexes.


@pytest.fixture
def long_and_short(make_tiny: Make) -> tuple[list[Passage], ModelTokens]:
    """Documents of 12 and of 33 words in sentences of 4, for a model that reads 20."""
    texts = [" ".join(sentences(length, seed, 4)) for seed, length in ((1, 12), (2, 33))]
    documents = [
        Passage("short", texts[0], "en", ((0, 10), (11, len(texts[0])))),
        Passage("long", texts[1], "en"),
    ]
    return documents, ModelTokens(narrow(make_tiny(), 20))


def test_what_each_index_embeds(long_and_short: tuple[list[Passage], ModelTokens]) -> None:
    documents, counter = long_and_short
    lengths = {"short": 14, "long": 35}
    short, long = (document.text.split() for document in documents)
    plans = {kind: plan_index(kind, documents, lengths, counter, 8) for kind in INDEXES}
    # Five chunks are the fewest; 4 and 5 words are more even than 8 and 1.
    parts = [long[a:b] for a, b in pairwise([0, 8, 16, 24, 28, 33])]
    assert list(plans["whole"].texts) == ["short", "long"]
    bordered = Text(documents[0].text, 14, borders=(0, 11), language="en")
    assert plans["whole"].texts["short"] == (bordered,)
    assert plans["whole"].texts["long"] == (Text(documents[1].text, 35, language="en"),)
    for kind in ("chunk-mean", "chunk-max"):
        plan = plans[kind]
        assert [text.text.split() for text in plan.texts["short"]] == [short[:8], short[8:]]
        assert [text.text.split() for text in plan.texts["long"]] == parts
        assert [text.length for text in plan.flat] == [10, 6, 10, 10, 10, 6, 7]
        assert all(text.spans == () for text in plan.flat)
    plan = plans["late-max"]
    (whole,) = plan.texts["short"]
    assert (whole.text, whole.length, whole.borders) == (documents[0].text, 14, (0, 11))
    assert [whole.text[slice(*span)].split() for span in whole.spans] == [short[:8], short[8:]]
    # Room for 18 tokens: two chunks of 8 with one for the space; then the rest.
    read = plan.texts["long"]
    assert [text.text.split() for text in read] == [long[:16], long[16:28], long[28:]]
    assert [text.length for text in read] == [18, 14, 7]
    chunks = [text.text[slice(*span)].split() for text in read for span in text.spans]
    assert chunks == parts


def test_late_windows_fit_and_cover_all(make_tiny: Make) -> None:
    """Long documents of uneven sentences: every chunk is in one window, in order."""
    rng = np.random.default_rng(0)
    documents = []
    for number in range(6):
        sizes = rng.integers(1, 14, 30)
        parts = [f"{words(int(size), 100 * number + place)} ." for place, size in enumerate(sizes)]
        documents.append(Passage(f"d{number}", " ".join(parts), "en"))
    counter = ModelTokens(narrow(make_tiny(), 40), "w5 ")
    counts = counter.count_whole([document.text for document in documents])
    lengths = {document.id: count for document, count in zip(documents, counts, strict=True)}
    assert min(lengths.values()) > 40, "the premise"
    chunked = chunk_documents(documents, counter, 10)
    plan = plan_index("late-max", documents, lengths, counter, 10)
    for document, chunks in zip(documents, chunked, strict=True):
        texts = plan.texts[document.id]
        assert max(counter.count_whole([text.text for text in texts])) <= 40
        assert [text.text[slice(*span)] for text in texts for span in text.spans] == [
            document.text[slice(*span)] for span in chunks
        ]
        assert len(texts) < len(chunks)


def test_assembling_by_hand() -> None:
    """A document of one text, one of two, and one whose text has two spans in one row."""
    three, four = np.array([3.0, 4.0], np.float32), np.array([0.0, 2.0], np.float32)
    row = np.array([1.0, 0.0, 5.0, 12.0], np.float32)
    found = [[three], [three, four], [row]]
    units = np.array([[0.6, 0.8], [0.6, 0.8], [0, 1], [1, 0], [5 / 13, 12 / 13]])
    for kind in ("chunk-max", "late-max"):
        made = assemble(kind, found, 2, normalise=True)
        np.testing.assert_allclose(made.vectors, units, atol=1e-7)
        assert made.owners is not None
        assert made.owners.tolist() == [0, 1, 1, 2, 2]
        assert made.vectors.nbytes == 5 * 2 * 4
        plain = assemble(kind, found, 2, normalise=False)
        assert plain.vectors.tolist() == [[3, 4], [3, 4], [0, 2], [1, 0], [5, 12]]
    made = assemble("chunk-mean", found[:2], 2, normalise=True)
    means = np.stack([units[0], units[1:3].mean(0)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    np.testing.assert_allclose(made.vectors, means, atol=1e-7)
    assert made.owners is None
    raw = assemble("chunk-mean", found[:2], 2, normalise=False)
    assert raw.vectors.tolist() == [[3, 4], [1.5, 3]]
    whole = assemble("whole", [[three], [four]], 2, normalise=True)
    np.testing.assert_allclose(whole.vectors, [[0.6, 0.8], [0, 1]], atol=1e-7)
    assert whole.owners is None
    assert whole.vectors.dtype == np.float32
    assert assemble("chunk-max", [[three], [four]], 2, normalise=False).owners is None


# Segmented texts.


def test_a_cut_text_is_the_text() -> None:
    """Line breaks stay, whatever lies before the first border goes with the first segment."""
    text = " First one.\n\n Second.  Third "
    page = SegmentedText.cut(text, [1, 13, 22])
    assert page == text
    assert str(page) == text
    assert page.segments == ("First one.", "Second.", "Third")
    assert page.starts == [1, 13, 22]
    assert SegmentedText.cut(text, (1,)).segments == (text.strip(),)


@pytest.mark.parametrize("starts", [[], [0, 0], [3, 2], [-1, 3], [0, 99], [0, 16]], ids=str)
def test_borders_that_cannot_be(starts: list[int]) -> None:
    with pytest.raises(DesignError, match="segments begin at growing places inside the text"):
        SegmentedText.cut("First. \n Second.", starts)


def test_pickles() -> None:
    """What a process pool sends: the text and its borders, not the text joined anew."""
    joined = SegmentedText(["a", "b c"])
    assert (joined, joined.starts) == ("a b c", [0, 2])
    for page in (SegmentedText.cut("First.\n\nSecond.", [0, 8]), joined):
        told = (str(page), page.segments, page.starts)
        for again in (pickle.loads(pickle.dumps(page)), copy.deepcopy(page), copy.copy(page)):
            assert type(again) is SegmentedText
            assert (str(again), again.segments, again.starts) == told


# Encoders.

TEXTS = [words(30, 1), words(5, 2), words(17, 3)]
BY_SIDE = Calibration(basket_size=8, temperature=PerSide(query=0.5, document=0.8))


def encoder(
    model: SentenceTransformer, calibration: Calibration, side: Any = "query", **options: Any
) -> ModelEncoder:
    how = {"prompt": "", "fingerprint": "f", "side": side, **options}
    return ModelEncoder(model, calibration, **how)


def vectors(made: ModelEncoder, texts: Sequence[str] = TEXTS) -> np.ndarray:
    return np.stack(made.vectors([Text(text, len(text.split()) + 2) for text in texts]))


def alone(encode: Callable[..., Any], **options: Any) -> np.ndarray:
    return np.stack([encode(text, **options) for text in TEXTS])


@pytest.mark.parametrize(
    "calibration",
    [PRESETS["plain"], Calibration(basket_size=8, sides="query"), BY_SIDE],
    ids=["none", "one", "both"],
)
@pytest.mark.parametrize("side", ["query", "document"])
def test_an_encoder_of_a_side(make_tiny: Make, calibration: Calibration, side: str) -> None:
    model = make_tiny("bert", "cls")
    prompt = {"query": "w1 w2 ", "document": "w3 "}[side]
    fair = fairspan.calibrate(model, calibration)
    by_hand = alone(getattr(fair, f"encode_{side}"), prompt=prompt)
    plain = alone(model.encode, prompt=prompt)
    found = vectors(encoder(model, calibration, side, prompt=prompt))
    assert np.abs(found - by_hand).max() < BY_PADDING
    changed = calibration.acts_on("query" if side == "query" else "document")
    assert (np.abs(found - plain).max() > 1e-3) == changed


def test_keys_differ_wherever_vectors_do(make_tiny: Make) -> None:
    model = make_tiny("bert", "cls")
    paper, plain = Calibration(basket_size=8), PRESETS["plain"]
    made = [
        encoder(model, calibration, side, prompt=prompt)
        for calibration in (
            plain,
            paper,
            paper.but(sides="document"),
            BY_SIDE,
            PRESETS["tempscale"],
        )
        for side in ("query", "document")
        for prompt in ("", "w1 ")
    ]
    made.append(encoder(model, paper, "document", by_segments=True))
    made.append(encoder(narrow(model, 10), plain, "document"))
    text = Text(words(30, 1), 32, borders=(0, 40))
    found = [np.asarray(one.vectors([text])[0]) for one in made]
    keys = [one.key(text) for one in made]
    apart = [
        (one, other)
        for one, other in combinations(range(len(made)), 2)
        if np.abs(found[one] - found[other]).max() > 1e-4
    ]
    assert all(keys[one] != keys[other] for one, other in apart)
    assert len(apart) > 100
    assert {len(made) - 1} < set(chain(*apart)), "a text that is cut has another vector"


def test_keys_are_the_same_where_vectors_are(make_tiny: Make) -> None:
    """A query that a calibration leaves alone; borders matter to segment baskets alone."""
    model = make_tiny("bert", "cls")
    text, other = Text(TEXTS[0], 32), Text(TEXTS[0], 99, borders=(0, 40))
    plain, paper = PRESETS["plain"], Calibration(basket_size=8)
    asked = encoder(model, plain)
    assert asked.key(text) == asked.key(other)
    assert asked.key(text) == encoder(model, paper.but(sides="document")).key(text)
    assert asked.key(text) == encoder(model, plain.but(temperature=PerSide(document=0.5))).key(text)
    assert asked.key(text) != encoder(model, paper).key(text)
    read = encoder(model, paper, "document")
    assert read.key(text) == read.key(other)
    by_segments = encoder(model, paper, "document", by_segments=True)
    assert by_segments.key(text) != by_segments.key(other)
    spans = Text(TEXTS[0], 32, spans=((0, 5),))
    assert read.key(spans) == read.key(text)
    assert read.span_key(spans) != read.span_key(Text(TEXTS[0], 32, spans=((0, 6),)))


@pytest.mark.parametrize("prompt", ["", "w7 w8 "])
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_segments_as_baskets(make_tiny: Make, pooling: str, prompt: str) -> None:
    """What `encode_segments` gives for the same segments; a text without borders is one segment."""
    model = make_tiny("bert", pooling)
    calibration = Calibration(basket_size=8)
    fair = fairspan.calibrate(model, calibration)
    made = encoder(model, calibration, "document", by_segments=True, prompt=prompt)
    pages = [[words(3, 1), words(20, 2), words(6, 3)], [words(9, 4), words(2, 5)], [words(12, 6)]]
    texts = []
    for parts in pages:
        starts = [len(" ".join(parts[:number])) + (number > 0) for number in range(len(parts))]
        texts.append(Text(" ".join(parts), 40, borders=tuple(starts)))
    texts[-1] = replace(texts[-1], borders=())
    given = {"prompt": prompt or None}
    by_hand = np.stack([fairspan.encode_segments(fair, [parts], **given)[0] for parts in pages])
    found = np.stack(made.vectors(texts))
    assert np.abs(found - by_hand).max() < BY_PADDING
    runs = np.stack(encoder(model, calibration, "document", prompt=prompt).vectors(texts))
    assert np.abs(found - runs)[:2].max() > 1e-3, "runs of eight tokens are other baskets"
    spanned = made.with_spans([replace(text, spans=((0, 5),)) for text in texts])
    assert np.abs(np.stack([vector for vector, _ in spanned]) - by_hand).max() < BY_PADDING


def test_late_vectors_by_hand(make_tiny: Make) -> None:
    """The mean of a chunk's last hidden states inside its document, after <s> and the prompt."""
    model = make_tiny("bert", "mean")
    fair = fairspan.calibrate(model, basket_size=8)
    document = Passage("d", f"{words(7, 1)} . {words(5, 2)} . {words(9, 3)} .", "en")
    counter = ModelTokens(model, "w4 ")
    plan = plan_index("late-max", [document], {"d": 27}, counter, 10)
    (text,) = plan.texts["d"]
    assert [len(document.text[slice(*span)].split()) for span in text.spans] == [8, 6, 10]
    made = encoder(model, Calibration(basket_size=8), "document", prompt="w4 ")
    ((whole, spans),) = made.with_spans([text])
    read = {"output_value": "token_embeddings", "prompt": "w4 "}
    tokens = fair.encode_document(document.text, **read).double()
    assert len(tokens) == 27
    for found, (start, end) in zip(spans, [(2, 10), (10, 16), (16, 26)], strict=True):
        mean = tokens[start:end].mean(dim=0)
        assert np.abs(found - torch.nn.functional.normalize(mean, dim=0).numpy()).max() < BY_PADDING
    assert np.abs(whole - fair.encode_document(document.text, prompt="w4 ")).max() < BY_PADDING
    assert spans.shape == (3, HIDDEN)
