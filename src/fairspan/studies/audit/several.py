"""Several audits: changes on the same documents, and profiles on common axes."""

from collections.abc import Sequence

from fairspan.report.table import Table
from fairspan.report.text import number, with_bounds
from fairspan.report.view import Section
from fairspan.runs.log import RunLog
from fairspan.runs.sides import Change, Side, pairs_to_compare
from fairspan.stats.bootstrap import Interval
from fairspan.stats.loss import LossKind, judge_loss
from fairspan.studies.audit.charts import Shown, measure_sections, switch_of
from fairspan.studies.audit.comparison import Comparison, LanguageComparison, compare_languages, compare_sides
from fairspan.studies.audit.frames import change_frame, coefficient_change_frame, language_change_frame
from fairspan.studies.audit.language_tables import language_change_table
from fairspan.studies.audit.tables import change_table, coefficient_change_table

_ORDER: tuple[LossKind, ...] = ("worse", "inconclusive", "not worse")


def compare(first: RunLog, second: RunLog | None, treatments: Sequence[str] | None = None) -> list[Table]:
    """What changes between treatments of one run or between two runs, on the same documents.

    Without names every treatment of one run is compared with its first, and of two runs each treatment that both
    have. For each measure there is a table of the spread between positions, which is brief, and one of coefficients.
    """
    pairs = pairs_to_compare(first, second, treatments)
    found = [one for pair in pairs for one in compare_sides(*pair)]
    changes, coefficients = change_frame(found), coefficient_change_frame(found)
    languages = language_change_frame([one for pair in pairs for one in compare_languages(*pair)])
    tables = []
    for measure in coefficients["measure"].unique(maintain_order=True):
        if len(changes) and measure in set(changes["measure"]):
            tables.append(change_table(changes, measure, brief=True))
        tables.append(coefficient_change_table(coefficients, measure, brief=not len(changes)))
        if len(languages) and measure in set(languages["measure"]):
            tables.append(language_change_table(languages, measure))
    return tables


def changes(
    first: RunLog, second: RunLog | None, treatments: Sequence[str] | None = None, margin: float | None = None
) -> list[Change]:
    """Whether the spread between positions grows, in any family of documents, pair by pair and measure by measure.

    And whether two languages of mixed documents come further apart.
    """
    allowed = float(first.spec["margin"]) if margin is None else margin
    found = []
    for sides in pairs_to_compare(first, second, treatments):
        families = [one for one in compare_sides(*sides, familywise=True) if one.comparisons]
        for measure in dict.fromkeys(one.measure for one in families):
            judged = [
                (judge_loss(s.low, s.high, allowed), one)
                for one in families
                if one.measure == measure
                for s in [one.paired.spread]
            ]
            found.append(_worst_change(sides, judged))
        spoken = compare_languages(*sides, familywise=True)
        found += [
            _worst_language_change(sides, [one for one in spoken if one.measure == measure], allowed)
            for measure in dict.fromkeys(one.measure for one in spoken)
        ]
    return found


def _worst_language_change(sides: tuple[Side, Side], found: Sequence[LanguageComparison], allowed: float) -> Change:
    """The pair of languages that decides, as the family does for positions: by how far they are apart."""
    judged = [
        (judge_loss(float(one.absolute.low[place]), float(one.absolute.high[place]), allowed), one, place)
        for one in found
        for place in range(len(one.absolute))
    ]
    kind, worst, place = min(judged, key=lambda one: (_ORDER.index(one[0]), -one[1].absolute.estimate[one[2]]))
    language, against = worst.before.pairs[place]
    before, after = (number(one.differences().estimate[place], "+.3f") for one in (worst.before, worst.after))
    sizes = worst.absolute
    size = Interval(float(sizes.estimate[place]), float(sizes.low[place]), float(sizes.high[place]))
    words = f"{worst.measure} of {language} against {against} {before} → {after} (size {with_bounds(size, '+.3f')})"
    if len(judged) > 1:
        where = f", n={worst.n}" if len(found) > 1 else ""
        words += f"{where}, the worst of {len(judged)} comparisons of languages"
    return Change(*sides, worst.measure, kind, words, languages=True)


def _worst_change(sides: tuple[Side, Side], judged: Sequence[tuple[LossKind, Comparison]]) -> Change:
    """The family that decides: worse before inconclusive before not worse, then the one that loses most."""
    kind, worst = min(judged, key=lambda one: (_ORDER.index(one[0]), -one[1].paired.spread.estimate))
    before, after = (number(one) for one in worst.spreads)
    words = f"spread of {worst.measure} {before} → {after} ({with_bounds(worst.paired.spread, '+.3f')})"
    if len(judged) > 1:
        words += f" for {worst.plan}, n={worst.n}, the worst of {len(judged)} families"
    return Change(*sides, worst.measure, kind, words)


def together(logs: Sequence[tuple[str, RunLog]]) -> tuple[tuple[str, ...], tuple[Section, ...]]:
    """The profiles of several runs, each with a label, on common axes, and the switch that they need."""
    shown = []
    for label, log in logs:
        positions = {name: frame for name, frame in log.view.frames.items() if name != "attention"}
        shown.append(Shown(log.model, positions, label))
    measures = dict.fromkeys(measure for one in shown for measure in one.measures)
    sections = [section for measure in measures for section in measure_sections(shown, measure)]
    return switch_of(shown), tuple(sections)
