"""What a tuning shows: the answer first, the candidates, the tests of the guard part, the report, costs and parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from fairspan.report.table import Cell, Column, Row, Table, row
from fairspan.report.text import model_name, number
from fairspan.report.view import Card, Section, View
from fairspan.runs.log import RunLog
from fairspan.stats.bootstrap import Interval
from fairspan.stats.choice import ALPHA
from fairspan.stats.difference import Difference
from fairspan.studies.tune.decision import PLAIN, REFERENCE, Decision, decide
from fairspan.studies.tune.words import BADGES, Fate, answer_sentence, fates, more_documents, names_in_words

PARTS = (
    "Documents, with their queries and everything that shares a text with them, are divided by the seed: one half is "
    "tuned on, a quarter guards the choice, a quarter is for the figures that are reported. Guard tasks are not "
    "tuned on, so that three quarters of them guard."
)
RULE = (
    "Of the candidates within one standard error of the best quality, the fairest are kept; of those within one "
    "standard error of the fairest, the mildest is preferred: the one that moves the vectors least. Standard errors "
    "are those of paired differences, by the jackknife over clusters of queries."
)
GUARDING = (
    "The preferred candidate, and those that the same rule prefers among milder ones, are tested on the guard part, "
    "in that order. The first is chosen whose gain is above 0 and whose loss is below ε on every task. The tests "
    f"share the {ALPHA:.0%} by which the choice may be wrong; the first one has most of it."
)
CLAIM = (
    "The claim is that the choice is not worse by more than ε at 95 %, on documents and queries like these. It does "
    "not say that it is never worse."
)
COSTS = (
    "Time is that of embedding documents of medium length, relative to the plain model, on the machine of this run. "
    "Every candidate keeps one vector per document, as the plain model does."
)


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """A decision with everything that tables and charts are made of."""

    log: RunLog
    decision: Decision
    fates: Mapping[str, Fate]
    said: Mapping[str, str]
    sentence: str

    @property
    def header(self) -> Mapping[str, Any]:
        return self.log.header

    @property
    def metric(self) -> str:
        return str(self.log.spec["metric"])

    @property
    def has_groups(self) -> bool:
        return any(np.isfinite(one.unfairness) for one in self.decision.measured.values())


def view_of(log: RunLog) -> View:
    """Everything a tuning has to show."""
    decision = decide(log)
    header = log.header
    sentence = answer_sentence(decision, header)
    found = Findings(log, decision, fates(decision, header), names_in_words(header), sentence)
    frames = _frames(found)
    sections = [
        Section("The figures", "On the part that nothing was decided on.", tables=_some(report_table(found, frames))),
        Section("Candidates", "On the part that is tuned on.", tables=(candidate_table(found, frames),)),
        Section("Tests on the guard part", GUARDING, tables=_some(guard_table(found, frames))),
        Section("How the data were divided", tables=(part_table(found, frames),)),
    ]
    badge, tone = BADGES[decision.answer]
    shown = decision.chosen if decision.answer == "use" else PLAIN
    return View(
        title=f"Which treatment to use with {model_name(log.model)}",
        heading=f"{log.model} on {header['task']['source']}",
        cards=(Card(shown, badge, tone, (sentence,)),),
        sections=tuple(one for one in sections if one.tables or one.charts),
        frames=frames,
        notes=tuple(log.notes),
        remarks=_remarks(found),
        methods=(PARTS, RULE, GUARDING, CLAIM, COSTS),
    )


def _some(table: Table) -> tuple[Table, ...]:
    return (table,) if table.rows else ()


def _remarks(found: Findings) -> tuple[str, ...]:
    """What the reported figures say against the choice, or beside it."""
    said = []
    chosen = found.decision.chosen
    own = {one.task: one for one in found.decision.reported if one.name == chosen}
    for task, one in own.items():
        if one.gain.interval().high < 0:
            said.append(
                f"On the report part of {task} the chosen candidate is worse, which the guard part did not show."
            )
    for one in found.decision.reported:
        if one.name == REFERENCE:
            rival = own.get(one.task)
            after = one.before if rival is None else rival.after
            words = found.said[REFERENCE]
            said.append(
                f"For comparison on {one.task}: {words}, which needs no engine, gets {number(one.after)}; "
                f"{'the plain model' if rival is None else 'the chosen candidate'} gets {number(after)}."
            )
    return tuple(said)


def report_table(found: Findings, frames: Mapping[str, pl.DataFrame]) -> Table:
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
    heads, frame = ("task", "treatment"), frames.get("report", pl.DataFrame())
    title = f"On the report part ({model_name(found.log.model)})"
    return Table("report", title, heads, tuple(columns), tuple(rows), frame, grouped=1, notes=notes, brief=True)


def candidate_table(found: Findings, frames: Mapping[str, pl.DataFrame]) -> Table:
    """Every candidate on the part that is tuned on, and what became of it."""
    rows, groups, header = [], found.has_groups, found.header
    plain = found.decision.measured.get(PLAIN)
    for name, one in found.decision.measured.items():
        cells: list[Cell | str | None] = [
            Cell(one.quality),
            None if one is plain else Cell(one.gain.interval(), "+.3f"),
        ]
        cells += [Cell(one.unfairness, ".2f")] if groups else []
        cells += [Cell(header["changes"].get(name), ".3f"), Cell(header["times"].get(name), ".2f")]
        cells += [Cell(one.clusters, ",d")]
        fate = found.fates.get(name, Fate("baseline" if one is plain else "reference", ""))
        tone = "good" if fate.kind == "chosen" else "plain"
        cells += [Cell(fate.kind, tone=tone), fate.why]  # type: ignore[arg-type]
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
    )
    title = f"Candidates on the part that is tuned on ({model_name(found.log.model)})"
    frame = frames["candidates"]
    return Table("candidates", title, ("treatment",), tuple(columns), tuple(rows), frame, notes=notes, brief=True)


def guard_table(found: Findings, frames: Mapping[str, pl.DataFrame]) -> Table:
    """The tests on the guard part, in their order."""
    rows = []
    for one in found.decision.tested:
        what = found.metric if one.claim == "quality" else "PSI"
        for task, change in one.changes.items():
            bound = Interval(change.estimate, change.lower(one.level), np.nan)
            cells = [
                Cell(
                    f"{what}: {number(one.gain.estimate, '+.3f')}, above {number(one.gain.lower(one.level), '+.3f')}"
                ),
                Cell(bound.estimate, "+.3f"),
                Cell(bound.low, "+.3f"),
                Cell(one.clusters[task], ",d"),
                Cell(f"{one.level:.1%}"),
                Cell("passed" if one.finding == "use" else one.finding),
            ]
            rows.append(Row((one.name, task), tuple(cells)))
    names = ("gain", f"change of {found.metric}", "lower bound", "clusters", "level", "outcome")
    columns = tuple(Column(name, align="left" if name in ("gain", "outcome") else "right") for name in names)
    notes = (f"lower bounds are one-sided; a loss below ε = {found.log.spec['epsilon']:g} counts as none",)
    title, frame = "Tests on the guard part", frames.get("tests", pl.DataFrame())
    return Table("tests", title, ("treatment", "task"), columns, tuple(rows), frame, grouped=1, notes=notes)


def part_table(found: Findings, frames: Mapping[str, pl.DataFrame]) -> Table:
    """Clusters, queries and documents of every part."""
    rows = []
    for task in found.header["tasks"]:
        for part, own in task["parts"].items():
            cells = [Cell(own[name], ",d") for name in ("clusters", "queries", "documents")]
            rows.append(Row((task["name"], part), tuple(cells)))
    columns = tuple(Column(name) for name in ("clusters", "queries", "documents"))
    notes = (f"seed {found.log.spec['seed']}; clusters of queries share documents or texts",)
    return Table("parts", "Parts", ("task", "part"), columns, tuple(rows), frames["parts"], grouped=1, notes=notes)


def _frames(found: Findings) -> dict[str, pl.DataFrame]:
    """By name, without empty ones except for the verdicts."""
    decision, header = found.decision, found.header
    clusters = sum(task["parts"]["guard"]["clusters"] for task in header["tasks"] if task["role"] == "task")
    verdict = {
        "treatment": decision.chosen,
        "verdict": decision.answer,
        "sentence": found.sentence,
        "clusters": clusters,
        "more_clusters": sum(more_documents(decision, header).values()),
    }
    candidates = [
        {
            "treatment": name,
            "words": found.said[name],
            "metric": found.metric,
            "quality": one.quality,
            **_ends("change_", one.gain),
            "psi": one.unfairness,
            **_ends("psi_change_", one.psi_change),
            "moved": header["changes"].get(name),
            "time": header["times"].get(name),
            "clusters": one.clusters,
            "front": name in decision.front,
            "outcome": found.fates[name].kind if name in found.fates else "",
            "because": found.fates[name].why if name in found.fates else "",
        }
        for name, one in decision.measured.items()
    ]
    tests = [
        {
            "treatment": one.name,
            "claim": one.claim,
            "level": one.level,
            "gain_estimate": one.gain.estimate,
            "gain_lower": one.gain.lower(one.level),
            "task": task,
            "change_estimate": change.estimate,
            "change_lower": change.lower(one.level),
            "clusters": one.clusters[task],
            "outcome": one.finding,
        }
        for one in decision.tested
        for task, change in one.changes.items()
    ]
    report = [
        {
            "task": one.task,
            "treatment": one.name,
            "metric": found.metric,
            "before": one.before,
            "after": one.after,
            **_ends("change_", one.gain),
            "psi_before": one.psi_before,
            "psi_after": one.psi_after,
            **_ends("psi_change_", one.psi_change),
            "clusters": one.clusters,
        }
        for one in decision.reported
    ]
    parts = [
        {"task": task["name"], "role": task["role"], "part": part, **own}
        for task in header["tasks"]
        for part, own in task["parts"].items()
    ]
    records = {"candidates": candidates, "tests": tests, "report": report, "parts": parts, "costs": header["costs"]}
    records["windows"] = list(header.get("windows", ()))
    found_frames = {name: pl.DataFrame(own, infer_schema_length=None) for name, own in records.items() if own}
    model = pl.lit(found.log.model).alias("model")
    every = {"verdicts": pl.DataFrame([verdict]), **found_frames}
    return {name: frame.select(model, pl.all()) for name, frame in every.items()}


def _ends(prefix: str, change: Difference) -> dict[str, float]:
    found = change.interval()
    return {f"{prefix}{name}": float(getattr(found, name)) for name in ("estimate", "low", "high")}
