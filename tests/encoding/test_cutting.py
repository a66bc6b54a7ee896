"""The cutter of texts: nothing is lost, no part is too long, borders are at sentence ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers

from fairspan import DesignError
from fairspan.corpus.corpus import Corpus
from fairspan.corpus.sentences import Span
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.chunks import chunk_tokens
from fairspan.encoding.cutting import Count, cut_texts, fewest_parts
from fairspan.encoding.tokens import Characters, ModelTokens
from fairspan.model.build import copy_sharing_weights
from tests.builders.tiny import words
from tests.design.test_design import Words as Counter

Make = Callable[..., SentenceTransformer]


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
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=4)], device="cpu")
    return ModelTokens(model)


class Words(Counter):
    """A counter whose tokens are words, between two special ones; every joint of two sentences adds
    so many."""

    def starts(self, texts: Sequence[str]) -> list[Sequence[int]]:
        return [[match.start() for match in re.finditer(r"\S+", text)] for text in texts]


def cut(
    text: str, counter: TokenCounter, size: int, language: str = ""
) -> tuple[list[Span], list[str]]:
    """The spans and the texts of its parts of at most `size` tokens."""
    (spans,) = cut_texts([text], counter, lambda length: fewest_parts(length, size), [language])
    return spans, [text[slice(*span)] for span in spans]


def assert_whole(text: str, spans: Sequence[Span]) -> None:
    """In order, without overlaps, and nothing but white space outside."""
    assert all(start < end for start, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    outside = [0, *(place for span in spans for place in span), len(text)]
    gaps = [text[a:b] for a, b in zip(outside[::2], outside[1::2], strict=True)]
    assert not "".join(gaps).strip()


@pytest.mark.parametrize(
    ("language", "size"),
    [("en", 7), ("en", 20), ("en", 500), ("zh", 7), ("zh", 100), ("hi", 20), ("hi", 100)],
)
def test_parts_hold_everything_and_are_never_too_long(
    wordpiece: ModelTokens, language: str, size: int
) -> None:
    """Articles of a few hundred tokens. Parts of 100 hold several sentences each."""
    corpus = Corpus.read("sample", [language])
    for name in corpus.ids()[:4]:
        text = corpus.text(name, language)
        spans, parts = cut(text, wordpiece, size, language)
        assert_whole(text, spans)
        lengths = wordpiece.count(parts)
        assert max(lengths) <= size
        fewest = -(-wordpiece.count([text])[0] // size)
        assert fewest <= len(parts) <= max(fewest, 2 * fewest)
        if size == 100:
            assert all(part[-1] in '.!?"。！？”）।' for part in parts)


def sentences(lengths: Sequence[int]) -> str:
    """Sentences of so many words."""
    return " ".join("Word" + " word" * (length - 1) + "." for length in lengths)


@pytest.mark.parametrize(("size", "expected"), [(20, [20]), (8, [4, 8, 8]), (7, [4, 5, 3, 5, 3])])
def test_borders_are_at_the_nearest_ends_of_sentences(size: int, expected: list[int]) -> None:
    """By hand: 20 words, and sentences that begin at words 4, 9, 12 and 17.

    At most 8: three parts begin at 6 and 13, near 4 and 12. At most 7: four would begin at 5, 10
    and 15, near 4, 9 and 17, and the third would have 8; five begin at 4, 8, 12 and 16.
    """
    _, parts = cut(sentences((4, 5, 3, 5, 3)), Words(), size)
    assert [len(part.split()) for part in parts] == expected


@given(
    st.integers(3, 40),
    st.lists(st.integers(1, 60), min_size=1, max_size=8),
    st.sampled_from([-1, 0, 1]),
)
@example(10, [5, 5, 5, 5], 1)  # two parts of two sentences would have a token too many
def test_sentences_of_any_length(size: int, sizes: list[int], joint: int) -> None:
    """Also if sentences have more or fewer tokens together than alone."""
    text = sentences(sizes)
    counter = Words(joint=joint)
    spans, parts = cut(text, counter, size)
    assert_whole(text, spans)
    assert " ".join(parts) == text
    assert max(counter.count_whole(parts)) <= size + 2


def test_a_text_without_sentences_has_equal_parts() -> None:
    (spans,) = cut_texts([words(100)], Words(), lambda length: Count(7, 7))
    lengths = [len(words(100)[slice(*span)].split()) for span in spans]
    assert sum(lengths) == 100
    assert max(lengths) - min(lengths) <= 1


def test_a_character_of_many_tokens_stays_whole() -> None:
    """Three bytes each: no part of two bytes can hold one, and none is lost."""
    _, parts = cut("你好，世界", by_bytes(), 2, "zh")
    assert parts == list("你好，世界")
    _, parts = cut("你好，世界", by_bytes(), 6, "zh")
    assert parts == ["你", "好，", "世界"]


def test_chunks_that_the_model_cannot_read(make_tiny: Make) -> None:
    """A window of 20 less <s>, </s> and a prompt of three: chunks of 15 and no more."""
    model = copy_sharing_weights(make_tiny())
    model.max_seq_length = 20
    counter = ModelTokens(model, "w1 w2 w3 ")
    _, parts = cut(words(40, 1), counter, chunk_tokens("window", counter))
    assert [len(part.split()) for part in parts] == [13, 13, 14]
    with pytest.raises(DesignError, match="chunks for this model have 1 to 15 tokens, got 16"):
        chunk_tokens(16, counter)
    with pytest.raises(DesignError, match="this model have 1 or more characters, got window"):
        chunk_tokens("window", Characters())


def test_texts_without_words() -> None:
    texts = ["", "   ", " a "]
    spans = cut_texts(texts, Characters(), lambda length: fewest_parts(length, 4))
    assert [text[slice(*span)] for text, (span,) in zip(texts, spans, strict=True)] == [
        "",
        "   ",
        "a",
    ]
