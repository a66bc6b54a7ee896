"""The tables of an evaluation: advice, quality, quality by position and by length, costs, and temperatures."""

from collections.abc import Sequence

import polars as pl

from fairspan.report.table import Cell, Column, Row, Table, Tone, row
from fairspan.studies.evaluate.findings import Findings
from fairspan.studies.evaluate.summary import RANK
from fairspan.studies.evaluate.temperature_grid import TemperatureGrid

ARMS = "documents and queries"
CHANGE = "change [95 %]"
TEST = "p: randomisation test over clusters of queries, Holm-corrected over the arms"
PSI = "PSI: 1 − smallest/largest mean of a position; harmonic: the harmonic mean of the positions' means"
PSI_OF_PAIRS = PSI.replace("a position", "a pair of languages").replace("positions'", "pairs'")
TONES: dict[str, Tone] = {"gain": "good", "loss": "bad", "": "plain"}


def advice_table(found: Findings) -> Table:
    """What to do with each treatment."""
    rows = []
    for one in found.advice:
        words, tone = one.badge
        rows.append(row(one.treatment, cells=[Cell(words, tone=tone), one.sentence]))
    columns = (Column("advice", align="left"), Column("because", align="wrap"))
    title = f"What to do ({found.where})"
    frame, notes = found.frames["verdicts"], tuple(found.log.notes)
    return Table("advice", title, ("treatment",), columns, tuple(rows), frame, notes=notes)


def quality_table(found: Findings, plans: Sequence[str] = ("",)) -> Table:
    """Every arm over all queries or for each language plan: the first metric with its change, means of the others."""
    summary, by_plan = found.summary, bool(plans[0])
    first, *others = summary.metrics
    positions = any(summary.result(summary.baseline, first, plan).groups for plan in plans)
    columns = [Column(heading, first) for heading in ("mean", CHANGE, "p")]
    columns += [Column(heading, first) for heading in ("PSI", "harmonic")] if positions else []
    columns += [Column(metric) for metric in others]
    rows = []
    for plan in plans:
        for arm in summary.arms:
            result = summary.result(arm, first, plan)
            cells: list[Cell | str | None] = [Cell(result.effects.overall.estimate), None, None]
            if result.change is not None:
                cells[1:] = [Cell(result.change.overall, "+.3f"), Cell(result.p_value, "p")]
            if positions:
                cells += [Cell(result.effects.psi.estimate, ".2f"), Cell(result.effects.harmonic.estimate)]
            cells += [Cell(summary.result(arm, metric, plan).effects.overall.estimate) for metric in others]
            rows.append(row(*([plan] if plan else []), str(arm), cells=cells))
    psi = PSI if found.languages is None else PSI_OF_PAIRS
    notes = ((TEST,) if len(summary.arms) > 1 else ()) + ((psi,) if positions else ())
    return Table(
        "quality-by-plan" if by_plan else "quality",
        f"Search{', by language plan' if by_plan else ''} ({found.where})",
        ("plan", ARMS) if by_plan else (ARMS,),
        tuple(columns),
        tuple(rows),
        found.frame("quality", pl.col("plan").is_in(plans)),
        grouped=int(by_plan),
        notes=notes,
        brief=not by_plan,
    )


def position_table(found: Findings, plans: Sequence[str] = ("",)) -> Table:
    """The first metric at each position of the evidence and its change, over all queries or for each plan."""
    summary, by_plan = found.summary, bool(plans[0])
    rows = []
    for plan in plans:
        for arm in summary.arms:
            result = summary.result(arm, plan=plan)
            heads = (*([plan] if plan else []), str(arm))
            for group, count, mean, change in result.by_group:
                cells = (Cell(count, ",d"), Cell(mean), Cell("" if change is None else change, "+.3f"))
                rows.append(Row((*heads, group), cells))
    unit = "segment" if found.log.header["task"]["positions"] == "segments" else "fifth"
    return Table(
        "positions-by-plan" if by_plan else "positions",
        f"{summary.metrics[0]} by {'language plan and ' if by_plan else ''}position of the evidence ({found.where})",
        ("plan", ARMS, unit) if by_plan else (ARMS, unit),
        (Column("queries"), Column("mean [95 %]"), Column(CHANGE)),
        tuple(rows),
        found.frame("positions", pl.col("plan").is_in(plans)),
        grouped=1 + by_plan,
    )


def tokens_before_table(found: Findings) -> Table | None:
    """The first metric by the number of tokens before the evidence; None where that is not known."""
    results = found.summary.tokens_before
    if not results:
        return None
    names = list(dict.fromkeys(name for one in results for name in one.groups))
    rows = []
    for one in results:
        means = dict(zip(one.groups, one.effects.groups, strict=True))
        rows.append(row(str(one.arm), cells=[Cell(means[n].estimate) if n in means else None for n in names]))
    title = f"{results[0].metric} by tokens before the evidence ({found.where})"
    columns, frame = tuple(Column(name) for name in names), found.frame("tokens_before")
    notes = ("queries: " + ", ".join(f"{name}: {count}" for name, count, *_ in results[0].by_group),)
    brief = found.log.header["task"]["positions"] == "fifths"
    return Table("tokens-before", title, (ARMS,), columns, tuple(rows), frame, notes=notes, brief=brief)


def length_table(found: Findings, *, brief: bool = False) -> Table:
    """The shortest and longest queries, and the ranks of the longest documents."""
    rows, names = [], list(dict.fromkeys(one.group for one in found.lengths))
    for one in sorted(found.lengths, key=lambda one: names.index(one.group)):
        digits = ".1f" if one.measure == RANK else ".3f"
        measure = "mean rank" if one.measure == RANK else one.measure
        words = f"{measure} of the {one.group} ({one.count} of {one.tokens[0]}–{one.tokens[1]} tokens)"
        change = Cell("" if one.change is None else one.change, f"+{digits}")
        rows.append(row(words, str(one.arm), cells=[Cell(one.value.estimate, digits), change]))
    columns = (Column("mean"), Column(CHANGE))
    heads, frame = ("measure", ARMS), found.frame("by_length")
    title = f"Search by length ({found.where})"
    return Table("by-length", title, heads, columns, tuple(rows), frame, grouped=1, brief=brief)


def cost_table(found: Findings) -> Table:
    """What each index costs, and what it finds."""
    summary = found.summary
    rows = []
    for arm in summary.arms:
        cost = summary.cost(arm)
        cells: list[Cell | str | None] = [
            Cell(cost["vectors"] / cost["searched_documents"], ".1f"),
            Cell(cost["bytes"] / 2**20, ".1f"),
            Cell(cost["tokens"], ",d"),
            Cell("stored") if cost["seconds"] is None else Cell(cost["seconds"], ".0f", "~" * cost["estimated"]),
            Cell(summary.result(arm).effects.overall.estimate),
        ]
        rows.append(row(str(arm), cells=cells))
    names = ("vectors per document", "MiB", "tokens read", "seconds", summary.metrics[0])
    columns, title = tuple(Column(name) for name in names), f"What an index costs ({found.where})"
    notes = ("seconds: to embed the documents; stored: not embedded in this run; ~: from another index's speed",)
    brief, frame = len({arm.index for arm in summary.arms}) > 1, found.frame("costs")
    return Table("index-costs", title, (ARMS,), columns, tuple(rows), frame, notes=notes, brief=brief)


def grid_table(found: Findings, grid: TemperatureGrid) -> Table:
    """Every pair of a query's and a document's temperature."""
    rows = []
    for cell in grid.cells:
        change = Cell("" if cell.change is None else cell.change, "+.3f", tone=TONES[cell.settled])
        p_value = Cell("" if cell.change is None else cell.p_value, "p")
        rows.append(Row((f"{cell.query:g}", f"{cell.document:g}"), (Cell(cell.value), change, p_value)))
    name, title = "temperature-grid", f"{grid.metric} by the temperature of queries and documents ({found.where})"
    columns = (Column(f"{grid.metric} [95 %]"), Column(CHANGE), Column("p"))
    heads, frame = ("query", "document"), found.frames["temperature_grid"]
    notes = (f"change: from the pair (1, 1), which is {grid.base}", TEST)
    return Table(name, title, heads, columns, tuple(rows), frame, grouped=1, notes=notes, brief=True)
