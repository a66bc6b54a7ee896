"""`LanguageSummary`: what a search across languages says of each language, arm by arm."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from fairspan.runs.language_rows import PEER, SHARE, TRANSLATION_RANK
from fairspan.runs.log import RunLog
from fairspan.stats import language_grid as grid
from fairspan.stats.bootstrap import Interval, PositionSums, Statistic, resample
from fairspan.stats.difference import difference
from fairspan.stats.distributions import holm
from fairspan.stats.effects import change_of
from fairspan.stats.queries import column, query_sums, swap_tests
from fairspan.studies.evaluate.summary import RANK, Arm, languages_of, pair_codes, sorted_rows

ENGLISH = "en"
DISTANCE = "share distance"
OWN_RATIO, ENGLISH_RATIO = "rank ratio", "rank ratio to en"
SWAPS = 9999


@dataclass(frozen=True, slots=True)
class LanguageFigure:
    """One number of one arm, and its change from the first arm on the same queries; None for the first arm.

    Attributes:
        query, document: the languages that it is of; empty for all of them.
        change: of ratios and of geometric means it is a factor, of everything else a difference.
        p_value: of the randomisation test, adjusted by Holm for all arms; NaN where there is none.
    """

    arm: Arm
    measure: str
    query: str
    document: str
    value: Interval
    change: Interval | None = None
    p_value: float = np.nan


@dataclass(frozen=True, slots=True)
class LanguageSummary:
    """All figures by language. `languages` are those of queries and documents."""

    languages: tuple[str, ...]
    figures: tuple[LanguageFigure, ...]

    def of(self, arm: Arm, measure: str, query: str = "", document: str = "") -> LanguageFigure | None:
        wanted = (arm, measure, query, document)
        return next((one for one in self.figures if (one.arm, one.measure, one.query, one.document) == wanted), None)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A figure to compute: a statistic of the means of one measure's rows."""

    measure: str
    statistic: Statistic
    query: str = ""
    document: str = ""
    tested: bool = False


def summarize_languages(log: RunLog, arms: Sequence[Arm], metrics: Sequence[str]) -> LanguageSummary | None:
    """The figures by language; None if the log is of one language, or of one cluster of queries."""
    languages = languages_of(log)
    if not languages or log.rows["set"].n_unique() < 2:
        return None
    found: list[LanguageFigure] = []
    for source, asked, logarithmic in _questions(languages, metrics):
        tables = [sorted_rows(log.rows.filter(measure=source), arm) for arm in arms]
        sums = [_sums(table, languages, source, logarithmic=logarithmic) for table in tables]
        found += _figures(arms, sums, asked, int(log.header["seed"]), logarithmic=logarithmic)
    return LanguageSummary(tuple(languages), tuple(found))


def _questions(languages: Sequence[str], metrics: Sequence[str]) -> Iterator[tuple[str, list[_Asked], bool]]:
    """What is computed of the rows of each measure, and whether of their logarithms."""
    numbered = list(enumerate(languages))
    for metric in metrics:
        yield (
            metric,
            [
                *(_Asked(metric, grid.of_document(number), document=name) for number, name in numbered),
                *(_Asked(metric, grid.of_query(number), query=name) for number, name in numbered),
                _Asked(f"{metric} within", grid.within, tested=True),
                _Asked(f"{metric} across", grid.across, tested=True),
                _Asked(f"{metric} gap", grid.document_gap, tested=True),
                _Asked(f"{metric} weakest", grid.weakest_document, tested=True),
            ],
            False,
        )
    ratios = [_Asked(OWN_RATIO, grid.lag_to_own(number), document=name) for number, name in numbered]
    if ENGLISH in languages:
        english = languages.index(ENGLISH)
        ratios += [
            _Asked(ENGLISH_RATIO, grid.lag_to(english, number), document=name)
            for number, name in numbered
            if number != english
        ]
    yield RANK, [*ratios, _Asked(OWN_RATIO, grid.lag_to_own(), tested=True)], True
    pairs = [(1 + i * len(languages) + j, one, two) for i, one in numbered for j, two in numbered]
    yield (
        SHARE,
        [
            *(_Asked(SHARE, column(number), query, document) for number, query, document in pairs),
            *(_Asked(SHARE, grid.of_document(number), document=name) for number, name in numbered),
            *(_Asked(DISTANCE, grid.share_distance(number), query=name) for number, name in numbered),
            _Asked(DISTANCE, grid.share_distance(), tested=True),
        ],
        False,
    )
    yield (
        TRANSLATION_RANK,
        [_Asked(TRANSLATION_RANK, column(number), query, document) for number, query, document in pairs],
        True,
    )
    of_queries = [_Asked(PEER, column(1 + number), query=name) for number, name in numbered]
    yield PEER, [*of_queries, _Asked(PEER, column(0), tested=True)], False


def _sums(rows: pl.DataFrame, languages: Sequence[str], source: str, *, logarithmic: bool) -> PositionSums:
    values = rows["value"].to_numpy()
    if source == PEER:
        groups: Any = [1 + languages.index(language) for language in rows["language"]]
    else:
        groups = pair_codes(rows, languages)
    return query_sums(np.log(values) if logarithmic else values, groups, rows["set"].to_numpy())


def _figures(
    arms: Sequence[Arm], sums: Sequence[PositionSums], asked: Sequence[_Asked], seed: int, *, logarithmic: bool
) -> list[LanguageFigure]:
    """Every statistic of every arm. Differences of logarithms become factors."""
    columns = range(1, sums[0].sums.shape[1])
    found, tested = list[LanguageFigure](), [one for one in asked if one.tested]
    p_values: dict[tuple[str, Arm], float] = {}
    for arm, own in zip(arms, sums, strict=True):
        drawn = None if logarithmic else resample(own, rng=np.random.default_rng(seed))
        both = sums[0].beside(own)
        if arm != arms[0] and tested:
            changes = [change_of(one.statistic) for one in tested]
            values = swap_tests(both, changes, np.random.default_rng(seed), SWAPS)
            p_values |= {(one.measure, arm): p for one, p in zip(tested, values, strict=True)}
        for one in asked:
            value = (
                difference(own, one.statistic, columns).interval() if drawn is None else drawn.interval(one.statistic)
            )
            change = None
            if arm != arms[0]:
                change = difference(both, change_of(one.statistic), columns).interval()
            if logarithmic:
                value, change = _factor(value), None if change is None else _factor(change)
            found.append(LanguageFigure(arm, one.measure, one.query, one.document, value, change))
    for one in tested:
        adjusted = holm([p_values[one.measure, arm] for arm in arms[1:]])
        known = dict(zip(arms[1:], adjusted.tolist(), strict=True))
        found = [
            replace(figure, p_value=known[figure.arm])
            if (figure.measure, figure.query, figure.document) == (one.measure, "", "") and figure.arm in known
            else figure
            for figure in found
        ]
    return found


def _factor(found: Interval) -> Interval:
    """The interval of a difference of logarithms as one of a ratio."""
    estimate, low, high = np.exp([found.estimate, found.low, found.high]).tolist()
    return Interval(estimate, low, high, found.reason)
