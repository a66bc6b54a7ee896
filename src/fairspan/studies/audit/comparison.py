"""Two treatments on the same documents, from one run or from two: what changes, and whether that is a loss."""

from collections import Counter
from collections.abc import Iterator, Sequence

import polars as pl

from fairspan.errors import FairspanError
from fairspan.report.frames import columns_of, frame_of, interval, values_of
from fairspan.report.table import Table
from fairspan.report.text import number, with_bounds
from fairspan.runs.arms import Arm, Change, pairs_to_compare
from fairspan.runs.log import RunLog
from fairspan.stats.equivalence import LossKind, judge_loss
from fairspan.stats.positions import (
    difference_weights,
    position_effects,
    size_changes,
    spread,
    spread_change,
)
from fairspan.studies.audit.languages import MIXED, effects_of, pairs_of, plans_of
from fairspan.studies.audit.measures import (
    POSITION_MEASURES,
    Family,
    Record,
    Settings,
    contrast,
    symbol,
    with_codes,
)
from fairspan.studies.audit.tables import change_table

_FAMILY = ["measure", "n", "lead", "later"]
# A document is the same in two runs if it has the same segments at the same positions.
_PLACE = ["set", "order", "position", "segment", "language"]
_COLUMNS = ("value", "value_second", "position", "set", "segment")
_ORDER: tuple[LossKind, ...] = ("worse", "inconclusive", "not worse", "fairer")

Sides = tuple[Arm, Arm]


def compare(
    first: RunLog, second: RunLog | None, treatments: Sequence[str] | None = None
) -> list[Table]:
    """What changes between treatments of one run or between two runs, on the same documents.

    Without names every treatment of one run is compared with its first, and of two runs each treatment that both
    have. For each measure there is a table of the spread between positions, which is brief, and one of coefficients.
    """
    pairs = pairs_to_compare(first, second, treatments)
    found = [compare_sides(*pair) for pair in pairs]
    frames = {
        "changes": frame_of(one for spreads, _ in found for one in spreads),
        "coefficient-changes": frame_of(one for _, coefficients in found for one in coefficients),
        "language-changes": frame_of(one for pair in pairs for one in compare_languages(*pair)),
    }
    tables = []
    for measure in values_of(frames["coefficient-changes"], "measure"):
        for kind, frame in frames.items():
            brief = kind != "coefficient-changes" or frames["changes"].is_empty()
            if len(frame) and measure in set(frame["measure"]):
                tables.append(change_table(kind, frame, measure, brief=brief))
    return tables


def changes(
    first: RunLog,
    second: RunLog | None,
    treatments: Sequence[str] | None = None,
    margin: float | None = None,
) -> list[Change]:
    """Whether the spread between positions grows, in any family of documents, pair by pair and measure by measure.

    And whether two languages of mixed documents come further apart.
    """
    allowed = float(first.spec["margin"]) if margin is None else margin
    found = []
    for sides in pairs_to_compare(first, second, treatments):
        spreads, _ = compare_sides(*sides, familywise=True)
        for compared in (spreads, compare_languages(*sides, familywise=True)):
            own: dict[str, list[Record]] = {}
            for one in compared:
                own.setdefault(one["measure"], []).append(one)
            found += [_worst_change(sides, records, allowed) for records in own.values()]
    return found


def _worst_change(sides: Sides, found: Sequence[Record], allowed: float) -> Change:
    """The comparison that decides: worse before inconclusive, not worse and fairer, then the one that loses most.

    Families lose in their spread, pairs of languages in how far they are apart.
    """
    languages = "against" in found[0]
    size = "absolute_change_" if languages else "change_"
    judged = [
        (judge_loss(one[f"{size}low"], one[f"{size}high"], allowed, "fairer"), one) for one in found
    ]
    kind, worst = min(judged, key=lambda one: (_ORDER.index(one[0]), -one[1][f"{size}estimate"]))
    change, measure = with_bounds(interval(worst, size), "+.3f"), worst["measure"]
    if languages:
        before, after = (number(worst[f"{side}_estimate"], "+.3f") for side in ("first", "second"))
        words = f"{measure} of {worst['language']} against {worst['against']} {before} → {after} (size {change})"
        where = f", n={worst['n']}" if len({one["n"] for one in found}) > 1 else ""
        which = f"{where}, the worst of {len(found)} comparisons of languages"
    else:
        before, after = (number(worst[f"{side}_spread"]) for side in ("first", "second"))
        words = f"spread of {measure} {before} → {after} ({change})"
        which = f" for {worst['plan']}, n={worst['n']}, the worst of {len(found)} families"
    return Change(
        *sides, measure, kind, words + (which if len(found) > 1 else ""), languages=languages
    )


def compare_sides(
    first: Arm, second: Arm, *, familywise: bool = False
) -> tuple[list[Record], list[Record]]:
    """What changes from the first side to the second, in every family of documents that both have.

    What the two share, such as how central a segment is to its set, cancels row by row.

    Args:
        familywise: lower limits of changes of spread hold together for all families of a measure, for a claim about
            the worst of them. That none is worse needs no correction, because all must pass.

    Returns:
        the spread between the positions that are compared, before and after, of families with more than one of them;
        and every coefficient on both sides with its change, and that of the mean.
    """
    joined, settings = _joined(first, second), Settings.of(first.log)
    parts = with_codes(joined, "segment").partition_by(_FAMILY, as_dict=True, maintain_order=True)
    families = (
        Counter(family[0] for family in parts if Family(*family).comparisons)
        if familywise
        else Counter()
    )
    spreads, coefficients = list[Record](), list[Record]()
    for family, rows in parts.items():
        own = Family(*family)
        one, two, positions, sets, segments = (rows[name].to_numpy() for name in _COLUMNS)
        before, after, change = (
            position_effects(values, positions, sets, segments, inference=settings.inference)
            for values in (one, two, two - one)
        )
        sizes = {"sets": after.sets, "documents": rows["document"].n_unique()}
        names = {"measure": own.measure, **_side_names((first, second)), **own.labels, **sizes}
        for place in range(own.n):
            coefficients.append(
                {
                    **names,
                    "position": place + 1,
                    "coefficient": symbol(place + 1),
                    "first_estimate": float(before.estimate[place]),
                    "second_estimate": float(after.estimate[place]),
                    **contrast(change[place], "change_"),
                    **contrast(change.means[place], "mean_change_"),
                    "inference": after.robust.inference,
                }
            )
        if own.comparisons:
            start = own.first_compared
            kept = positions >= start
            compared = (
                one[kept],
                two[kept],
                positions[kept] - start + 1,
                sets[kept],
                segments[kept],
            )
            together = max(1, families[own.measure])
            grown = spread_change(*compared, inference=settings.inference, families=together)
            spreads.append(
                {
                    **names,
                    "from_position": start,
                    "first_spread": float(spread(before.means.estimate[start - 1 :])),
                    "second_spread": float(spread(after.means.estimate[start - 1 :])),
                    **columns_of(grown, "change_"),
                    "p_value": change.robust.joint(difference_weights(own.n, start)),
                    "inference": after.robust.inference,
                }
            )
    return spreads, coefficients


def gains(first: Arm, second: Arm) -> Iterator[Record]:
    """What position 1 and the later positions gain or lose in each measure, over all documents that both have."""
    own = ["measure", "n", "set", "segment", pl.col("position").clip(upper_bound=2)]
    groups = with_codes(_joined(first, second), "segment").group_by(own, maintain_order=True)
    means, how = (
        groups.agg(pl.col("value", "value_second").mean()),
        Settings.of(first.log).inference,
    )
    for (measure,), rows in means.partition_by(
        "measure", as_dict=True, maintain_order=True
    ).items():
        one, two, *where = (rows[name].to_numpy() for name in _COLUMNS)
        found = [
            position_effects(values, *where, inference=how).means
            for values in (one, two, two - one)
        ]
        for place, name in enumerate(("position 1", "later positions")):
            before, after, change = (own[place] for own in found)
            ends = {"first_estimate": before.estimate, "second_estimate": after.estimate}
            names = {"measure": measure, **_side_names((first, second)), "positions": name}
            yield {**names, **ends, **contrast(change, "change_")}


def gain_words(found: Sequence[Record]) -> str:
    """The gains of one measure in words; what may be chance is called neither a gain nor a loss."""
    parts = []
    for one, ending in zip(found, ("s", ""), strict=True):
        verb = "gain" if one["change_low"] > 0 else "lose" if one["change_high"] < 0 else ""
        said = (
            f"{verb}{ending} {number(abs(one['change_estimate']))}"
            if verb
            else f"show{ending} no clear change"
        )
        ends = " → ".join(number(one[f"{side}_estimate"]) for side in ("first", "second"))
        parts.append(f"{one['positions']} {said} ({ends})")
    return f"against {found[0]['first_treatment']}, {' and '.join(parts)}"


def compare_languages(first: Arm, second: Arm, *, familywise: bool = False) -> list[Record]:
    """The difference of every two languages of mixed documents on both sides, for every size that both have.

    `change_` is of the difference, second minus first; `absolute_change_` of its absolute value, negative where the
    second side is fairer. `familywise` as in `compare_sides`.
    """
    joined, settings = _joined(first, second).filter(MIXED), Settings.of(first.log)
    parts = with_codes(joined, "segment").partition_by(
        "measure", "n", as_dict=True, maintain_order=True
    )
    plans = {group: plans_of(part) for group, part in parts.items()}
    pairs = {group: pairs_of(own) for group, own in plans.items()}
    found = []
    for (measure, n), rows in parts.items():
        if not pairs[measure, n]:
            continue
        together = (
            sum(count for (other, _), count in pairs.items() if other == measure)
            if familywise
            else 1
        )
        one, two = (rows[name].to_numpy() for name in ("value", "value_second"))
        effects = [
            effects_of(rows, own, plans[measure, n], settings) for own in (one, two, two - one)
        ]
        was, now, change = (own.differences() for own in effects)
        absolute = size_changes(was, now, change, together)
        sizes = {"n": n, "sets": effects[0].model.sets, "documents": rows.height // n}
        for place, (language, against) in enumerate(effects[0].pairs):
            found.append(
                {
                    "measure": measure,
                    **_side_names((first, second)),
                    **sizes,
                    "language": language,
                    "against": against,
                    "first_estimate": float(was.estimate[place]),
                    "second_estimate": float(now.estimate[place]),
                    **contrast(change[place], "change_"),
                    **columns_of(absolute[place], "absolute_change_"),
                    "inference": effects[0].model.robust.inference,
                }
            )
    return found


def _joined(first: Arm, second: Arm) -> pl.DataFrame:
    """The rows that both sides have."""
    measured = pl.col("measure").is_in(list(POSITION_MEASURES))
    before, after = (
        one.log.rows.filter(measured & (pl.col("treatment") == one.treatment))
        for one in (first, second)
    )
    joined = before.join(after, on=_FAMILY + _PLACE, suffix="_second", maintain_order="left")
    if joined.is_empty():
        raise FairspanError(
            f"{first} and {second} have no document in common: paired differences need the same corpus, languages, "
            "sizes, design and seed."
        )
    return joined


def _side_names(sides: Sides) -> Record:
    return {
        f"{which}_{what}": value
        for which, side in zip(("first", "second"), sides, strict=True)
        for what, value in (
            ("run", side.log.run),
            ("model", side.log.model),
            ("treatment", side.treatment),
        )
    }
