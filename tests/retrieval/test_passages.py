"""Passages as queries: every document put together again by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.segment import UNKNOWN, Segment
from fairspan.encoding.tokens import Characters
from fairspan.errors import CorpusError
from fairspan.retrieval import passages
from fairspan.retrieval.measured import measure_task
from fairspan.retrieval.passages import LONG, MOST_WORDS, PassageDraw
from fairspan.retrieval.task import RetrievalTask
from fairspan.retrieval.words import count_words
from tests.builders.saying import said_by
from tests.design.test_design import Words


def sentence(document: int, number: int) -> str:
    """9 to 12 words that stand nowhere else."""
    words = [f"d{document}s{number}w{place}" for place in range(9 + (document + 2 * number) % 4)]
    return f"{' '.join(words).capitalize()}."


def article(number: int, count: int, language: str = "en") -> Segment:
    text = " ".join(sentence(number, place) for place in range(count))
    return Segment(f"a{number:02}", language, text)


LONG_ONES, SHORT_ONES, TINY = range(8), range(8, 14), range(14, 17)
SENTENCES = [90 + 7 * number for number in LONG_ONES] + [12 + number for number in SHORT_ONES]
ARTICLES = [article(*numbered) for numbered in enumerate([*SENTENCES, 1, 2, 2])]


def corpus_of(segments: Sequence[Segment] = ARTICLES) -> Corpus:
    return Corpus.from_segments("made", segments)


def draw(
    segments: Sequence[Segment] = ARTICLES,
    query_words: int = 30,
    documents: int | None = None,
    seed: int = 0,
) -> RetrievalTask:
    return PassageDraw(query_words, documents, seed).task(corpus_of(segments))


def asked(task: RetrievalTask) -> dict[str, str]:
    return {query.id: query.text for query in task.queries}


@pytest.fixture(scope="module")
def task() -> RetrievalTask:
    return draw(query_words=MOST_WORDS)


def test_nothing_of_a_passage_is_in_the_index_and_nothing_else_is_missing(
    task: RetrievalTask,
) -> None:
    """All words are different, so that they tell where they are from. Of one or two sentences
    nothing can be cut out."""
    shown = {word for document in task.documents for word in document.text.split()}
    cut = {word for query in task.queries for word in query.text.split()}
    assert len(task.queries) > 40
    assert shown.isdisjoint(cut)
    for document, segment in zip(task.documents, ARTICLES, strict=True):
        words = segment.text.split()
        assert document.id == f"{segment.id}/en"
        assert document.text.split() == [word for word in words if word not in cut]
        assert set(words) <= shown | cut
    for query in task.queries:
        assert query.text.endswith("."), "whole sentences"
        assert 6 <= len(query.text.split()) < 30 + 12, "of up to 12 words, until there are 30"
    assert task.notes == (
        "3 of 17 documents are only in the index: too short, or without sentences to cut out",
    )
    unnamed = draw([replace(one, language=UNKNOWN) for one in ARTICLES[8:]])
    assert {query.language for query in unnamed.queries} == {""}
    assert unnamed.documents[0].id == "a08"


def test_a_long_document_has_a_passage_in_every_fifth_and_a_short_one_has_one(
    task: RetrievalTask,
) -> None:
    assert all((count_words(ARTICLES[number].text) >= LONG) for number in LONG_ONES), "the premise"
    counts = Counter(query.cluster for query in task.queries)
    expected = {ARTICLES[number].id: 5 for number in LONG_ONES}
    expected |= {ARTICLES[number].id: 1 for number in SHORT_ONES}
    assert counts == expected
    # Whatever the lengths of passages before it, and in words as in characters.
    for counter in (Words(), Characters("")):
        measured = measure_task(task, counter, counter)
        fifths = [
            measured.positions[query.id].fifth
            for query in task.queries
            if counts[query.cluster] > 1
        ]
        assert fifths == [1, 2, 3, 4, 5] * len(LONG_ONES)
    by_id = {segment.id: segment.text.split() for segment in ARTICLES}
    for query in task.queries:
        words = by_id[query.cluster]
        start = words.index(query.text.split()[0])
        fifth = task.evidence[query.id].fifth
        assert fifth in (None, 5 * start // len(words))


def test_evidence_is_what_is_left_around_the_gap(task: RetrievalTask) -> None:
    """The sentence before a passage and, where there is one, that after it."""
    texts = {document.id: document.text for document in task.documents}
    ends = 0
    for query in task.queries:
        where = task.evidence[query.id]
        assert task.relevant[query.id] == {where.document: 1.0}
        around = texts[where.document][where.start : where.end]
        first, dot, rest = around.partition(". ")
        whole = f"{first}{dot}{query.text} {rest}" if dot else f"{around} {query.text}"
        assert whole in next(one.text for one in ARTICLES if one.id == query.cluster)
        ends += not dot
    assert ends < len(task.queries) / 5


def test_query_words_change_queries_and_nothing_else(task: RetrievalTask) -> None:
    short = draw(query_words=6)
    assert short.documents == task.documents
    assert short.evidence == task.evidence
    assert {id: text.split()[:6] for id, text in asked(task).items()} == {
        id: text.rstrip(".").split() for id, text in asked(short).items()
    }


def test_a_draw_depends_on_its_document_and_the_seed_alone(task: RetrievalTask) -> None:
    """Not on the order of files, nor on what else is in the corpus; a sentence that stands in two
    documents is asked for in neither."""
    assert draw(ARTICLES[::-1], MOST_WORDS).fingerprint == task.fingerprint
    assert draw(query_words=MOST_WORDS, seed=1).fingerprint != task.fingerprint
    fewer = draw([*ARTICLES[:2], *ARTICLES[9:11]], MOST_WORDS)
    assert asked(fewer).items() <= asked(task).items()
    (query, *_) = fewer.queries
    repeated = query.text.partition(". ")[0] + "."
    copying = Segment("z", "en", f"{sentence(50, 0)}  {repeated} {article(51, 20).text}")
    changed = draw([*ARTICLES, copying], MOST_WORDS)
    assert repeated not in " ".join(asked(changed).values())
    others = {id: text for id, text in asked(task).items() if not id.startswith("a00")}
    assert others.items() <= asked(changed).items()


def test_translations_and_copies_of_a_document_do_not_count() -> None:
    """The others in its ranking are those of its id, and those of its text in other white space."""
    german = [article(20 + number, 14, "de") for number in range(3)]
    translated = [replace(one, id=ARTICLES[8 + number].id) for number, one in enumerate(german)]
    copy = Segment("copy", "en", ARTICLES[9].text.replace(" ", "\n", 3))
    task = draw([*ARTICLES[8:12], *translated, copy])
    left_out = {
        query.cluster + query.language: task.left_out.get(query.id) for query in task.queries
    }
    assert left_out["a08en"] == {"a08/de"}
    assert left_out["a08de"] == {"a08/en"}
    assert left_out["a09de"] == {"a09/en"}
    assert left_out["a11en"] is None
    # What stands in both texts is no passage of either.
    assert "a09en" not in left_out
    assert "copyen" not in left_out
    unique = {query.language for query in task.queries}
    assert unique == {"en", "de"}


def test_as_many_ids_as_asked_for_with_all_their_languages() -> None:
    german = [replace(article(40 + number, 14, "de"), id=f"a{number:02}") for number in range(14)]
    both = [*ARTICLES[:14], *german]
    task = draw(both, documents=4)
    names = {document.id.partition("/")[0] for document in task.documents}
    assert len(names) == 4
    assert {document.id for document in task.documents} == {
        f"{name}/{language}" for name in names for language in ("de", "en")
    }
    assert (task.drawn, task.drawn_from) == (4, 14), "translations are counted once"
    assert draw(both, documents=14).drawn_from is draw(both, documents=99).drawn_from is None
    # More are drawn in the same order.
    assert names < {one.id.partition("/")[0] for one in draw(both, documents=6).documents}


def test_as_many_as_have_so_many_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the seed; not below the least number, nor above the most."""
    order = np.random.default_rng(0).permutation(len(ARTICLES))
    words = np.cumsum([count_words(ARTICLES[number].text) for number in order])
    for most_words, least, most, expected in (
        (words[-1], 1, 99, 17),
        (words[5], 1, 99, 6),
        (words[5] - 1, 1, 99, 5),
        (words[5], 9, 99, 9),
        (words[-1], 1, 7, 7),
    ):
        monkeypatch.setattr(passages, "MOST_DRAWN", int(most_words))
        monkeypatch.setattr(passages, "LEAST_DOCUMENTS", least)
        monkeypatch.setattr(passages, "MOST_DOCUMENTS", most)
        drawn = {document.id for document in draw().documents}
        assert drawn == {f"{ARTICLES[number].id}/en" for number in order[:expected]}


def test_the_greatest_break_stays() -> None:
    """Sentences joined by a space, paragraphs of three by an empty line: of a gap, what is greater
    is left, and no other white space."""
    made = []
    for number in range(6):
        parts = [sentence(number, place) for place in range(24)]
        text = "\n\n".join(" ".join(parts[start : start + 3]) for start in range(0, 24, 3))
        made.append(Segment(str(number), "en", text))
    for document in draw(made).documents:
        every = [sentence(int(document.id[0]), place) for place in range(24)]
        kept = [number for number, one in enumerate(every) if one in document.text]
        assert len(kept) < 22
        expected = every[kept[0]]
        for last, number in pairwise(kept):
            expected += ("\n\n" if last // 3 < number // 3 else " ") + every[number]
        assert document.text == expected


CHINESE = [f"第{n}个城市在河的{'东西南北'[n % 4]}边，有{n * 7}万人住在那里。" for n in range(400)]
HINDI = [f"शहर{n} नदी के किनारे है और वहाँ {n * 7} लाख लोग {n} साल से रहते हैं।" for n in range(200)]


@pytest.mark.parametrize(
    ("sentences", "language", "joint"), [(CHINESE, "zh", ""), (HINDI, "hi", " ")], ids=["zh", "hi"]
)
def test_other_scripts(sentences: list[str], language: str, joint: str) -> None:
    """Chinese without spaces, whose characters are words; Hindi, whose sentences end in a danda."""
    cut = [range(80), range(80, 100), range(100, 120)]
    texts = [joint.join(sentences[number] for number in numbers) for numbers in cut]
    task = draw([Segment(str(n), language, text) for n, text in enumerate(texts)], MOST_WORDS)
    assert count_words(texts[0]) > LONG > count_words(texts[1])
    assert Counter(query.cluster for query in task.queries) == {"0": 5, "1": 1, "2": 1}
    for query in task.queries:
        assert 30 <= count_words(query.text) <= MOST_WORDS
        parts = [one for one in sentences if one in query.text]
        assert joint.join(parts) == query.text
        assert not any(one in document.text for document in task.documents for one in parts)


def test_at_least_two_documents_have_passages() -> None:
    said = said_by(draw, [ARTICLES[8], *ARTICLES[14:]], kind=CorpusError)
    assert said.startswith(
        "passages can be cut out of 1 of 4 documents of made, and a search needs"
    )
