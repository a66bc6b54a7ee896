"""Pages made of several articles: every page, query and position counted out by hand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from itertools import combinations, product
from math import factorial
from pathlib import Path
from typing import Any

import pytest

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.segment import Segment
from fairspan.design.design import Design
from fairspan.design.plan import LanguagePlan, language_plans
from fairspan.errors import CorpusError, DesignError
from fairspan.retrieval.pages import PageQueries, build_pages
from fairspan.retrieval.source import PageSource
from fairspan.retrieval.task import Passage, RetrievalTask
from tests.saying import said_by
from tests.test_corpus import write
from tests.test_design import Words

LANGUAGES = ("en", "it")


def sentence(segment: int, language: str, number: int) -> str:
    """Words that stand nowhere else."""
    length = 5 + (segment + 2 * number) % 4
    return " ".join([*(f"{language}{segment:02}s{number}w{place}" for place in range(length)), "."])


def article(segment: int, language: str, sentences: int) -> Segment:
    text = " ".join(sentence(segment, language, number) for number in range(sentences))
    return Segment(f"a/{segment:02}", language, text, f"Title {language} {segment:02}")


def make_corpus(
    count: int = 26, sentences: int = 5, languages: Sequence[str] = LANGUAGES
) -> Corpus:
    made = [
        article(segment, language, sentences) for language in languages for segment in range(count)
    ]
    return Corpus.from_segments("made", made)


EN = language_plans(["en"], ())
ALL = language_plans(LANGUAGES, "all")


def pages(
    corpus: Corpus | None = None,
    plans: Sequence[LanguagePlan] = EN,
    queries: dict[str, Any] | None = None,
    window: int | None = None,
    **design: Any,
) -> tuple[RetrievalTask, ...]:
    drawn = Design(**{"sizes": (3,), "sets": 5, **design})
    asked = {**(queries or {})}
    editions = asked.pop("editions", None)
    made = corpus or make_corpus()
    return build_pages(made, plans, drawn, Words(window), PageQueries(**asked), editions)


def parts_of(page: Passage) -> list[str]:
    return [page.text[start:end] for start, end in page.spans]


def position_of(task: RetrievalTask, query: str) -> int:
    """From 1, by the page's spans."""
    found = task.evidence[query]
    (page,) = [page for page in task.documents if page.id == found.document]
    return 1 + page.spans.index((found.start, found.end))


def on_page(task: RetrievalTask, query: str) -> str:
    """The part of a page that answers a query."""
    found = task.evidence[query]
    (text,) = [page.text for page in task.documents if page.id == found.document]
    return text[found.start : found.end]


def segment_of(text: str) -> tuple[str, str]:
    """Language and number of the article that a text was taken from, by its first word."""
    word = text.split()[0]
    return word[:2], word[2:4]


# Balance.


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("orders", ["latin", "williams", "permutations"])
def test_over_all_editions_every_segment_stands_equally_often_at_every_position(
    n: int, orders: str
) -> None:
    each = {"latin": 1, "williams": 1 + n % 2, "permutations": factorial(n - 1)}[orders]
    tasks = pages(sizes=(n,), design=orders)
    assert len(tasks) == n * each
    assert [task.edition for task in tasks] == list(range(n * each))
    places = Counter(
        (query.id, position_of(task, query.id)) for task in tasks for query in task.queries
    )
    queries = {query.id for query in tasks[0].queries}
    assert len(queries) == 5 * n
    assert places == {(query, position): each for query in queries for position in range(1, n + 1)}


@pytest.mark.parametrize("n", [2, 3])
def test_an_edition_holds_every_set_once_in_one_order(n: int) -> None:
    """Each told in another order every time; no segment is on two pages."""
    tasks = pages(sizes=(n,))
    told = [
        sorted(tuple(segment_of(part)[1] for part in parts_of(page)) for page in t.documents)
        for t in tasks
    ]
    sets = {frozenset(order) for order in told[0]}
    assert len(sets) == 5
    assert all(one.isdisjoint(other) for one, other in combinations(sets, 2))
    for orders in told:
        assert {frozenset(order) for order in orders} == sets
        assert len(orders) == 5
    assert len({order for orders in told for order in orders}) == 5 * n


# What stands on a page.


@pytest.mark.parametrize("plans", [EN, ALL], ids=["one plan", "all plans"])
def test_a_page_is_its_segments_and_each_is_asked_for_once(plans: Sequence[LanguagePlan]) -> None:
    for task in pages(plans=plans):
        plan = LanguagePlan(task.lead, task.later)
        for page in task.documents:
            parts = parts_of(page)
            assert page.text == " ".join(parts)
            assert [segment_of(part)[0] for part in parts] == [task.lead, task.later, task.later]
            assert page.language == str(plan)
        places = sorted((one.document, one.start, one.end) for one in task.evidence.values())
        assert places == sorted((page.id, *span) for page in task.documents for span in page.spans)
        assert set(task.relevant) == set(task.evidence) == {query.id for query in task.queries}
        for query in task.queries:
            assert task.relevant[query.id] == {task.evidence[query.id].document: 1.0}
            language, number = segment_of(on_page(task, query.id))
            assert query.id == f"a/{number}/{language}"
            assert query.language == language


def middle(segment: Segment) -> str:
    """The sentences up to the end that lies nearest the middle; recomputed from the full stops."""
    ends = [place + 1 for place, character in enumerate(segment.text) if character == "."]
    return segment.text[: min(ends[:-1], key=lambda end: abs(end - len(segment.text) / 2))]


@pytest.mark.parametrize("tokens", [8, 11, 60])
def test_a_held_out_query_goes_on_where_the_page_ends(tokens: int) -> None:
    corpus = make_corpus()
    for task in pages(corpus, ALL, {"tokens": tokens}):
        for query in task.queries:
            part = on_page(task, query.id)
            whole = corpus.segment(query.id.rsplit("/", 1)[0], query.language)
            assert part == middle(whole)
            assert whole.text.startswith(f"{part} {query.text}")
            assert query.text.split() == whole.text[len(part) :].split()[:tokens]


def test_openings_are_what_stands_on_the_page() -> None:
    """Articles of 34 to 41 words: the first 13 on the page, the next 9 to ask with."""
    corpus = make_corpus()
    tasks = pages(corpus, queries={"tokens": 9}, opening=13)
    for task in tasks:
        assert "pages hold the first 13 tokens of every segment" in task.notes
        for query in task.queries:
            whole = corpus.text(query.id.rsplit("/", 1)[0], "en").split()
            assert on_page(task, query.id).split() == whole[:13]
            assert query.text.split() == whole[13:22]


def test_too_little_left_to_ask_with() -> None:
    """Eight words are enough and seven are not; whole articles leave none."""
    english = make_corpus(languages=["en"]).segments
    lengths = {segment.id: len(segment.text.split()) for segment in english}
    opening = sorted(lengths.values())[len(lengths) // 2] - 8
    enough = {segment for segment, length in lengths.items() if length - opening >= 8}
    assert 9 < len(enough) < len(lengths), "the premise"
    tasks = pages(opening=opening, sets=50)
    assert {query.id.rsplit("/", 1)[0] for query in tasks[0].queries} <= enough
    assert len(tasks[0].queries) == 3 * (len(enough) // 3)
    gone = len(lengths) - len(enough)
    note = f"{gone} of 26 segments have fewer than 8 tokens left to ask with and were not used"
    assert note in tasks[0].notes
    with pytest.raises(CorpusError) as caught:
        pages(opening=max(lengths.values()))
    assert str(caught.value) == (
        "2 pages of 3 need 6 segments, and queries can be made for 0 of the 26 segments "
        "of made: 26 have fewer than 8 tokens left to ask with. Add texts, put less of each on its "
        "page with opening, or choose another query: held-out, first-sentence, title."
    )


def test_first_sentences() -> None:
    """The whole article is on the page, the query included; one sentence alone would be both."""
    single = [article(segment, "en", 1) for segment in range(30, 33)]
    corpus = Corpus.from_segments("made", [*make_corpus(languages=["en"]).segments, *single])
    for task in pages(corpus, queries={"kind": "first-sentence"}, sets=50):
        assert len(task.queries) == 3 * (26 // 3)
        assert "3 of 29 segments have only one sentence and were not used" in task.notes
        for query in task.queries:
            number = int(query.id.split("/")[1])
            assert on_page(task, query.id) == corpus.text(f"a/{number:02}", "en")
            assert query.text == sentence(number, "en", 0)


def test_titles() -> None:
    """A title that is empty or blank is none."""
    without = [
        Segment(f"a/{30 + n}", "en", article(30 + n, "en", 3).text, [None, "", " \n"][n])
        for n in range(3)
    ]
    corpus = Corpus.from_segments("made", [*make_corpus(languages=["en"]).segments, *without])
    for task in pages(corpus, queries={"kind": "title"}, sets=50):
        assert len(task.queries) == 24
        assert "3 of 29 segments have no title and were not used" in task.notes
        for query in task.queries:
            number = query.id.split("/")[1]
            assert query.text == f"Title en {number}"
            assert on_page(task, query.id) == corpus.text(f"a/{number}", "en")
    bare = [Segment(s.id, s.language, s.text) for s in make_corpus().segments]
    untitled = Corpus.from_segments("bare", bare)
    with pytest.raises(CorpusError, match="for 0 of the 26 segments of bare: 26 have no title"):
        pages(untitled, queries={"kind": "title"})


# Languages.


@pytest.mark.parametrize("kind", ["held-out", "first-sentence", "title"])
def test_queries_in_one_language_whatever_the_pages(kind: str) -> None:
    corpus = make_corpus()
    tasks = pages(corpus, ALL, {"kind": kind, "language": "it"})
    plans = set(product(LANGUAGES, LANGUAGES))
    assert {(task.lead, task.later) for task in tasks} == plans
    for task in tasks:
        for query in task.queries:
            number = query.id.removeprefix("a/").removesuffix("/it")
            assert query.language == "it"
            assert segment_of(on_page(task, query.id))[1] == number
            whole = corpus.segment(f"a/{number}", "it")
            expected = {
                "held-out": whole.text[len(middle(whole)) + 1 :],
                "first-sentence": sentence(int(number), "it", 0),
                "title": f"Title it {number}",
            }[kind]
            assert query.text == expected


# Draws.


def test_the_order_of_the_files_does_not_matter() -> None:
    corpus = make_corpus()
    turned = Corpus.from_segments("made", reversed(corpus.segments))
    prints = [[task.fingerprint for task in pages(own, ALL)] for own in (corpus, turned)]
    assert prints[0] == prints[1]


def test_as_many_pages_as_the_corpus_yields() -> None:
    """26 segments make eight pages of three; each of them is asked for once in an edition."""
    for task in pages(sets=100):
        assert len(task.documents) == 8
        assert "the corpus yields 8 pages of 3 different segments each" in task.notes
    assert not any("yields" in note for note in pages(sets=8)[0].notes)


def test_pages_that_do_not_fit_are_not_made() -> None:
    """Halves of 20 to 25 words, three of them and two marks in 70: none comes twice or is cut."""
    corpus = make_corpus()
    tasks = pages(corpus, sets=100, window=70)
    assert 2 <= len(tasks[0].documents) < 8
    for task in tasks:
        assert all(2 + len(page.text.split()) <= 70 for page in task.documents)
        used = [segment_of(part)[1] for page in task.documents for part in parts_of(page)]
        assert len(used) == len(set(used))
        count = len(task.documents)
        assert f"the corpus yields {count} pages of 3 different segments each" in task.notes
    places = Counter(
        (query.id, position_of(task, query.id)) for task in tasks for query in task.queries
    )
    assert set(places.values()) == {1}
    assert len(places) == 9 * len(tasks[0].documents)
    with pytest.raises(
        DesignError, match="the 3 shortest segments have 60 tokens, and the model reads 20"
    ):
        pages(corpus, window=20)


# Refusals.


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"query": "middle"}, "query must be one of held-out, first-sentence, title, got 'middle'"),
        ({"query_tokens": 7}, "query_tokens must be a whole number of at least 8, got 7"),
        ({"query_tokens": 8.5}, "query_tokens must be"),
        ({"query_tokens": True}, "query_tokens must be"),
        ({"editions": 0}, "editions must be a whole number of at least 1, got 0"),
    ],
)
def test_queries_that_cannot_be(values: dict[str, Any], said: str) -> None:
    with pytest.raises(CorpusError, match=said):
        PageSource(**values)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"queries": {"editions": 4}}, "4 editions were asked for, and sets of 3 .* have 3 latin"),
        ({"corpus": make_corpus(5)}, "only one page of 3 can be made without repeating a segment"),
        ({"queries": {"language": "de"}}, "'de'"),
    ],
    ids=["editions", "five", "language"],
)
def test_pages_that_cannot_be(options: dict[str, Any], said: str) -> None:
    assert re.search(said, said_by(pages, **options))


# From a spec.


def written(folder: Path, corpus: Corpus) -> str:
    write(folder / "corpus.jsonl", [asdict(segment) for segment in corpus.segments])
    return str(folder)


def test_a_spec_names_it_all(tmp_path: Path) -> None:
    """English pages of one plan by default; the queries' language is read though no page has it."""
    folder = written(tmp_path, make_corpus())
    asked = {"query": "title", "query_language": "it", "editions": 2, "seed": 6, "sets": 5}
    source = PageSource(corpus=folder, size=3, **asked)
    by_hand = pages(queries={"kind": "title", "language": "it", "editions": 2}, seed=6)
    assert [t.fingerprint for t in source.read(Words())] == [t.fingerprint for t in by_hand]


def test_real_text_in_all_languages_of_the_sample() -> None:
    """Chinese, Korean and Hindi have sentence ends of their own."""
    corpus = Corpus.read("sample")
    for language in corpus.languages:
        source = PageSource(languages=[language], size=4, sets=12, editions=1, query_tokens=1000)
        (task,) = source.read(Letters())
        assert len(task.documents) >= 10
        shares = []
        for query in task.queries:
            part = on_page(task, query.id)
            whole = corpus.text(query.id.rsplit("/", 1)[0], language)
            assert whole.startswith(part)
            assert whole[len(part) :].strip() == query.text
            shares.append(len(part) / len(whole))
        assert 0.4 < sum(shares) / len(shares) < 0.6


class Letters(Words):
    """Counts characters, as some languages write no spaces."""

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts]

    def cut(self, texts: Sequence[str], length: int) -> list[str]:
        return [text[:length] for text in texts]
