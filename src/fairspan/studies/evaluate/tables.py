"""The tables of an evaluation: advice, quality, quality by position and by length, costs, and temperatures."""

from collections.abc import Sequence

import polars as pl

from fairspan.report.table import Cell, Column, Row, Table, Tone, row
from fairspan.studies.evaluate.advice import BADGES
from fairspan.studies.evaluate.by_length import RANK
from fairspan.studies.evaluate.findings import Findings
from fairspan.studies.evaluate.summary import Result
from fairspan.studies.evaluate.temperature_grid import TemperatureGrid

ARMS = "documents and queries"
CHANGE = "change [95 %]"
TEST = "p: randomisation test over clusters of queries, Holm-corrected over the arms"
PSI = "PSI: 1 − smallest/largest mean of a position; harmonic: the harmonic mean of the positions' means"
TONES: dict[str, Tone] = {"gain": "good", "loss": "bad", "": "plain"}


def advice_table(found: Findings) -> Table:
    """What to do with each treatment."""
    rows = []
    for one in found.advice:
        words, tone = BADGES[one.kind]
        rows.append(row(one.treatment, cells=[Cell(words, tone=tone), one.sentence]))
    columns = (Column("advice", align="left"), Column("because", align="wrap"))
    title = f"What to do ({found.where})"
    frame, notes = found.frames["verdicts"], tuple(found.log.notes)
    return Table("advice", title, ("treatment",), columns, tuple(rows), frame, notes=notes)


def quality_tables(found: Findings) -> list[Table]:
    """Every arm over all queries and, where there are several language plans, for each of them."""
    _, *plans = found.summary.plans
    whole = _quality(found, [""], "quality", brief=True)
    return [whole, *([_quality(found, plans, "quality-by-plan")] if plans else [])]


def _quality(found: Findings, plans: Sequence[str], name: str, *, brief: bool = False) -> Table:
    """The first metric with its change, and the means of the others."""
    summary = found.summary
    first, *others = summary.metrics
    positions = any(summary.result(summary.baseline, first, plan).groups for plan in plans)
    columns = [Column(heading, first) for heading in ("mean", CHANGE, "p")]
    columns += [Column(heading, first) for heading in ("PSI", "harmonic")] if positions else []
    columns += [Column(metric) for metric in others]
    rows = []
    for plan in plans:
        for arm in summary.arms:
            result = summary.result(arm, first, plan)
            cells: list[Cell | str | None] = [Cell(result.effects.overall.estimate), *_changed(result)]
            if positions:
                cells += [Cell(result.effects.psi.estimate, ".2f"), Cell(result.effects.harmonic.estimate)]
            cells += [Cell(summary.result(arm, metric, plan).effects.overall.estimate) for metric in others]
            rows.append(row(*([plan] if plan else []), str(arm), cells=cells))
    notes = ((TEST,) if len(summary.arms) > 1 else ()) + ((PSI,) if positions else ())
    return Table(
        name,
        f"Search{', by language plan' if plans[0] else ''} ({found.where})",
        (*(["plan"] if plans[0] else []), ARMS),
        tuple(columns),
        tuple(rows),
        found.frame("quality", pl.col("plan").is_in(plans)),
        grouped=1 if plans[0] else 0,
        notes=notes,
        brief=brief,
    )


def position_tables(found: Findings) -> list[Table]:
    """The first metric at each position of the evidence with its change; none where positions are not known."""
    if "positions" not in found.frames:
        return []
    _, *plans = found.summary.plans
    return [_positions(found, [""], "positions"), *([_positions(found, plans, "positions-by-plan")] if plans else [])]


def _positions(found: Findings, plans: Sequence[str], name: str) -> Table:
    summary = found.summary
    rows = []
    for plan in plans:
        for arm in summary.arms:
            result = summary.result(arm, plan=plan)
            heads = (*([plan] if plan else []), str(arm))
            changes = [None] * len(result.groups) if result.change is None else result.change.groups
            counts = result.effects.counts.group_queries
            for group, count, mean, change in zip(result.groups, counts, result.effects.groups, changes, strict=True):
                cells = (Cell(count, ",d"), Cell(mean), Cell("" if change is None else change, "+.3f"))
                rows.append(Row((*heads, group), cells))
    unit = "segment" if found.log.header["task"]["positions"] == "segments" else "fifth"
    return Table(
        name,
        f"{summary.metrics[0]} by {'language plan and ' if plans[0] else ''}position of the evidence ({found.where})",
        (*(["plan"] if plans[0] else []), ARMS, unit),
        (Column("queries"), Column("mean [95 %]"), Column(CHANGE)),
        tuple(rows),
        found.frame("positions", pl.col("plan").is_in(plans)),
        grouped=2 if plans[0] else 1,
    )


def tokens_before_table(found: Findings) -> Table | None:
    """The first metric by how many tokens stand before the evidence; None where that is not known."""
    results = found.summary.tokens_before
    if not results:
        return None
    names = list(dict.fromkeys(name for one in results for name in one.groups))
    rows = []
    for one in results:
        means = dict(zip(one.groups, one.effects.groups, strict=True))
        rows.append(row(str(one.arm), cells=[Cell(means[n].estimate) if n in means else None for n in names]))
    counts = zip(results[0].groups, results[0].effects.counts.group_queries, strict=True)
    return Table(
        "tokens-before",
        f"{results[0].metric} by tokens before the evidence ({found.where})",
        (ARMS,),
        tuple(Column(name) for name in names),
        tuple(rows),
        found.frame("tokens_before"),
        notes=("queries: " + ", ".join(f"{name}: {count}" for name, count in counts),),
        brief=found.log.header["task"]["positions"] == "fifths",
    )


def length_table(found: Findings, *, brief: bool = False) -> Table | None:
    """The shortest and longest queries, and the ranks of the longest documents; None where lengths are not known."""
    if not found.lengths:
        return None
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


def cost_table(found: Findings) -> Table | None:
    """What each index costs beside what it finds; None where costs are not known."""
    if "costs" not in found.frames:
        return None
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
    return Table(
        "index-costs",
        f"What an index costs ({found.where})",
        (ARMS,),
        tuple(Column(name) for name in names),
        tuple(rows),
        found.frame("costs"),
        notes=("seconds: to embed the documents; stored: not embedded in this run; ~: from another index's speed",),
        brief=len({arm.index for arm in summary.arms}) > 1,
    )


def grid_table(found: Findings, grid: TemperatureGrid) -> Table:
    """Every pair of a query's and a document's temperature."""
    rows = []
    for cell in grid.cells:
        change = Cell("" if cell.change is None else cell.change, "+.3f", tone=TONES[cell.settled])
        p_value = Cell("" if cell.change is None else cell.p_value, "p")
        rows.append(Row((f"{cell.query:g}", f"{cell.document:g}"), (Cell(cell.value), change, p_value)))
    return Table(
        "temperature-grid",
        f"{grid.metric} by the temperature of queries and documents ({found.where})",
        ("query", "document"),
        (Column(f"{grid.metric} [95 %]"), Column(CHANGE), Column("p")),
        tuple(rows),
        found.frames["temperature_grid"],
        grouped=1,
        notes=(f"change: from the pair (1, 1), which is {grid.base}", TEST),
        brief=True,
    )


def _changed(result: Result) -> list[Cell | str | None]:
    if result.change is None:
        return [None, None]
    return [Cell(result.change.overall, "+.3f"), Cell(result.p_value, "p")]
