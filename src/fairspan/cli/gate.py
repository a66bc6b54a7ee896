"""`--fail-if`: the results on which a command ends with exit code 1, for pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairspan.calibration.treatment import PLAIN, AnyTreatment, as_treatments, shown_name
from fairspan.cli.command import words
from fairspan.cli.showing import say
from fairspan.errors import DesignError

if TYPE_CHECKING:
    from fairspan.runs.log import RunLog
    from fairspan.studies.evaluate.arms import Change

_CONDITIONS = {
    "audit": "biased inconclusive language-biased language-inconclusive",
    "evaluate": "worse inconclusive",
    "compare": "worse inconclusive",
}


def read_conditions(
    verb: str, text: str | None, treatments: Sequence[AnyTreatment] | None = None
) -> list[str]:
    """What was typed, checked before anything is measured."""
    if text is None:
        return []
    conditions = []
    for word in words(text):
        name, colon, kind = word.rpartition(":")
        conditions.append(shown_name(name) + colon + kind)
    choices = _CONDITIONS[verb].split()
    wrong = [condition for condition in conditions if _kind(condition) not in choices]
    if wrong or not conditions:
        raise DesignError(
            f"fail_if takes {', '.join(choices)} here, got {', '.join(wrong) or 'nothing'}."
        )
    _refuse_baseline(
        verb, conditions, PLAIN if not treatments else as_treatments(treatments)[0].name
    )
    if treatments is not None:
        names = [treatment.name for treatment in as_treatments(treatments)]
        _require_named(conditions, names)
        if len(names) < 2 and verb != "audit":
            raise DesignError(
                f"fail_if={','.join(conditions)} compares treatments with the first, "
                f"and only {names[0]} is named: name two."
            )
    return conditions


def _refuse_baseline(verb: str, conditions: Sequence[str], baseline: str) -> None:
    """Raise if a condition names what others are compared with, so that it could never be met."""
    for condition in conditions:
        if verb == "evaluate" and condition.rpartition(":")[0] == baseline:
            raise DesignError(
                f"fail_if={condition} can never be met, since {baseline} is what others are "
                "compared with: name another treatment."
            )


def _kind(condition: str) -> str:
    return condition.rpartition(":")[2]


def _require_named(conditions: Sequence[str], treatments: Sequence[str]) -> None:
    """A treatment that is named but not measured must not look like one without faults."""
    names = [condition.rpartition(":")[0] for condition in conditions]
    missing = [name for name in names if name and name not in treatments]
    if missing:
        raise DesignError(
            f"fail_if names {missing[0]!r}, which is not one of {', '.join(treatments)}."
        )


def fail_on_run(log: RunLog, conditions: Sequence[str]) -> None:
    """Say on stderr which results of a run meet a condition, and exit with code 1 if one does."""
    if not conditions:
        return
    from fairspan.studies.logs import changes

    if log.verb != "audit":
        fail_on_changes(changes(log), conditions)
        return
    _require_named(conditions, log.measured)
    _end(_verdicts(log, conditions))


def fail_on_changes(compared: Sequence[Change], conditions: Sequence[str]) -> None:
    """The same for what a comparison found."""
    _require_named(conditions, list(dict.fromkeys(change.second.treatment for change in compared)))
    reasons = [
        f"{change.name}: {change.sentence}"
        for change in compared
        if _meets(conditions, change.second.treatment, change.condition)
    ]
    _end(reasons)


def _verdicts(log: RunLog, conditions: Sequence[str]) -> list[str]:
    """The verdicts of an audit that meet a condition, in words."""
    reasons = []
    for frame, prefix, about in (
        ("verdicts", "", ""),
        ("language_verdicts", "language-", " on languages"),
    ):
        verdicts = log.frame(frame).to_dicts() if frame in log.view.frames else []
        # A run without verdicts must not pass for one without faults.
        needed = not prefix or any(_kind(item).startswith(prefix) for item in conditions)
        if not verdicts and needed:
            raise DesignError(
                f"the run {log.run} has no verdicts{about}, which fail_if needs: "
                f"{'; '.join(log.view.notes)}"
            )
        reasons += [
            f"{verdict['treatment']}{about}: {verdict['verdict']}: {verdict['sentence']}"
            for verdict in verdicts
            if _meets(conditions, verdict["treatment"], prefix + verdict["verdict"])
        ]
    return reasons


def _meets(conditions: Sequence[str], treatment: str, kind: str) -> bool:
    return kind in conditions or f"{treatment}:{kind}" in conditions


def _end(reasons: Sequence[str]) -> None:
    for reason in reasons:
        say(f"fairspan: failed on {reason}")
    if reasons:
        raise SystemExit(1)
