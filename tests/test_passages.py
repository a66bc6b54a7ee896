"""Passages as queries: every document put together again by hand."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.segment import Segment
from fairspan.encoding.tokens import Characters
from fairspan.errors import CorpusError, FairspanError
from fairspan.retrieval.measured import measure_task
from fairspan.retrieval.passages import PassageDraw
from fairspan.retrieval.task import RetrievalTask
from tests.saying import said_by
from tests.test_design import Words


def sentence(document: int, number: int) -> str:
    """9 to 12 words that stand nowhere else."""
    words = [f"d{document}s{number}w{place}" for place in range(9 + (document + 2 * number) % 4)]
    return f"{' '.join(words).capitalize()}."


def article(document: int, count: int) -> Segment:
    text = " ".join(sentence(document, number) for number in range(count))
    return Segment(f"a{document:02}", "en", text)


def make_corpus(*counts: int) -> Corpus:
    """Documents of so many sentences each; without numbers, 23 of 20 to 35."""
    made = counts or tuple(20 + number % 16 for number in range(23))
    return Corpus.from_segments("made", [article(*numbered) for numbered in enumerate(made)])


def passages(
    corpus: Corpus | None = None, window: int | None = None, **options: Any
) -> RetrievalTask:
    draw = PassageDraw(Words(window), **{"tokens": 30, "per_document": 1, **options})
    (task,) = draw.tasks(corpus or make_corpus(), ["en"])
    return task


def fifths(task: RetrievalTask, window: int | None = None, too_long: str = "shorten") -> list[int]:
    """How many queries each fifth has, as an evaluation numbers them."""
    places = measure_task(task, Words(window), Words(window), too_long=too_long).positions
    counts = Counter(place.group for place in places.values())
    return [counts[fifth] for fifth in range(1, 6)]


@pytest.mark.parametrize("per_document", [1, 3])
def test_a_query_is_whole_sentences_and_in_no_document(per_document: int) -> None:
    task = passages(per_document=per_document)
    assert len(task.documents) == 23
    assert len(task.queries) == 23 * per_document
    shown = {word for document in task.documents for word in document.text.split()}
    for query in task.queries:
        words = query.text.split()
        assert 8 <= len(words) <= 30
        assert shown.isdisjoint(words)
        assert query.text.endswith(".")
        assert words[0].startswith("D")


@pytest.mark.parametrize("options", [{"per_document": 1}, {"per_document": 3}, {"tokens_each": 60}])
def test_with_its_passages_a_document_is_what_it_was(options: dict[str, int]) -> None:
    """Between the two sentences of its evidence; at an end of the document there is one."""
    corpus = make_corpus()
    task = passages(corpus, **options)
    texts = {document.id: document.text for document in task.documents}
    whole = dict(texts)
    for query in reversed(task.queries):
        found = task.evidence[query.id]
        assert task.relevant[query.id] == {found.document: 1.0}
        assert query.cluster == found.document.removesuffix("/en")
        around = texts[found.document][found.start : found.end]
        before, dot, after = around.partition(". ")
        own = corpus.text(query.cluster, "en")
        possible = {f"{around} {query.text}", f"{query.text} {around}"}
        possible.add(f"{before}{dot}{query.text} {after}")
        (there,) = [one for one in possible if one in own]
        if not after:
            assert own.startswith(query.text) or own.endswith(query.text)
        whole[found.document] = whole[found.document].replace(around, there)
    assert whole == {f"{segment.id}/en": segment.text for segment in corpus.segments}


@pytest.mark.parametrize("per_document", [1, 3, 5])
def test_every_fifth_has_equally_many_queries(per_document: int) -> None:
    """With five of each, a document may have too few places for all of them."""
    task = passages(per_document=per_document)
    counts = fifths(task)
    assert sum(counts) == len(task.queries) >= 20 * per_document
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("window", [None, 400])
def test_long_documents_have_more_passages(window: int | None) -> None:
    """One for every 100 tokens that the model reads, at least three and at most ten."""
    corpus = make_corpus(*[25] * 10, *[70] * 6, *[150] * 4)
    task = passages(corpus, window, per_document=3, tokens_each=100)
    assert len(task.documents) == 20
    asked = Counter(query.cluster for query in task.queries)
    read = {one.id: min(len(one.text.split()), (window or 10_000) - 2) for one in corpus.segments}
    assert asked == {id: max(3, min(10, tokens // 100)) for id, tokens in read.items()}
    assert {*asked.values()} == ({3, 7, 10} if window is None else {3})
    counts = fifths(task, window)
    assert sum(counts) == len(task.queries)
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ({}, 23),
        ({"most_tokens": 2000}, None),
        ({"most_tokens": 2000, "documents": 4}, 4),
        ({"most_tokens": 2000, "least": 15}, 15),
        ({"most_tokens": 2000, "least": 15, "documents": 12}, 12),
        ({"most_tokens": 10, "least": 2}, 2),
        ({"most_tokens": 100_000, "least": 15}, 23),
    ],
)
def test_how_many_are_drawn(
    limits: dict[str, int], wanted: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the seed: as many as have 2,000 tokens together, if nothing else is said."""
    corpus = make_corpus()
    texts = [one.text for one in sorted(corpus.segments, key=lambda one: one.id)]
    order = np.random.default_rng(0).permutation(len(texts))
    tokens = np.cumsum([len(texts[number].split()) for number in order])
    fitting = int((tokens <= 2000).sum())
    assert 4 < fitting < 12, "the premise"
    sampled = passages(corpus, **limits)
    monkeypatch.setattr("fairspan.retrieval.passages._SURPLUS", 1000)
    task = passages(corpus, **limits)
    assert (sampled.drawn_from, len(sampled.notes)) == (task.drawn_from, len(task.notes))
    assert task.drawn_from == (None if len(task.documents) == 23 else 23)
    assert len(task.documents) == (fitting if wanted is None else wanted)
    drawn = {f"a{number:02}/en" for number in order[: len(task.documents)]}
    assert {one.id for one in task.documents} == drawn
    said = [f"{len(drawn)} of 23 documents in en were drawn"] if len(drawn) < 23 else []
    assert [note for note in task.notes if note.endswith("were drawn")] == said


def test_a_language_that_nobody_named_is_not_named() -> None:
    every = (*make_corpus().segments, article(40, 4), article(41, 5))
    made = [replace(one, language="und") for one in every]
    same = replace(made[0], id="z")
    draw = PassageDraw(Words(270), tokens=30, per_document=2, most_tokens=3000)
    (task,) = draw.tasks(Corpus.from_segments("made", [*made, same]), ["und"])
    notes = " ".join(task.notes)
    for said in ("same text as", "fewer than 5", "a fifth of the", "were drawn", "too long"):
        assert said in notes
    assert " in und" not in notes
    with pytest.raises(CorpusError, match=r"made has 1; 1 left out .fewer") as caught:
        draw.tasks(Corpus.from_segments("made", [made[0], made[-2]]), ["und"])
    assert "und" not in str(caught.value).split()


def test_documents_that_fail_are_replaced() -> None:
    """Five passages fit into 35 sentences and not into 8."""
    corpus = make_corpus(*[8] * 20, *[35] * 20)
    task = passages(corpus, per_document=5, documents=15)
    assert len(task.documents) == 15
    assert {int(document.id[1:3]) >= 20 for document in task.documents} == {True}
    assert fifths(task) == [15] * 5
    assert not any("in place of" in note for note in task.notes)
    few = passages(make_corpus(*[8] * 20, *[35] * 4), per_document=5, documents=15)
    assert len(few.documents) == 4


@pytest.mark.parametrize("per_document", [1, 2])
def test_documents_that_are_too_long(per_document: int) -> None:
    """Balanced over what is read of all of them, and over those that are read whole."""
    task = passages(window=270, per_document=per_document)
    long = sum(len(document.text.split()) + 2 > 270 for document in task.documents)
    assert 5 < long < 18, "the premise"
    count = len(task.documents)
    said = f"{long} of {count} documents in en are too long"
    assert any(note.startswith(said) for note in task.notes)
    for too_long, documents in (("shorten", count), ("leave-out", count - long)):
        counts = fifths(task, 270, too_long)
        assert sum(counts) == documents * per_document
        assert max(counts) - min(counts) <= 1


def test_seeds() -> None:
    fingerprints = [passages(seed=seed).fingerprint for seed in (3, 3, 4)]
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]
    turned = Corpus.from_segments("made", reversed(make_corpus().segments))
    assert passages(turned, seed=3).fingerprint == fingerprints[0]


def test_the_greatest_break_stays() -> None:
    """Sentences joined by a space, paragraphs of three by an empty line: no other white space is
    left."""
    made = []
    for number in range(6):
        parts = [sentence(number, place) for place in range(24)]
        text = "\n\n".join(" ".join(parts[start : start + 3]) for start in range(0, 24, 3))
        made.append(Segment(str(number), "en", text))
    task = passages(Corpus.from_segments("made", made), per_document=3)
    for document in task.documents:
        own = [sentence(int(document.id.split("/")[0]), place) for place in range(24)]
        kept = [number for number, one in enumerate(own) if one in document.text]
        assert len(kept) < 22
        expected = own[kept[0]]
        for last, number in pairwise(kept):
            expected += ("\n\n" if last // 3 < number // 3 else " ") + own[number]
        assert document.text == expected


def test_what_is_repeated_is_not_asked() -> None:
    footer = "This text may be used by anybody under the licence named below."
    twice = "Whoever reads this line reads it twice in this very text, I fear."
    spaced = twice.replace(" ", "  ")
    made = [
        replace(one, text=f"{one.text} {twice} {sentence(90 + n, 0)} {spaced} {footer}")
        for n, one in enumerate(make_corpus(*[40] * 7).segments)
    ]
    for seed in range(10):
        task = passages(Corpus.from_segments("made", made), seed=seed, tokens=15)
        assert len(task.documents) == 7
        assert not any("licence" in query.text or "twice" in query.text for query in task.queries)


def test_a_passage_inside_another_documents_sentence() -> None:
    hidden = sentence(0, 9)
    inside = f"Heading: {hidden[:-1]}, {sentence(51, 0)}"
    other = Segment("b", "en", f"{article(50, 10).text} {inside} {article(52, 9).text}")
    corpus = Corpus.from_segments("made", [*make_corpus(20, 20).segments, other])
    drawn = [passages(corpus, seed=seed, tokens=12) for seed in range(30)]
    asked = {query.text for task in drawn for query in task.queries}
    assert sentence(0, 8) in asked, "the premise: its neighbour is drawn"
    assert not any(hidden[:-1] in text for text in asked)


def test_what_was_left_out_is_noted() -> None:
    same = replace(make_corpus().segments[0], id="z")
    every = [*make_corpus().segments, same, article(40, 4), article(41, 5)]
    corpus = Corpus.from_segments("made", every)
    task = passages(replace(corpus, notes=("2 lines were empty",)))
    assert task.notes == (
        "2 lines were empty",
        f"1 in en left out (same text as another document): {task.left_out[0]}",
        f"1 in en left out (fewer than 5 sentences or 40 tokens): {task.left_out[1]}",
        (
            "1 in en left out (a fifth of the document has no sentence of 8 to 30 tokens "
            f"that occurs only there): {task.left_out[2]}"
        ),
    )
    assert task.left_out == ("z", *(segment.id for segment in every[-2:]))


CHINESE = "".join(
    f"第{n}个城市在河的{'东西南北'[n % 4]}边，有{n * 7}万人住在那里。" for n in range(400)
)


def test_text_without_spaces() -> None:
    said = [f"{one}。" for one in CHINESE.split("。")]
    made = [Segment(str(n), "zh", "".join(said[40 * n : 40 * n + 40])) for n in range(8)]
    corpus = Corpus.from_segments("made", made)
    (task,) = PassageDraw(Characters(), per_document=1).tasks(corpus, ["zh"])
    assert len(task.documents) == 8
    for query in task.queries:
        assert query.text.endswith("。")
        assert not any(query.text in document.text for document in task.documents)
    assert not any(" " in document.text for document in task.documents)


def test_a_task_for_each_language() -> None:
    german = [Segment(one.id, "de", one.text.replace("d", "x")) for one in make_corpus().segments]
    corpus = Corpus.from_segments("made", [*make_corpus().segments, *german])
    tasks = PassageDraw(Words(), per_document=1).tasks(corpus, ["de", "en"])
    assert [task.name for task in tasks] == ["passages from made, de", "passages from made, en"]
    made = [replace(one, language="und") for one in make_corpus().segments]
    (unknown,) = PassageDraw(Words(), tokens=30).tasks(Corpus.from_segments("made", made), ["und"])
    assert unknown.name == "passages from made"
    for name in ("documents", "queries"):
        ids = [{one.id for one in getattr(task, name)} for task in tasks]
        assert ids[0].isdisjoint(ids[1])
    clusters = [{query.cluster for query in task.queries} for task in tasks]
    assert clusters[0] == clusters[1]
    assert {query.language for query in tasks[0].queries} == {"de"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"corpus": make_corpus(20)}, "passages need 2 documents .*, and made has 1"),
        ({"corpus": make_corpus(3, 3, 20)}, "2 in en left out .fewer than 5 sentences"),
        ({"tokens": 8}, "a fifth of the document has no sentence of 8 to 8 tokens"),
        ({"window": 22}, "Only 20 tokens of each are read: add a treatment that reads them whole"),
        (
            {"corpus": make_corpus(8, 8, 8), "per_document": 5},
            "can be cut out of 0 of 3 documents in en",
        ),
    ],
)
def test_passages_that_cannot_be(options: dict[str, Any], said: str) -> None:
    assert re.search(said, said_by(passages, **options, kind=CorpusError))


def test_languages_that_cannot_be() -> None:
    for languages, said in (([], "languages is empty"), (["fr"], "made has no language 'fr'")):
        with pytest.raises(FairspanError, match=said):
            PassageDraw(Words()).tasks(make_corpus(), languages)
