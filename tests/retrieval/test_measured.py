"""A task in a model's tokens: lengths, the position of evidence, what is cut."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers

from fairspan.corpus.corpus import Corpus
from fairspan.encoding.tokens import ModelTokens
from fairspan.model.build import copy_sharing_weights
from fairspan.retrieval.measured import measure_task
from fairspan.retrieval.task import Evidence, Passage, Query, RetrievalTask
from tests.builders.tiny import words

Make = Callable[..., SentenceTransformer]

LENGTHS = {"d0": 10, "d1": 23, "d2": 31, "d3": 18}
# For each query: its document, the word where the evidence starts, and how many words it has.
PLACES = {"q0": ("d0", 0, 2), "q1": ("d0", 9, 1), "q2": ("d1", 4, 3), "q3": ("d1", 5, 1)}
PLACES |= {"q4": ("d1", 22, 1), "q5": ("d2", 17, 4), "q6": ("d2", 30, 1), "q7": ("d3", 14, 2)}


def known_evidence(fifth: int | None = None, exact: bool = True) -> RetrievalTask:
    """One token a word."""
    texts = {name: words(count, seed) for seed, (name, count) in enumerate(LENGTHS.items())}
    evidence = {}
    for query, (document, word, count) in PLACES.items():
        before = texts[document].split()[:word]
        start = len(" ".join(before)) + (word > 0)
        end = start + len(" ".join(texts[document].split()[word : word + count]))
        evidence[query] = Evidence(document, start, end, fifth, exact)
    queries = tuple(Query(name, words(3 + n, 50 + n), "en") for n, name in enumerate(PLACES))
    relevant = {query: {document: 1.0} for query, (document, _, _) in PLACES.items()}
    documents = tuple(Passage(name, text, "en") for name, text in texts.items())
    return RetrievalTask("known", queries, documents, relevant, evidence)


@pytest.mark.parametrize("prompt", ["", "w7 w8 w9 "])
def test_tokens_before_the_evidence_and_its_fifth(make_tiny: Make, prompt: str) -> None:
    """The prompt is part of a document's length and of no offset. A fifth that is given is taken,
    and where only that is known there is no depth."""
    task = known_evidence()
    counters = ModelTokens(make_tiny(), prompt), ModelTokens(make_tiny(), "w1 w2 ")
    measured = measure_task(task, *counters)
    assert measured.task == task
    marks = 2 + len(prompt.split())
    assert measured.lengths == {name: marks + length for name, length in LENGTHS.items()}
    assert measured.query_lengths == {name: 7 + number for number, name in enumerate(PLACES)}
    for query, (document, word, _) in PLACES.items():
        position = measured.positions[query]
        assert (position.offset, position.depth) == (word, word)
        assert position.fifth == 1 + 5 * word // LENGTHS[document]
    assert {position.fifth for position in measured.positions.values()} == {1, 2, 3, 4, 5}
    for exact in (True, False):
        given = measure_task(known_evidence(fifth=4, exact=exact), *counters).positions
        assert {position.fifth for position in given.values()} == {5}
        for query, position in given.items():
            assert position.offset == PLACES[query][1]
            assert position.depth == (position.offset if exact else None)


def test_queries_that_are_cut_are_counted(make_tiny: Make) -> None:
    narrow = copy_sharing_weights(make_tiny())
    narrow.max_seq_length = 8
    measured = measure_task(known_evidence(), ModelTokens(make_tiny()), ModelTokens(narrow))
    assert measured.task.notes == ("4 queries are longer than the model reads and were cut",)


def with_joining_spaces() -> ModelTokens:
    """One token a word, which begins with the space before it, as in XLM-R and Qwen."""
    vocabulary = ["<unk>", *(f"▁w{number}" for number in range(90)), "▁."]
    numbers = {word: number for number, word in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    modules = [StaticEmbedding(tokenizer, embedding_dim=4)]
    return ModelTokens(SentenceTransformer(modules=modules, device="cpu"))


def test_a_token_that_begins_with_the_space_goes_with_its_word() -> None:
    counter = with_joining_spaces()
    positions = measure_task(known_evidence(), counter, counter).positions
    assert {query: position.offset for query, position in positions.items()} == {
        query: word for query, (_, word, _) in PLACES.items()
    }


def test_offsets_in_the_tokens_of_a_real_tokenizer(bag_of_words: SentenceTransformer) -> None:
    """As many as the text before it has, for every word of Hindi, Chinese and English texts."""
    counter = ModelTokens(bag_of_words)
    corpus = Corpus.read("sample")
    documents = [
        Passage(f"{name}/{language}", corpus.text(name, language), language)
        for language in ("en", "zh", "hi")
        for name in corpus.ids()[:2]
    ]
    queries, evidence, expected = [], {}, {}
    for document in documents:
        text = document.text
        (total,) = counter.count([text])
        for start in (n for n in range(len(text)) if n == 0 or text[n - 1] in " 。，"):
            query = f"{document.id}/{start}"
            queries.append(Query(query, "x"))
            evidence[query] = Evidence(document.id, start, start + 1)
            (before,) = counter.count([text[:start]])
            expected[query] = (before, 1 + min(4, 5 * before // total))
    relevant = {query: {where.document: 1.0} for query, where in evidence.items()}
    task = RetrievalTask("real", tuple(queries), tuple(documents), relevant, evidence)
    positions = measure_task(task, counter, counter).positions
    assert {name: (one.offset, one.fifth) for name, one in positions.items()} == expected
    assert len(expected) > 200
