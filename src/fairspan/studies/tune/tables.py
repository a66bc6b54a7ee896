"""The tables of a tuning: the figures of the report part, the candidates, the tests, the costs, the parts."""

import polars as pl

from fairspan.report.table import Cell, Column, Row, Table, Tone, row
from fairspan.report.text import number
from fairspan.studies.tune.decision import PLAIN, REFERENCE, TUNE, Measured
from fairspan.studies.tune.findings import Findings
from fairspan.studies.tune.words import Fate


def report_table(found: Findings) -> Table:
    """The plain model, the candidate and the reference on the report part of each task."""
    rows: list[Row] = []
    groups = found.has_groups
    for task in dict.fromkeys(one.task for one in found.decision.reported):
        own = [one for one in found.decision.reported if one.task == task]
        cells: list[Cell | str | None] = [Cell(own[0].before), None]
        cells += [Cell(own[0].psi_before, ".2f"), None] if groups else []
        rows.append(row(task, PLAIN, cells=[*cells, Cell(own[0].clusters, ",d")]))
        for one in own:
            cells = [Cell(one.after), Cell(one.gain.interval(), "+.3f")]
            cells += [Cell(one.psi_after, ".2f"), Cell(one.psi_change.interval(), "+.2f")] if groups else []
            rows.append(row(task, one.name, cells=[*cells, Cell(one.clusters, ",d")]))
    columns = [Column(found.metric), Column("change [95 %]")]
    columns += [Column("PSI"), Column("change of PSI [95 %]")] if groups else []
    columns.append(Column("clusters"))
    notes = (f"{REFERENCE}: {found.said[REFERENCE]}, embedded by the plain model",)
    heads, frame = ("task", "treatment"), found.frames.get("report", pl.DataFrame())
    title = f"On the report part ({found.model})"
    return Table("report", title, heads, tuple(columns), tuple(rows), frame, grouped=1, notes=notes, brief=True)


def candidate_table(found: Findings) -> Table:
    """Every candidate on the part that is tuned on, and what became of it."""
    rows, groups, header = [], found.has_groups, found.header
    plain = found.decision.measured.get(PLAIN)
    for name, one in sorted(found.decision.measured.items(), key=_order):
        cells: list[Cell | str | None] = [
            Cell(one.quality),
            None if one is plain else Cell(one.gain.interval(), "+.3f"),
        ]
        cells += [Cell(one.unfairness, ".2f")] if groups else []
        cells += [Cell(header["changes"].get(name), ".3f"), Cell(header["times"].get(name), ".2f")]
        cells += [Cell(one.clusters, ",d")]
        fate = found.fates.get(name, Fate("baseline" if one is plain else "reference", ""))
        tone: Tone = "good" if fate.kind == "chosen" else "plain"
        cells += [Cell(fate.kind, tone=tone), fate.why]
        rows.append(row(name, cells=cells))
    missing = [(name, fate) for name, fate in found.fates.items() if name not in found.decision.measured]
    for name, fate in missing:
        empty: list[Cell | str | None] = [None] * (6 if groups else 5)
        rows.append(row(name, cells=[*empty, fate.kind, fate.why]))
    columns = [Column(found.metric), Column("change [95 %]"), *([Column("PSI")] if groups else [])]
    columns += [Column("moved"), Column("time"), Column("clusters")]
    columns += [Column("outcome", align="left"), Column("because", align="wrap")]
    notes = (
        "moved: mean cosine distance from the plain model's vectors; time: relative to the plain model",
        "change: on the same queries, not corrected for the number of candidates",
        "of candidates on fewer clusters only the changes can be compared: smaller indexes are easier to search",
    )
    title = f"Candidates on the part that is tuned on ({found.model})"
    frame = found.frames["candidates"]
    return Table("candidates", title, ("treatment",), tuple(columns), tuple(rows), frame, notes=notes, brief=True)


def guard_table(found: Findings) -> Table:
    """The tests on the guard part, in their order."""
    rows = []
    for one in found.decision.tested:
        what = found.metric if one.claim == "quality" else "fall of PSI"
        for task, change in one.changes.items():
            gained, above = (number(value, "+.3f") for value in (one.gain.estimate, one.gain.lower(one.level)))
            cells = [
                Cell(f"{what}: {gained}, above {above}"),
                Cell(change.estimate, "+.3f"),
                Cell(change.lower(one.level), "+.3f"),
                Cell(one.clusters[task], ",d"),
                Cell(f"{one.level:.1%}"),
                Cell("passed" if one.finding == "use" else one.finding),
            ]
            rows.append(Row((one.name, task), tuple(cells)))
    names = ("gain", f"change of {found.metric}", "lower bound", "clusters", "level", "outcome")
    columns = tuple(Column(name, align="left" if name in ("gain", "outcome") else "right") for name in names)
    notes = (f"lower bounds are one-sided; a loss below ε = {found.log.spec['epsilon']:g} counts as none",)
    title, frame = "Tests on the guard part", found.frames.get("tests", pl.DataFrame())
    return Table("tests", title, ("treatment", "task"), columns, tuple(rows), frame, grouped=1, notes=notes)


def part_table(found: Findings) -> Table:
    """Clusters, queries and documents of every part."""
    rows = []
    for task in found.header["tasks"]:
        for part, own in task["parts"].items():
            cells = [Cell(own[name], ",d") for name in ("clusters", "queries", "documents")]
            rows.append(Row((task["name"], part), tuple(cells)))
    columns = tuple(Column(name) for name in ("clusters", "queries", "documents"))
    notes = (f"seed {found.log.spec['seed']}; clusters of queries share documents or texts",)
    return Table(
        "parts", "Parts", ("task", "part"), columns, tuple(rows), found.frames["parts"], grouped=1, notes=notes
    )


def cost_table(found: Findings) -> Table:
    """What an index costs with the plain model, with the candidate that was looked at, and of the reference."""
    rows, decision = [], found.decision
    shown = {PLAIN: (PLAIN, "whole"), REFERENCE: (PLAIN, REFERENCE)}
    if decision.looked_at:
        shown[decision.looked_at] = (decision.looked_at, "whole")
    for name, arm in shown.items():
        own = [
            one for one in found.header["costs"] if one["split"] == TUNE and (one["treatment"], one["index"]) == arm
        ]
        if own:
            vectors, size, documents = (
                sum(one[key] for one in own) for key in ("vectors", "bytes", "searched_documents")
            )
            time = 1.0 if name == PLAIN else found.header["times"].get(name)
            cells = [Cell(time, ".2f"), Cell(vectors / documents, ".1f"), Cell(size / documents / 1024, ".1f")]
            rows.append(Row((name,), tuple(cells)))
    columns = (Column("time to embed"), Column("vectors per document"), Column("KiB per document"))
    notes = ("time: relative to the plain model on this machine",)
    frame = found.frames.get("costs", pl.DataFrame())
    return Table("costs", f"Costs ({found.model})", ("treatment",), columns, tuple(rows), frame, notes=notes)


def _order(item: tuple[str, Measured]) -> tuple[int, int, float]:
    """The plain model, then candidates from the last round to the first, the best first, then the reference."""
    name, one = item
    return (-1 if name == PLAIN else int(name == REFERENCE), one.rounds_left, -one.quality)
