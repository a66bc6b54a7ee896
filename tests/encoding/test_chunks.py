"""Chunks of documents hold everything, and what tells segments apart."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers

from fairspan import DesignError, SegmentedText
from fairspan.corpus.corpus import Corpus
from fairspan.encoding.chunks import chunk_documents, grouped
from fairspan.encoding.text import Text
from fairspan.encoding.tokens import Characters, ModelTokens
from fairspan.model.build import copy_sharing_weights
from tests.tiny import words

Make = Callable[..., SentenceTransformer]


def static(tokenizer: Tokenizer) -> SentenceTransformer:
    """That tokenizer with hardly any weights behind it."""
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=4)], device="cpu")


@pytest.fixture(scope="module")
def wordpiece(bag_of_words: SentenceTransformer) -> ModelTokens:
    """Of a real model."""
    return ModelTokens(bag_of_words)


def by_bytes() -> ModelTokens:
    """A token for every byte, as byte-level tokenizers have where they merged nothing."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    numbers = {letter: number for number, letter in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=numbers, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False)
    return ModelTokens(static(tokenizer))


def narrow(model: SentenceTransformer, window: int) -> SentenceTransformer:
    copied = copy_sharing_weights(model)
    copied.max_seq_length = window
    return copied


def real_documents(count: int = 4) -> list[Text]:
    corpus = Corpus.read("sample")
    return [
        Text(corpus.text(name, language), 0, language=language)
        for language in ("en", "zh", "hi")
        for name in corpus.ids()[:count]
    ]


def assert_chunked(documents: Sequence[Text], chunks: Sequence[Sequence[tuple[int, int]]]) -> None:
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
    document = Text("你好，世界", 0, language="zh")
    (spans,) = chunk_documents([document], by_bytes(), 2)
    assert [document.text[slice(*span)] for span in spans] == list(document.text)
    (spans,) = chunk_documents([document], by_bytes(), 6)
    assert [document.text[slice(*span)] for span in spans] == ["你", "好，", "世界"]


def test_chunks_that_the_model_cannot_read(make_tiny: Make) -> None:
    """A window of 20 less <s>, </s> and a prompt of three: chunks of 15 and no more."""
    counter = ModelTokens(narrow(make_tiny(), 20), "w1 w2 w3 ")
    document = Text(words(40, 1), 0)
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
