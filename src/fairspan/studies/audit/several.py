"""Several audits: changes on the same documents, and profiles on common axes."""

from collections.abc import Sequence

from fairspan.report.table import Table
from fairspan.report.view import Section
from fairspan.runs.log import RunLog
from fairspan.runs.sides import pairs_to_compare
from fairspan.studies.audit.charts import Shown, profile_section, switch_of
from fairspan.studies.audit.comparison import compare_sides
from fairspan.studies.audit.frames import change_frame, coefficient_change_frame
from fairspan.studies.audit.tables import change_table, coefficient_change_table


def compare(first: RunLog, second: RunLog | None, treatments: Sequence[str] | None = None) -> list[Table]:
    """What changes between treatments of one run or between two runs, on the same documents.

    Without names every treatment of one run is compared with its first, and of two runs each treatment that both
    have. For each measure there is a table of the spread between positions, which is brief, and one of coefficients.
    """
    pairs = pairs_to_compare(first, second, treatments)
    found = [one for pair in pairs for one in compare_sides(*pair)]
    changes, coefficients = change_frame(found), coefficient_change_frame(found)
    tables = []
    for measure in coefficients["measure"].unique(maintain_order=True):
        if len(changes) and measure in set(changes["measure"]):
            tables.append(change_table(changes, measure, brief=True))
        tables.append(coefficient_change_table(coefficients, measure, brief=not len(changes)))
    return tables


def together(logs: Sequence[tuple[str, RunLog]]) -> tuple[tuple[str, ...], tuple[Section, ...]]:
    """The profiles of several runs, each with a label, on common axes, and the switch that they need."""
    shown = []
    for label, log in logs:
        positions = {name: frame for name, frame in log.view.frames.items() if name != "attention"}
        shown.append(Shown(log.model, positions, label))
    measures = dict.fromkeys(measure for one in shown for measure in one.measures)
    return switch_of(shown), tuple(profile_section(shown, measure) for measure in measures)
