"""`view_of` a tuning: the answer, then the evaluation that it rests on."""

from dataclasses import replace

import polars as pl

from fairspan.calibration.treatment import PLAIN, Treatment
from fairspan.calibration.words import in_words
from fairspan.report.frames import frame_of
from fairspan.report.table import CHANGE, VERDICTS, Table
from fairspan.report.text import model_name, number, with_bounds
from fairspan.report.view import Card, Section, View
from fairspan.runs.folder import write_calibration
from fairspan.runs.log import LogKind, RunLog
from fairspan.stats.gains import clusters_to_confirm, is_worse
from fairspan.studies.evaluate.entries import IndexCost
from fairspan.studies.evaluate.ranking import SCHEMA
from fairspan.studies.evaluate.verdicts import Verdict, documents_advice
from fairspan.studies.evaluate.view import view_of as view_of_evaluation
from fairspan.studies.tune.decision import Decision, decide, evaluation_of

PAGE = "tune.html"
RULE = (
    "A candidate is used if evaluate shows it to be better (95 %, corrected by Holm for the number "
    "of candidates), neither short nor long documents lose, and no guard does. Of those within the "
    "margin of the best, the one that moves the vectors of documents least is taken. "
    "Cross-checked gain: the documents are halved at random, and each half is scored with the "
    "candidate that the other half chose."
)


def view_of(log: RunLog) -> View:
    """Everything that a tuning has to show."""
    main = evaluation_of(log)
    view = view_of_evaluation(main)
    if log.status != "complete":
        unknown = {"treatment": PLAIN, "verdict": "keep", "sentence": "Not decided yet."}
        frames = {**view.frames, "verdicts": frame_of([unknown])}
        return replace(view, cards=(), frames=frames)
    decision = decide(log)
    treatments = {item["name"]: Treatment.from_dict(item) for item in log.spec["treatments"]}
    word = "keep" if decision.name is None else "use"
    sentences = _answer(main, decision, treatments)
    card = Card(decision.name or PLAIN, word, VERDICTS[word], sentences, len(sentences))
    verdict = {
        "model": log.model,
        "treatment": decision.name or PLAIN,
        "verdict": word,
        "sentence": " ".join(sentences),
    }
    candidates = frame_of(
        _candidate(item, decision, log.model) for item in decision.verdicts.values()
    )
    frames = {**view.frames, "verdicts": frame_of([verdict]), "candidates": candidates}
    of_groups = {
        name: name for name in ("short", "long", "guards") if candidates[name].is_not_null().any()
    }
    table = Table(
        "candidates",
        f"Candidates ({main.where})",
        candidates,
        heads=("treatment",),
        columns={"verdict": "", "change": CHANGE, **of_groups},
        brief=len(decision.verdicts) > 1,
    )
    return replace(
        view,
        title=f"Which treatment to use with {model_name(log.model)}",
        cards=(card, *(item for item in view.cards if item.badge in ("baseline", "reference"))),
        sections=(Section("Candidates", tables=(table,)), *view.sections),
        frames=frames,
        methods=(RULE, *view.methods),
    )


def _answer(main: RunLog, decision: Decision, treatments: dict[str, Treatment]) -> tuple[str, ...]:
    """What to do, why, and what it costs."""
    best = decision.best
    full = f"{best.treatment} ({in_words(treatments[best.treatment].calibration)})"
    losses = [
        f"{name} loses on {guard}: {item.sentences[0]}"
        for name, (guard, item) in decision.lost.items()
    ]
    if decision.name is None:
        return (f"No treatment is shown to help. {_best(main, best, full)}", *losses)
    checked = decision.check
    assert checked is not None
    agreed = len(set(checked.preferred)) == 1
    halves = (
        ""
        if agreed
        else f"; one half prefers {checked.preferred[0]}, the other {checked.preferred[1]}"
    )
    doubts = [
        f"On {guard}, a loss is not ruled out: {item.sentences[0]}"
        for guard, item in decision.guarded.items()
        if item.verdict == "inconclusive"
    ]
    sentences = (
        f"Use {full}: {best.sentences[0]}",
        f"Cross-checked gain: {with_bounds(checked.gain, '+.3f')}{halves}.",
        *best.sentences[1:],
        _cost(main, best.treatment),
        *doubts,
        *losses,
    )
    return tuple(filter(None, sentences))


def _best(main: RunLog, best: Verdict, full: str) -> str:
    """What comes closest, and what would decide."""
    words = f"The best, {full}: {best.verdict}, {best.sentences[0]}"
    if is_worse(best.verdict):
        return " ".join([words, *best.sentences[1:]])
    change = best.overall.change
    margin = main.analysis.margin
    if change.high <= margin:
        return f"{words} A gain above {margin:g} is ruled out."
    needed = clusters_to_confirm(change, best.overall.documents)
    if needed is None:
        return f"{words} No realistic number of documents would show a gain."
    return f"{words} {documents_advice(needed, main)} would show whether it gains that much."


def _cost(main: RunLog, name: str) -> str:
    """The time and the new vectors that the choice takes."""
    costs: dict[str, IndexCost] = {cost.treatment: cost for cost in main.header.study.costs}
    before = costs[PLAIN]
    after = costs[name]
    words = f"{after.changed or 0:,} of {after.documents:,} documents need a new vector"
    if before.seconds and after.seconds:
        words = (
            f"Embedding takes {number(after.seconds / before.seconds, '.1f')} × the time; {words}"
        )
    return f"{words}; the index keeps its size."


def _candidate(verdict: Verdict, decision: Decision, model: str) -> dict[str, object]:
    """The row of a candidate."""
    lost = decision.lost.get(verdict.treatment)
    guards = f"loses on {lost[0]}" if lost else None
    if verdict.treatment == decision.name and decision.guarded:
        guards = "no loss"
    return {
        "model": model,
        "treatment": verdict.treatment,
        "verdict": verdict.verdict,
        "quality": verdict.overall.after,
        **verdict.overall.change.columns("change_"),
        "short": verdict.word("short documents"),
        "long": verdict.word("long documents"),
        "guards": guards,
    }


def write_results(log: RunLog) -> None:
    """Write the calibration to use, and the page, where they are missing or older than the log."""
    treatments = {table["name"]: table for table in log.spec["treatments"]}
    chosen = Treatment.from_dict(treatments[log.verdicts["treatment"][0]])
    write_calibration(log.folder, chosen.calibration)
    page = log.folder / PAGE
    if not page.is_file() or page.stat().st_mtime < (log.folder / "run.json").stat().st_mtime:
        log.save_page(page)


LOG = LogKind({**SCHEMA, "task": pl.Int32()}, view_of)
