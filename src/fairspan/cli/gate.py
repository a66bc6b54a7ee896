"""`--fail-if`: the results on which a command ends with exit code 1, for pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from fairspan.calibration.treatment import PLAIN, AnyTreatment, as_treatments
from fairspan.cli.showing import say
from fairspan.cli.values import words
from fairspan.errors import DesignError

if TYPE_CHECKING:
    from fairspan.runs.log import RunLog
    from fairspan.studies.evaluate.arms import Change

_KINDS = {
    "audit": ("biased", "inconclusive", "language-biased", "language-inconclusive"),
    "evaluate": ("worse", "inconclusive"),
    "compare": ("worse", "inconclusive"),
}


class Condition(NamedTuple):
    """A kind of result of a treatment, or of any if none is named."""

    treatment: str
    kind: str

    def __str__(self) -> str:
        return f"{self.treatment}:{self.kind}" if self.treatment else self.kind

    def is_met(self, treatment: str, kind: str) -> bool:
        return self.kind == kind and self.treatment in ("", treatment)


def read_conditions(
    verb: str, text: str | None, treatments: Sequence[AnyTreatment] | None = None
) -> list[Condition]:
    """What was typed, checked before anything is measured."""
    if text is None:
        return []
    parts = [word.rpartition(":") for word in words(text)]
    conditions = [Condition(name, kind) for name, _, kind in parts]
    wrong = [str(condition) for condition in conditions if condition.kind not in _KINDS[verb]]
    if wrong or not conditions:
        raise DesignError(
            f"fail_if takes {', '.join(_KINDS[verb])} here, got {', '.join(wrong) or 'nothing'}."
        )
    names = [treatment.name for treatment in as_treatments(treatments)] if treatments else []
    baseline = names[0] if names else PLAIN
    for condition in conditions:
        if verb == "evaluate" and condition.treatment == baseline:
            raise DesignError(
                f"fail_if={condition} can never be met, since {baseline} is what others are "
                "compared with: name another treatment."
            )
    if names:
        _require_named(conditions, names)
    if len(names) == 1 and verb != "audit":
        raise DesignError(
            f"fail_if={','.join(map(str, conditions))} compares treatments with the first, "
            f"and only {baseline} is named: name two."
        )
    return conditions


def _require_named(conditions: Sequence[Condition], treatments: Sequence[str]) -> None:
    """A treatment that is named but not measured must not look like one without faults."""
    for name, _ in conditions:
        if name and name not in treatments:
            raise DesignError(
                f"fail_if names {name!r}, which is not one of {', '.join(treatments)}."
            )


def fail_on_run(log: RunLog, conditions: Sequence[Condition]) -> None:
    """Say on stderr which results of a run meet a condition, and exit with code 1 if one does."""
    if not conditions:
        return
    from fairspan.studies.logs import changes

    if log.verb != "audit":
        fail_on_changes(changes(log), conditions)
        return
    _require_named(conditions, log.measured)
    _end(_verdicts(log, conditions))


def fail_on_changes(compared: Sequence[Change], conditions: Sequence[Condition]) -> None:
    """The same for what a comparison found."""
    _require_named(conditions, list(dict.fromkeys(change.second.treatment for change in compared)))
    reasons = [
        f"{change.name}: {change.sentence}"
        for change in compared
        if _meets(conditions, change.second.treatment, change.condition)
    ]
    _end(reasons)


def _verdicts(log: RunLog, conditions: Sequence[Condition]) -> list[str]:
    """The verdicts of an audit that meet a condition, in words."""
    reasons = []
    for frame, prefix, about in (
        ("verdicts", "", ""),
        ("language_verdicts", "language-", " on languages"),
    ):
        verdicts = log.frame(frame).to_dicts() if frame in log.view.frames else []
        # A run without verdicts must not pass for one without faults.
        needed = not prefix or any(kind.startswith(prefix) for _, kind in conditions)
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


def _meets(conditions: Sequence[Condition], treatment: str, kind: str) -> bool:
    return any(condition.is_met(treatment, kind) for condition in conditions)


def _end(reasons: Sequence[str]) -> None:
    for reason in reasons:
        say(f"fairspan: failed on {reason}")
    if reasons:
        raise SystemExit(1)
