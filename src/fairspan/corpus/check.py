"""What a corpus offers: how long its segments are, and how many sets can be drawn from it."""

from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from heapq import heappop, heapreplace
from math import ceil
from typing import Any

from fairspan.corpus.corpus import Corpus
from fairspan.errors import CorpusError, require_whole

PERCENTILES = (0, 5, 25, 50, 75, 95, 100)


@dataclass(frozen=True, slots=True)
class LanguageCheck:
    """One language: how many segments, and their lengths at each of `PERCENTILES` (0 is the least, 100 the most)."""

    language: str
    segments: int
    lengths: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SizeCheck:
    """One set size.

    Attributes:
        sets: how many disjoint sets there are segments for.
        too_long: segments that fit the window in no set of this size, not even with the shortest ones.
        fitting: how many disjoint sets fit the window if short segments are combined with long ones. Sets drawn at
            random are fewer. None, as `too_long`, without a window.
    """

    size: int
    sets: int
    too_long: int | None = None
    fitting: int | None = None


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """One kind of language plan.

    Attributes:
        languages: one for documents in that language; several for all of them and every mixed pair.
        segments: those that are there in all of these languages.
        sets: by size, how many disjoint sets fit the window, or how many there are without a window.
    """

    languages: tuple[str, ...]
    segments: int
    sets: dict[int, int]


@dataclass(frozen=True, slots=True)
class CorpusCheck:
    """What `check` found.

    Attributes:
        aligned: segments that are there in every language.
        unit: what lengths are counted in.
        window: the most that a document may hold, in the same unit.
    """

    corpus: str
    fingerprint: str
    aligned: int
    unit: str
    window: int | None
    languages: tuple[LanguageCheck, ...]
    sizes: tuple[SizeCheck, ...]
    plans: tuple[PlanCheck, ...] = ()
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; lengths by percentile."""
        names = [str(one) for one in PERCENTILES]
        languages = [{**asdict(one), "lengths": dict(zip(names, one.lengths, strict=True))} for one in self.languages]
        return {**asdict(self), "languages": languages}


def check(
    corpus: Corpus,
    count_tokens: Callable[[Sequence[str]], Sequence[int]],
    sizes: Sequence[int],
    window: int | None = None,
    unit: str = "tokens",
) -> CorpusCheck:
    """Lengths in each language and the sets that each size allows.

    A set is the same segments in every language. Against the window, each counts with its longest translation, and
    the tokens that the joining spaces may add are not counted: what fits here fits in any mixture of the languages,
    except for those.

    Args:
        count_tokens: the lengths of texts, without special tokens.
        window: how many tokens of text a document may have: the model's limit less its special tokens.
    """
    for size in sizes:
        require_whole("sizes", size, least=2, kind=CorpusError)
    ids = corpus.ids()
    longest = dict.fromkeys(ids, 0)
    languages, plans = [], []
    for language in corpus.languages:
        there = corpus.ids([language])
        lengths = count_tokens([corpus.text(id, language) for id in there])
        for id, length in zip(there, lengths, strict=True):
            if id in longest:
                longest[id] = max(longest[id], length)
        languages.append(LanguageCheck(language, len(there), percentiles(lengths)))
        plans.append(_check_plan((language,), lengths, sizes, window))
    if len(languages) > 1:
        plans.append(_check_plan(corpus.languages, list(longest.values()), sizes, window))
    return CorpusCheck(
        corpus=corpus.name,
        fingerprint=corpus.fingerprint,
        aligned=len(ids),
        unit=unit,
        window=window,
        languages=tuple(languages),
        sizes=tuple(_check_size(list(longest.values()), size, window) for size in sizes),
        plans=tuple(plans),
        notes=corpus.notes,
    )


def percentiles(lengths: Sequence[int]) -> tuple[int, ...]:
    """At each of `PERCENTILES`, the least length that so many per cent of the segments do not exceed."""
    ordered = sorted(lengths)
    return tuple(ordered[max(0, ceil(share * len(ordered) / 100) - 1)] for share in PERCENTILES)


def fitting_sets(lengths: Sequence[int], size: int, window: int) -> int:
    """How many disjoint sets of that size whose lengths add up to no more than the window can be found.

    k sets fit best when made from the k·size shortest segments; these are dealt out from the longest down, each to
    the set that is shortest so far. For pairs that is the most there can be, for more a bound from below.
    """
    ordered = sorted(lengths)
    counts = range(1, len(ordered) // size + 1)
    return bisect(counts, False, key=lambda count: not _fit(ordered[: count * size], size, window))


def _fit(ordered: Sequence[int], size: int, window: int) -> bool:
    open_sets = [(0, 0)] * (len(ordered) // size)
    for length in reversed(ordered):
        total, members = open_sets[0]
        if total + length > window:
            return False
        if members + 1 < size:
            heapreplace(open_sets, (total + length, members + 1))
        else:
            heappop(open_sets)
    return True


def _check_plan(
    languages: tuple[str, ...], lengths: Sequence[int], sizes: Sequence[int], window: int | None
) -> PlanCheck:
    sets = {n: len(lengths) // n if window is None else fitting_sets(lengths, n, window) for n in sizes}
    return PlanCheck(languages, len(lengths), sets)


def _check_size(lengths: Sequence[int], size: int, window: int | None) -> SizeCheck:
    sets = len(lengths) // size
    if window is None:
        return SizeCheck(size, sets)
    if not sets:
        return SizeCheck(size, 0, 0, 0)
    shortest = sorted(lengths)[:size]
    others = sum(shortest[:-1])
    too_long = sum(others + max(length, shortest[-1]) > window for length in lengths)
    return SizeCheck(size, sets, too_long, fitting_sets(lengths, size, window))
