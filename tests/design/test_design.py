"""Designs: orders by exhaustive counting, sets by hand and by brute force, documents against their
own segments.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import comb
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.segment import Segment
from fairspan.design.design import DESIGNS, Design
from fairspan.design.documents import Documents, build_documents
from fairspan.design.lengths import measure_segments
from fairspan.design.plan import LanguagePlan, language_plans, languages_of
from fairspan.design.sets import draw_sets, orders
from fairspan.errors import DesignError
from tests.builders.saying import said_by

SIZES = st.integers(2, 12)
SEEDS = st.integers(0, 2**32)
refused = partial(said_by, kind=DesignError)


@dataclass(frozen=True)
class Words:
    """A counter whose tokens are words, between two special ones and after a prompt of so many.

    Every joining space adds `joint`.
    """

    window: int | None = None
    joint: int = 0
    prompt: int = 0
    unit: str = "tokens"

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def count_whole(self, texts: Sequence[str]) -> list[int]:
        # Segments end in a full stop of their own, so that the joints of a document can be counted.
        joints = [self.joint * max(0, text.count(".") - 1) for text in texts]
        special = self.prompt + 2
        counts = zip(self.count(texts), joints, strict=True)
        return [count + more + special for count, more in counts]

    def cut(self, texts: Sequence[str], length: int) -> list[str]:
        return [" ".join(text.split()[:length]) for text in texts]


def corpus_of(lengths: Mapping[str, Mapping[str, int]]) -> Corpus:
    """Segments of so many words by id and language, each word naming its segment and language."""
    segments = []
    for id, by_language in lengths.items():
        for language, count in by_language.items():
            name = f"{id}-{language}"
            text = " ".join(f"{name}-{k}" for k in range(count - 1)) + f" {name}."
            segments.append(Segment(id, language, text))
    return Corpus.from_segments("made", segments)


def even_corpus(count: int, languages: Sequence[str] = ("en",), length: int = 3) -> Corpus:
    return corpus_of({f"s{k:03}": dict.fromkeys(languages, length) for k in range(count)})


def build(
    corpus: Corpus,
    design: Design,
    languages: Sequence[str] = ("en",),
    mixed: str | Sequence[str] = (),
    counter: Words | None = None,
) -> Documents:
    plans, counter = language_plans(languages, mixed), counter or Words()
    material = measure_segments(corpus, languages_of(plans), design, counter)
    return build_documents(material, plans, design, counter)


def cut_to(made: Documents) -> int | None:
    """The number of tokens that longer segments were cut to, as a note says."""
    found = re.search(r"segments were cut to their first (\d+)", " ".join(made.notes))
    return int(found[1]) if found else None


# --- orders


@given(n=SIZES, seed=SEEDS)
def test_latin_puts_every_segment_once_at_every_position(n: int, seed: int) -> None:
    table = orders("latin", n, default_rng(seed))
    assert table.shape == (n, n)
    assert all({*column} == {*range(n)} for column in table.T.tolist())
    assert all({*order} == {*range(n)} for order in table.tolist())


# --- sets


def names(count: int) -> list[str]:
    return [f"s{k:03}" for k in range(count)]


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(2, 5),
    segments=st.integers(1, 60),
    count=st.integers(1, 50),
    seed=SEEDS,
)
def test_sets_are_different_and_disjoint_while_the_corpus_lasts(
    n: int, segments: int, count: int, seed: int
) -> None:
    """N segments give ⌊N/n⌋ disjoint sets of n."""
    draw = draw_sets(names(segments), n, count, default_rng(seed))
    assert all(len(set(members)) == n for members in draw.sets)
    assert len({frozenset(members) for members in draw.sets}) == len(draw.sets) <= count
    assert draw.disjoint == min(count, segments // n)
    first = [segment for members in draw.sets[: draw.disjoint] for segment in members]
    assert len(set(first)) == len(first)
    uses = Counter(segment for members in draw.sets for segment in members)
    assert (draw.disjoint < len(draw.sets)) == (max(uses.values(), default=0) > 1)


@pytest.mark.parametrize(
    ("segments", "n", "count"),
    [(5, 4, 2), (5, 4, 5), (8, 4, 40), (6, 3, 20), (9, 8, 9), (10, 5, 40), (4, 4, 3), (11, 4, 330)],
)
def test_a_small_corpus_gives_every_set_that_it_has(segments: int, n: int, count: int) -> None:
    """N segments have N over n different sets, and fewer are drawn only when there are no more."""
    found = [
        len(draw_sets(names(segments), n, count, default_rng([seed, n])).sets) for seed in range(10)
    ]
    assert found == [min(count, comb(segments, n))] * 10


@given(count=st.integers(12, 60), seed=SEEDS)
def test_segments_are_shared_out_evenly(count: int, seed: int) -> None:
    """48 segments make whole deals of 12 sets of 4: nobody is used twice more than another."""
    draw = draw_sets(names(48), 4, count, default_rng(seed))
    uses = Counter(dict.fromkeys(names(48), 0))
    uses.update(segment for members in draw.sets for segment in members)
    assert len(draw.sets) == count
    assert max(uses.values()) - min(uses.values()) <= 1


# --- plans


def test_language_plans() -> None:
    plans = language_plans(["en", "de"], ["de:en", " it : en "])
    assert [str(plan) for plan in plans] == ["en", "de", "de:en", "it:en"]
    assert languages_of(plans) == ("en", "de", "it")
    assert [str(plan) for plan in language_plans(["en", "de", "it"], "all")] == [
        "en",
        "de",
        "it",
        *("de:en", "it:en", "en:de", "it:de", "en:it", "de:it"),
    ]
    assert language_plans(["en"], "en:en") == (LanguagePlan("en", "en"),)


@pytest.mark.parametrize("mixed", ["de-en", "de:", ":en", ["de:en", "it"]])
def test_plans_that_cannot_be_read(mixed: Any) -> None:
    said = refused(language_plans, ["en"], mixed)
    assert "lead:later, such as de:en" in said
    assert repr(mixed if isinstance(mixed, str) else "it") in said


# --- documents


@pytest.mark.parametrize("orders_of", DESIGNS)
def test_documents_are_their_segments_joined_by_one_space(orders_of: str) -> None:
    corpus = corpus_of({f"s{k:03}": {"en": 2 + k % 5, "de": 3 + k % 4} for k in range(30)})
    made = build(corpus, Design(design=orders_of, sizes=(2, 3), sets=4), ["en", "de"], "all")
    assert len(made.documents) == 4 * 4 * (2 + (3 if orders_of == "latin" else 6))
    for document in made.documents:
        texts = [corpus.text(*key) for key in document.keys]
        assert document.text == " ".join(texts)
        assert [document.text[start:end] for start, end in document.spans] == texts
        assert document.tokens == tuple(len(text.split()) for text in texts)
        assert document.length == sum(document.tokens) + 2
        assert [language for _, language in document.keys] == [
            document.plan.lead,
            *[document.plan.later] * (document.n - 1),
        ]
        assert all(made.segments[key] == corpus.text(*key) for key in document.keys)
    assert len({document.name for document in made.documents}) == len(made.documents)
    assert set(made.segments) == {key for document in made.documents for key in document.keys}


def test_a_set_is_the_same_ids_and_orders_in_every_plan() -> None:
    made = build(even_corpus(24, ["en", "de"]), Design(sizes=(3, 4), sets=5), ["en", "de"], "all")
    told: dict[str, dict[tuple[int, int, int], tuple[str, ...]]] = {}
    for document in made.documents:
        ids = tuple(segment for segment, _ in document.keys)
        told.setdefault(str(document.plan), {})[document.n, document.set, document.order] = ids
    assert set(told) == {"en", "de", "de:en", "en:de"}
    assert len({str(plan) for plan in told.values()}) == 1


def test_adding_a_size_leaves_the_others_as_they_were() -> None:
    corpus = even_corpus(30)
    alone = build(corpus, Design(sizes=(4,), sets=9)).documents
    among = build(corpus, Design(sizes=(3, 4, 5), sets=9)).documents
    assert [document for document in among if document.n == 4] == list(alone)
    turned = build(corpus, Design(sizes=(5, 4), sets=9)).documents
    assert [document for document in turned if document.n == 4] == list(alone)


def test_documents_do_not_depend_on_the_order_of_files_or_languages() -> None:
    corpus = even_corpus(30, ["en", "de"])
    shuffled = Corpus.from_segments("made", reversed(corpus.segments))
    wanted = set(build(corpus, Design(sets=6), ["en", "de"]).documents)
    assert set(build(shuffled, Design(sets=6), ["en", "de"]).documents) == wanted
    assert set(build(corpus, Design(sets=6), ["de", "en"]).documents) == wanted
    assert set(build(corpus.select(["de", "en"]), Design(sets=6), ["de", "en"]).documents) == wanted


def test_sets_by_size() -> None:
    """As IRF's: all orders of each set."""
    sets = {3: 7, 4: 4}
    design = Design(design="permutations", sizes=(3, 4), sets=sets)
    made = build(even_corpus(21), design)
    assert Counter(document.n for document in made.documents) == {3: 7 * 6, 4: 4 * 24}
    assert {(one.n, one.set) for one in made.documents} == {
        (n, number) for n, count in sets.items() for number in range(count)
    }
    read = json.loads(json.dumps(design.sets))
    assert Design(sizes=(3, 4), sets=read).sets == sets, "JSON has the sizes as text"
    assert made.notes == ()


# --- lengths

LENGTHS = {
    "a": {"en": 5, "de": 9},
    "b": {"en": 8, "de": 4},
    "c": {"en": 6, "de": 6},
    "d": {"en": 10, "de": 20},
}


@pytest.mark.parametrize(
    ("limits", "kept"),
    [({}, "abcd"), ({"min_tokens": 5, "max_tokens": 10}, "ac"), ({"max_tokens": 9}, "abc")],
)
def test_length_limits(limits: dict[str, Any], kept: str) -> None:
    """Both languages are held to the limits, which are included."""
    design = Design(sizes=(2,), **limits)
    found = measure_segments(corpus_of(LENGTHS), ["en", "de"], design, Words())
    assert "".join(found.ids) == kept
    note = f"{4 - len(kept)} of 4 segments are outside the length limits and were not used"
    assert found.notes == ((note,) if limits else ())


def test_an_opening_is_cut_before_anything_is_measured() -> None:
    corpus = corpus_of(LENGTHS)
    design = Design(sizes=(2,), sets=3, opening=5, max_tokens=5)
    found = measure_segments(corpus, ["en", "de"], design, Words())
    assert found.ids == ("a", "b", "c", "d")
    assert found.lengths["a", "en"] == 5
    assert found.lengths["b", "de"] == 4
    assert found.texts["d", "de"] == " ".join(corpus.text("d", "de").split()[:5])
    # All but a in English (5 words) and b in German (4) are longer than 5.
    assert found.notes == ("6 of 8 segments were cut to their first 5 tokens",)
    made = build(corpus, design, ["en", "de"])
    assert all(max(document.tokens) <= 5 for document in made.documents)
    assert made.notes[0] == found.notes[0]


@settings(max_examples=50, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=4, max_size=12),
    window=st.integers(4, 160),
    joint=st.integers(0, 1),
    sizes=st.lists(st.integers(2, 4), min_size=1, max_size=2, unique=True),
)
def test_nothing_is_ever_cut_silently(
    lengths: list[int], window: int, joint: int, sizes: list[int]
) -> None:
    """Every document fits into the window, or there is one line that says why there are none."""
    corpus = corpus_of(
        {f"s{k:03}": {"en": length, "de": 41 - length} for k, length in enumerate(lengths)}
    )
    design, counter = Design(sizes=tuple(sizes), sets=3), Words(window, joint)
    try:
        made = build(corpus, design, ["en", "de"], "all", counter)
    except DesignError as error:
        said = str(error)
        assert "\n" not in said
        return
    for document in made.documents:
        assert document.length == counter.count_whole([document.text])[0] <= window
        parts = [document.text[start:end] for start, end in document.spans]
        wholes = [corpus.text(*key) for key in document.keys]
        assert all(whole.startswith(part) for whole, part in zip(wholes, parts, strict=True))
        cut = [part for whole, part in zip(wholes, parts, strict=True) if part != whole]
        assert {len(part.split()) for part in cut} <= {cut_to(made)}
    told = [note for note in made.notes if "segments were cut to their first" in note]
    assert len(told) == (cut_to(made) is not None)


# --- refusals


def test_sharing_and_shortage_are_told() -> None:
    made = build(even_corpus(9), Design(sizes=(4,), sets=5))
    [note] = made.notes
    assert note.startswith("n=4: the corpus yields 2 disjoint sets; the other 3 reuse segments")
    few = build(even_corpus(4), Design(sizes=(3,), sets=40))
    assert any("4 different sets instead of 40" in note for note in few.notes)


@pytest.mark.parametrize(
    ("count", "fields", "said"),
    [
        (3, {}, "the corpus has 3 segments in en, and a document of 4 needs 4"),
        (4, {}, "only 1 sets of 4 can be made of 4 segments"),
        (30, {"min_tokens": 50}, "0 of 30 segments are within the length limits in en"),
    ],
)
def test_too_few_segments_are_one_line(count: int, fields: dict[str, Any], said: str) -> None:
    assert said in refused(build, even_corpus(count), Design(**fields))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"design": "greek"}, "no design 'greek'. Designs: latin, permutations"),
        ({"sizes": ()}, "different numbers, such as 3 and 4, got []"),
        ({"sizes": (1,)}, "sizes must be a whole number of at least 2, got 1"),
        ({"sizes": (3, 2.5)}, "got 2.5"),
        ({"opening": True}, "opening must be a whole number of at least 1, got True"),
        ({"sizes": (3, 4, 3)}, "different numbers, such as 3 and 4, got [3, 4, 3]"),
        ({"sizes": (9,), "design": "permutations"}, "9! = 362880 orders"),
        ({"sizes": 4}, "sizes"),
        ({"sets": 1}, "sets must be a whole number of at least 2, got 1"),
        ({"sets": "many"}, "got 'many'"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"min_tokens": 0}, "min_tokens must be a whole number of at least 1, got 0"),
        ({"min_tokens": 9, "max_tokens": 8}, "min_tokens=9 is above max_tokens=8"),
        ({"sets": {3: 9}}, "sets has numbers for sizes [3], and the sizes are [4]."),
        ({"sets": {4: 1}}, "sets must be a whole number of at least 2, got 1"),
        ({"sets": {"four": 9}}, "numbers by size, such as {3: 167}, got {'four': 9}"),
    ],
)
def test_designs_that_cannot_be_are_one_line(fields: dict[str, Any], said: str) -> None:
    line = refused(Design, **fields)
    assert said in line
    assert line.endswith(".")


def test_a_window_that_is_too_small_is_one_line() -> None:
    """Four segments of 10 need 40, 2 special tokens and 4 joints; fewer than 16 are not cut."""
    said = refused(build, even_corpus(30, length=10), Design(), counter=Words(window=45))
    assert said.startswith("documents of 4 segments do not fit into the model's 45 tokens: ")
    # (45 − 2 − 4) // 4 = 9, and openings of 9 do fit.
    assert "use opening=9, use fewer segments per document or a model with a longer window." in said
    long, window = even_corpus(30, length=100), Words(window=405)
    assert cut_to(build(long, Design(), counter=window)) == 99
    assert cut_to(build(long, Design(), counter=Words(window=406))) is None
    for strict in (Design(min_tokens=100), Design(opening=100)):
        assert "opening=99" in refused(build, long, strict, counter=window)
    assert build(even_corpus(30, length=10), Design(opening=9), counter=Words(window=45)).documents
    assert build(even_corpus(30, length=10), Design(), counter=Words(window=46)).documents
    assert "opening" not in refused(build, even_corpus(30), Design(), counter=Words(window=9))


def test_long_segments_are_cut_and_not_dropped() -> None:
    """Of 48 segments, 40 have 60 words and 8 have 200: the sets are those without a window, and the
    limit is the largest that fits, found by trying all of them.
    """
    corpus = corpus_of({f"s{k:03}": {"en": 200 if k % 6 == 0 else 60} for k in range(48)})
    design = Design(sets=12)
    free = build(corpus, design)
    made = build(corpus, design, counter=Words(window=256))
    assert [one.keys for one in made.documents] == [one.keys for one in free.documents]
    sets = [one.tokens for one in free.documents]
    fits = [k for k in range(300) if max(sum(min(k, one) for one in row) for row in sets) <= 250]
    assert cut_to(made) == max(fits)
    cut = f"8 of 48 segments were cut to their first {cut_to(made)} tokens; set opening"
    assert any(cut in note and "the model's 256 tokens" in note for note in made.notes)
    mean = (8 * cut_to(made) + 40 * 60) / 48
    means = f"segments have 83 tokens on average in the corpus and {mean:.0f} in documents"
    assert made.notes[-1] == means
    assert build(corpus, design, counter=Words(window=2000)) == free, "where all fit, it is free"
