"""What a search across languages says of each language, arm by arm."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from fairspan.report.frames import columns_of
from fairspan.runs.log import RunLog
from fairspan.runs.search_rows import PEER, SHARE
from fairspan.stats import language_grid as grid
from fairspan.stats.distributions import holm
from fairspan.stats.intervals import Interval
from fairspan.stats.positions import spread
from fairspan.stats.queries import column, query_sums, smallest, swap_tests
from fairspan.stats.resampling import PositionSums, Statistic, change_of, jackknife, resample
from fairspan.studies.evaluate.measures import (
    RANK,
    Columns,
    SearchArm,
    arms_of,
    languages_of,
    pair_codes,
    sorted_rows,
)

ENGLISH = "en"
DISTANCE = "share distance"
OWN_RATIO = "rank ratio"
ENGLISH_RATIO = "rank ratio to en"
SWAPS = 9999


@dataclass(frozen=True, slots=True)
class _Figure:
    """A statistic of the means of one measure's rows, for some languages or for all of them."""

    measure: str
    statistic: Statistic
    query: str = ""
    document: str = ""
    tested: bool = False


def language_figures(log: RunLog, metrics: Sequence[str]) -> list[Columns]:
    """One row for each figure and arm; none if the log is of one language.

    Changes of ratios are factors, all others differences.
    """
    languages = languages_of(log)
    if not languages:
        return []
    arms = arms_of(log)
    seed = log.header.seed
    rows = list[Columns]()
    for measure, figures, logarithmic in _figures(languages, metrics):
        measured = log.rows.filter(measure=measure)
        sums = []
        for arm in arms:
            table = sorted_rows(measured, arm)
            values = table["value"].to_numpy()
            groups = pair_codes(table, languages)
            clusters = table["set"].to_numpy()
            sums.append(query_sums(np.log(values) if logarithmic else values, groups, clusters))
        rows += _rows(arms, sums, figures, seed, logarithmic=logarithmic)
    return rows


def _figures(
    languages: Sequence[str], metrics: Sequence[str]
) -> Iterator[tuple[str, list[_Figure], bool]]:
    """What is computed of the rows of each measure, and whether of their logarithms."""
    numbered = list(enumerate(languages))
    of_document = {name: grid.of_documents(column(number)) for number, name in numbered}
    overall = {
        "within": grid.within,
        "across": grid.across,
        "gap": grid.of_documents(spread),
        "weakest": grid.of_documents(smallest),
    }
    for metric in metrics:
        by_document = [_Figure(metric, mean, document=name) for name, mean in of_document.items()]
        tested = [
            _Figure(f"{metric} {name}", statistic, tested=True)
            for name, statistic in overall.items()
        ]
        yield metric, [*by_document, *tested], False
    ratios = [
        _Figure(OWN_RATIO, grid.lag_to_own(number), document=name) for number, name in numbered
    ]
    if ENGLISH in languages:
        english = languages.index(ENGLISH)
        ratios += [
            _Figure(ENGLISH_RATIO, grid.lag_to(english, number), document=name)
            for number, name in numbered
            if name != ENGLISH
        ]
    yield RANK, [*ratios, _Figure(OWN_RATIO, grid.lag_to_own(), tested=True)], True
    shares = [
        _Figure(SHARE, column(1 + i * len(languages) + j), query, document)
        for i, query in numbered
        for j, document in numbered
    ]
    shares += [_Figure(SHARE, mean, document=name) for name, mean in of_document.items()]
    yield SHARE, [*shares, _Figure(DISTANCE, grid.share_distance, tested=True)], False
    yield PEER, [_Figure(PEER, column(0), tested=True)], False


def _rows(
    arms: Sequence[SearchArm],
    sums: Sequence[PositionSums],
    figures: Sequence[_Figure],
    seed: int,
    *,
    logarithmic: bool,
) -> list[Columns]:
    """Every figure of every arm. Differences of logarithms become factors."""
    tested = [figure for figure in figures if figure.tested]
    changes = [change_of(figure.statistic) for figure in tested]
    p_values = [
        swap_tests(sums[0].beside(arm_sums), changes, np.random.default_rng(seed), SWAPS)
        for arm_sums in sums[1:]
    ]
    adjusted = {
        figure.measure: holm([of_arm[place] for of_arm in p_values])
        for place, figure in enumerate(tested)
    }
    rows = []
    for number, (arm, arm_sums) in enumerate(zip(arms, sums, strict=True)):
        drawn = None if logarithmic else resample(arm_sums, rng=np.random.default_rng(seed))
        both = sums[0].beside(arm_sums)
        for figure in figures:
            if drawn is None:
                value = _factor(jackknife(arm_sums, figure.statistic))
            else:
                value = drawn.interval(figure.statistic)
            change = jackknife(both, change_of(figure.statistic)) if number else None
            if logarithmic and change is not None:
                change = _factor(change)
            p_value = adjusted[figure.measure][number - 1] if number and figure.tested else np.nan
            row = {
                **asdict(arm),
                "measure": figure.measure,
                "query_language": figure.query,
                "document_language": figure.document,
                **columns_of(value),
                **columns_of(change, "change_"),
                "p_value": float(p_value),
            }
            rows.append(row)
    return rows


def _factor(difference: Interval) -> Interval:
    """The interval of a difference of logarithms as one of a ratio."""
    ends = np.exp([difference.estimate, difference.low, difference.high])
    return Interval(*ends.tolist())
