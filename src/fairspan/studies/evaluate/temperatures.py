"""A grid of temperatures of queries and documents, as a pivot table and a heat map."""

from collections import defaultdict

from fairspan.calibration.calibration import Calibration, temperature_of
from fairspan.calibration.treatment import Treatment
from fairspan.report.chart import HeatCell, HeatMap
from fairspan.report.frames import interval
from fairspan.report.table import Cell, Column, Row, Table
from fairspan.report.text import number
from fairspan.report.view import Section
from fairspan.runs.log import RunLog
from fairspan.studies.evaluate.charts import Shown

# A treatment, the same on documents only and the plain model are three pairs, and no grid.
_LEAST = 4
_INTRO = (
    "The first metric by the softmax temperature of queries (rows) and of documents (columns). The "
    "best of many pairs looks better than it is: choose on other queries than you report."
)
Pair = tuple[float, float]


def grid_of(log: RunLog) -> dict[str, Pair]:
    """The temperatures of queries and documents by treatment; empty if there is no grid."""
    grids: dict[object, dict[str, Pair]] = defaultdict(dict)
    for entry in log.spec["treatments"]:
        treatment = Treatment.from_dict(entry)
        rest = treatment.calibration.but(temperature=1.0, sides="both")
        if treatment.name in log.measured and not (
            rest.acts and treatment.calibration.sides != "both"
        ):
            base = (rest if rest.acts else None, treatment.baseline, treatment.by_segments)
            pair = (_at(treatment.for_queries), _at(treatment.for_documents))
            # Of treatments that are the same, the first counts.
            if pair not in grids[base].values():
                grids[base][treatment.name] = pair
    largest = max(grids.values(), key=len)
    sides = [set(side) for side in zip(*largest.values(), strict=True)]
    is_grid = len(largest) >= _LEAST and all(len(side) > 1 for side in sides)
    return largest if is_grid else {}


def _at(calibration: Calibration) -> float:
    return temperature_of(calibration.temperature, "document")


def grid_section(shown: Shown) -> Section:
    """The heat map of changes, and scores with changes as a pivot table."""
    frame = shown.frame("temperatures")
    metric = frame["metric"][0]
    first = shown.arms[0]
    names = {side: sorted(set(frame[f"{side}_temperature"])) for side in ("query", "document")}
    rows = {
        (row["query_temperature"], row["document_temperature"]): row for row in frame.to_dicts()
    }
    table = []
    cells = []
    for query in names["query"]:
        measured = [rows.get((query, document)) for document in names["document"]]
        head = f"q {query:g}"
        table.append(Row((head,), tuple(Cell(_words(row)) for row in measured)))
        cells.append((head, tuple(HeatCell((_change(row),)) if row else None for row in measured)))
    columns = tuple(f"d {document:g}" for document in names["document"])
    title = f"{metric} by temperature of queries and documents"
    pivot = Table(
        "temperatures",
        f"{title} ({shown.where})",
        ("",),
        tuple(map(Column, columns)),
        tuple(table),
        frame,
        notes=(f"in brackets: difference from {first}",),
        brief=True,
    )
    heat = HeatMap(
        "temperatures",
        f"Change of {metric} by temperature",
        "query",
        columns,
        tuple(cells),
        "temperature of documents",
        "temperature of queries",
        subtitle=shown.where,
        form="+.3f",
    )
    return Section("Temperatures of queries and documents", _INTRO, heats=(heat,), tables=(pivot,))


def _change(row: dict[str, object]) -> float:
    """The change against the baseline, which is its own 0."""
    return interval(row, "change_").estimate or 0.0


def _words(row: dict[str, object] | None) -> str:
    """A score, and its difference from the baseline."""
    if row is None:
        return ""
    score = number(interval(row).estimate)
    change = interval(row, "change_").estimate
    return score if change is None else f"{score} ({number(change, '+.3f')})"
