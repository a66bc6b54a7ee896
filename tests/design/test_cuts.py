"""Texts of known length, against a search of all sentence borders and each text tokenised anew."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.segment import Segment
from fairspan.corpus.sentences import sentences
from fairspan.design.cuts import Cuts, cut_documents, natural_lengths
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.tokens import ModelTokens
from fairspan.errors import CorpusError
from tests.builders.saying import said_by
from tests.design.test_design import Words

WORDS = Words()


def document(lengths: Sequence[int], name: str = "a") -> str:
    """Sentences of so many words, each word naming its document and place."""
    words = iter(range(sum(lengths)))
    texts = [" ".join(f"x{name}{next(words)}" for _ in range(length)) for length in lengths]
    return " ".join(f"X{text[1:]}." for text in texts)


def corpus_of(*documents: Sequence[int]) -> Corpus:
    names = [f"d{number:02}" for number in range(len(documents))]
    return Corpus.from_segments(
        "made",
        [Segment(name, "en", document(d, name)) for name, d in zip(names, documents, strict=True)],
    )


def cut_english(
    corpus: Corpus, lengths: Sequence[int], counter: TokenCounter = WORDS, **options: Any
) -> Cuts:
    return cut_documents(corpus, "en", lengths, counter, **options)


def ends(cuts: Cuts, name: str = "d00") -> list[int]:
    return [text.tokens for text in cuts.texts if text.document == name]


# --- cut


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=25),
    st.lists(st.integers(1, 150), min_size=1, max_size=4),
    st.sampled_from([0.0, 0.1, 0.3]),
    st.sampled_from([None, 90, 150]),
    st.integers(0, 5),
)
@settings(max_examples=80, deadline=None)
def test_by_trying_every_border(
    lengths: list[int],
    wanted: list[int],
    tolerance: float,
    window: int | None,
    seed: int,
) -> None:
    """Every start and every end, in plain loops."""
    wanted = sorted({length for length in wanted if window is None or length <= window - 2}) or [10]

    def from_sentence(first: int) -> list[int] | None:
        borders = [
            int(border)
            for border in np.cumsum(lengths[first:])
            if window is None or border <= window - 2
        ]
        found = [
            min(borders, key=lambda border: (abs(border - length), border), default=0)
            for length in wanted
        ]
        near = all(abs(a - b) <= tolerance * b + 1e-9 for a, b in zip(found, wanted, strict=True))
        return found if near and len(set(found)) == len(found) else None

    starts = range(len(lengths))
    possible = [(sum(lengths[:first]), from_sentence(first)) for first in starts]
    possible = [(before, found) for before, found in possible if found]
    corpus = corpus_of(lengths)

    def cut() -> Cuts:
        return cut_english(corpus, wanted, Words(window), seed=seed, tolerance=tolerance)

    if not possible:
        assert "none of 1 documents" in said_by(cut)
        return
    cuts = cut()
    begins = {int(text.text.split()[0].rstrip(".")[4:]) for text in cuts.texts}
    assert len(begins) == 1, "all texts of a document start at one place"
    assert (begins.pop(), ends(cuts)) in possible
    whole = document(lengths, "d00")
    assert all(text.text in whole and len(text.text.split()) == text.tokens for text in cuts.texts)


def test_every_start_that_reaches_is_drawn() -> None:
    """Twelve sentences of ten words; 40 is reached from the first nine."""
    corpus = corpus_of([10] * 12)
    drawn = [cut_english(corpus, [20, 40], seed=seed) for seed in range(150)]
    begins = {cuts.texts[0].text.split()[0] for cuts in drawn}
    assert begins == {f"Xd00{10 * place}" for place in range(9)}


def test_every_length_has_the_same_documents() -> None:
    """The third is too short, and the fourth has no border near 10."""
    corpus = corpus_of([10, 10, 20], [11, 9, 19, 5], [10, 10], [20, 20, 20])
    cuts = cut_english(corpus, [10, 20, 40])
    assert cuts.paired
    for length in (10, 20, 40):
        assert [text.document for text in cuts.at(length)] == ["d00", "d01"]
    assert cuts.notes == (
        "2 of 4 documents have no sentence border within 10% of every length and were not used",
    )
    assert {(text.language, text.length) for text in cuts.texts} == {
        ("en", length) for length in (10, 20, 40)
    }


def test_a_draw_of_documents() -> None:
    corpus = corpus_of(*[[10, 10]] * 200)

    def drawn(seed: int, documents: int = 7) -> list[str]:
        counted: list[str] = []

        class Noting(Words):
            def count(self, texts: Sequence[str]) -> list[int]:
                counted.extend(texts)
                return super().count(texts)

        cuts = cut_english(corpus, [10, 20], Noting(), documents=documents, seed=seed)
        assert cuts.paired
        if documents == 7:
            assert len({text.split()[0] for text in counted}) <= 2 * 64, (
                "no more are read than are needed"
            )
        return [text.document for text in cuts.at(10)]

    assert len(drawn(0)) == 7
    assert drawn(0) == drawn(0) == sorted(drawn(0))
    assert drawn(0) != drawn(1)
    assert set(drawn(0)) <= set(drawn(0, 150))


def test_never_beyond_the_window() -> None:
    """30 words of text in a window of 35, after a prompt of three and two special tokens: the
    border at 31, though nearer to 30, is not taken."""
    counter = Words(window=35, prompt=3)
    corpus = corpus_of([10, 18, 3, 9])
    assert ends(cut_english(corpus, [10, 30])) == [10, 31]
    assert ends(cut_english(corpus, [10, 30], counter)) == [10, 28]
    said = said_by(cut_english, corpus, [10, 30, 31, 60], counter)
    assert said.startswith(
        "texts of 31, 60 tokens do not fit: the model reads 35, of which 30 are text. "
        "Use lengths up"
    )


def test_a_text_that_grows_when_cut_out_is_counted_again() -> None:
    """A tokenizer may split a text differently inside a longer one; what counts is the text alone,
    and the window.
    """

    class Grows(Words):
        """Texts of several sentences have five more tokens than their sentences together."""

        def count(self, texts: Sequence[str]) -> list[int]:
            return [len(text.split()) + 5 * (text.count(".") > 1) for text in texts]

        def count_whole(self, texts: Sequence[str]) -> list[int]:
            return [count + 2 for count in self.count(texts)]

    corpus = corpus_of([10, 90], [10, 88])
    cuts = cut_english(corpus, [10, 100], Grows())
    assert [text.tokens for text in cuts.at(100)] == [105, 103]
    cuts = cut_english(corpus, [10, 100], Grows(window=105))
    assert [text.document for text in cuts.at(100)] == ["d01"]
    cuts = cut_english(corpus, [10, 100], Grows(), tolerance=0.04)
    assert [text.document for text in cuts.at(100)] == ["d01"]
    assert cuts.notes[0].startswith("1 of 2 documents")


def test_texts_without_sentence_ends_and_with_long_sentences() -> None:
    texts = {"a": "no end " * 50, "b": document([70, 5]), "c": "word"}
    segments = [Segment(name, "en", text) for name, text in texts.items()]
    corpus = Corpus.from_segments("made", segments)
    none = "none of 3 documents in 'en' has a sentence border within 10% of every length"
    said = said_by(cut_english, corpus, [20, 75])
    assert said.startswith(none)
    assert "20: 0, 75: 1)" in said
    assert ends(cut_english(corpus, [100]), "a") == [100], "a text of one sentence has its end"


def test_values_that_cannot_be() -> None:
    corpus = corpus_of([10])
    assert "got none" in said_by(cut_english, corpus, [])
    assert "got 0, 10" in said_by(cut_english, corpus, [10, 0])
    assert "got 1.0" in said_by(cut_english, corpus, [10], tolerance=1.0)
    assert "'xx'" in said_by(cut_documents, corpus, "xx", [10], WORDS, kind=CorpusError)


# --- whole documents


def test_whole_documents_in_bins() -> None:
    """[0, 100), [100, 200), …; 299 words are one too many for a window of 300 with two special
    tokens.
    """
    corpus = corpus_of([99], [100], [50, 49], [199], [298], [299], [500])
    cuts = natural_lengths(corpus, "en", Words(window=300))
    assert [text.document for text in cuts.texts] == ["d00", "d02", "d01", "d03", "d04"]
    assert [text.length for text in cuts.texts] == [0, 0, 100, 100, 200]
    assert [text.tokens for text in cuts.texts] == [99, 99, 100, 199, 298]
    assert all(text.text == corpus.text(text.document, "en") for text in cuts.texts)
    assert cuts.notes == (
        "2 of 7 documents are longer than the model's 300 tokens and were not used",
    )
    assert not cuts.paired


def test_no_document_that_fits() -> None:
    said = said_by(natural_lengths, corpus_of([50], [40]), "en", Words(window=30))
    assert "none of 2 documents in 'en' fits into the model's 30 tokens: the shortest has" in said


def unigram(corpus: Corpus) -> Tokenizer:
    """Tokens of a text without spaces are the best split of all of it, and a part may be split
    otherwise."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=1500, show_progress=False, unk_token="<unk>", special_tokens=["<unk>"]
    )
    tokenizer.train_from_iterator([segment.text for segment in corpus.segments], trainer)
    return tokenizer


@pytest.mark.parametrize("case", ["hi", "zh unigram"])
def test_real_tokenizers(bag_of_words: SentenceTransformer, case: str) -> None:
    """The sample corpus, by a tokenizer that takes such text nearly character by character, and by
    one that knows no borders of words."""
    language = case[:2]
    corpus = Corpus.read("sample", [language])
    tokenizer = unigram(corpus) if "unigram" in case else bag_of_words.tokenizer
    model: Any = SimpleNamespace(tokenizer=tokenizer, max_seq_length=512)
    counter = ModelTokens(model, "passage: ")
    cuts = cut_documents(corpus, language, [30, 60, 120], counter, tolerance=0.3)
    assert cuts.paired
    for text in cuts.texts:
        whole = corpus.text(text.document, language)
        at = whole.index(text.text)
        borders = sentences(whole, language)
        assert at in {begin for begin, _ in borders}
        assert at + len(text.text) in {end for _, end in borders}
        assert abs(text.tokens - text.length) <= 0.3 * text.length + 1e-9
    texts = [text.text for text in cuts.texts]
    assert counter.count(texts) == [text.tokens for text in cuts.texts]
    assert max(counter.count_whole(texts)) <= 512
    whole_texts = natural_lengths(corpus, language, counter).texts
    assert all(text.tokens // 100 * 100 == text.length for text in whole_texts)
