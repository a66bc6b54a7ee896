"""What a tuning shows: the answer first, its figures, the candidates, the tests, the costs and the parts."""

from fairspan.report.table import Table
from fairspan.report.text import model_name, number
from fairspan.report.view import Card, Section, View
from fairspan.runs.log import RunLog
from fairspan.stats.choice import ALPHA
from fairspan.studies.tune import charts, tables
from fairspan.studies.tune.decision import PLAIN, REFERENCE
from fairspan.studies.tune.findings import Findings, findings_of
from fairspan.studies.tune.words import BADGES

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


def view_of(log: RunLog) -> View:
    """Everything a tuning has to show."""
    found = findings_of(log)
    decision = found.decision
    badge, tone = BADGES[decision.answer]
    sections = (
        Section("The figures", "On the part that nothing was decided on.", tables=_some(tables.report_table(found))),
        _candidates(found),
        Section("Tests on the guard part", GUARDING, tables=_some(tables.guard_table(found))),
        Section("Costs", tables=_some(tables.cost_table(found))),
        Section("How the data were divided", PARTS, tables=(tables.part_table(found),)),
    )
    return View(
        title=f"Which treatment to use with {model_name(log.model)}",
        heading=f"{log.model} on {log.header['task']['source']}",
        cards=(Card(decision.chosen, badge, tone, (found.sentence,)),),
        sections=tuple(one for one in sections if one.tables or one.charts or one.scatters),
        frames=found.frames,
        picture="candidates",
        notes=tuple(log.notes),
        remarks=_remarks(found),
        methods=(RULE, CLAIM, COSTS),
    )


def _candidates(found: Findings) -> Section:
    title, intro = "Candidates", "On the part that is tuned on."
    table = tables.candidate_table(found)
    if PLAIN not in found.decision.measured:
        return Section(title, intro, tables=(table,))
    if found.has_groups:
        return Section(title, intro, tables=(table,), scatters=(charts.pareto_chart(found),))
    return Section(title, intro, tables=(table,), charts=(charts.quality_chart(found),))


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
