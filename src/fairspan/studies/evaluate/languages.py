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
    Arm,
    Record,
    arms_of,
    languages_of,
    pair_codes,
    sorted_rows,
)

ENGLISH = "en"
DISTANCE = "share distance"
OWN_RATIO, ENGLISH_RATIO = "rank ratio", "rank ratio to en"
SWAPS = 9999


@dataclass(frozen=True, slots=True)
class _Asked:
    """A figure to compute: a statistic of the means of one measure's rows, for some languages or for all of them."""

    measure: str
    statistic: Statistic
    query: str = ""
    document: str = ""
    tested: bool = False


def language_records(log: RunLog, metrics: Sequence[str]) -> list[Record]:
    """One for each figure and arm; none if the log is of one language.

    The change is from the first arm on the same queries: of ratios and of geometric means it is a factor, of
    everything else a difference. p values are those of randomisation tests, adjusted by Holm for all arms.
    """
    languages, arms, found = languages_of(log), arms_of(log), list[Record]()
    if not languages:
        return []
    for source, asked, logarithmic in _questions(languages, metrics):
        rows, sums = log.rows.filter(measure=source), []
        for table in (sorted_rows(rows, arm) for arm in arms):
            values, clusters = table["value"].to_numpy(), table["set"].to_numpy()
            sums.append(
                query_sums(
                    np.log(values) if logarithmic else values,
                    pair_codes(table, languages),
                    clusters,
                )
            )
        found += _figures(arms, sums, asked, log.header.seed, logarithmic=logarithmic)
    return found


def _questions(
    languages: Sequence[str], metrics: Sequence[str]
) -> Iterator[tuple[str, list[_Asked], bool]]:
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
        by_document = [_Asked(metric, own, document=name) for name, own in of_document.items()]
        tested = [
            _Asked(f"{metric} {name}", statistic, tested=True)
            for name, statistic in overall.items()
        ]
        yield metric, [*by_document, *tested], False
    ratios = [
        _Asked(OWN_RATIO, grid.lag_to_own(number), document=name) for number, name in numbered
    ]
    if ENGLISH in languages:
        lags = {
            name: grid.lag_to(languages.index(ENGLISH), number)
            for number, name in numbered
            if name != ENGLISH
        }
        ratios += [_Asked(ENGLISH_RATIO, lag, document=name) for name, lag in lags.items()]
    yield RANK, [*ratios, _Asked(OWN_RATIO, grid.lag_to_own(), tested=True)], True
    pairs = [(1 + i * len(languages) + j, one, two) for i, one in numbered for j, two in numbered]
    shares = [_Asked(SHARE, column(number), query, document) for number, query, document in pairs]
    shares += [_Asked(SHARE, own, document=name) for name, own in of_document.items()]
    yield SHARE, [*shares, _Asked(DISTANCE, grid.share_distance, tested=True)], False
    yield PEER, [_Asked(PEER, column(0), tested=True)], False


def _figures(
    arms: Sequence[Arm],
    sums: Sequence[PositionSums],
    asked: Sequence[_Asked],
    seed: int,
    *,
    logarithmic: bool,
) -> list[Record]:
    """Every statistic of every arm. Differences of logarithms become factors."""
    found, tested = list[Record](), [one for one in asked if one.tested]
    changes = [change_of(one.statistic) for one in tested]
    alone = [
        swap_tests(sums[0].beside(own), changes, np.random.default_rng(seed), SWAPS)
        for own in sums[1:]
    ]
    adjusted = {
        one.measure: holm([own[place] for own in alone]) for place, one in enumerate(tested)
    }
    for number, (arm, own) in enumerate(zip(arms, sums, strict=True)):
        drawn = None if logarithmic else resample(own, rng=np.random.default_rng(seed))
        both = sums[0].beside(own)
        for one in asked:
            value = (
                jackknife(own, one.statistic) if drawn is None else drawn.interval(one.statistic)
            )
            change = jackknife(both, change_of(one.statistic)) if number else None
            if logarithmic:
                value, change = _factor(value), None if change is None else _factor(change)
            p_value = adjusted[one.measure][number - 1] if number and one.tested else np.nan
            named = {
                "measure": one.measure,
                "query_language": one.query,
                "document_language": one.document,
            }
            numbers = {
                **columns_of(value),
                **columns_of(change, "change_"),
                "p_value": float(p_value),
            }
            found.append({**asdict(arm), **named, **numbers})
    return found


def _factor(found: Interval) -> Interval:
    """The interval of a difference of logarithms as one of a ratio."""
    return Interval(*np.exp([found.estimate, found.low, found.high]).tolist())
