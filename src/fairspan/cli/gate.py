"""`--fail-if`: the results on which a command ends with exit code 1, for pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from fairspan.calibration.treatment import AnyTreatment, as_treatments, shown_name
from fairspan.cli.options import words
from fairspan.errors import DesignError

if TYPE_CHECKING:
    from fairspan.runs.log import RunLog
    from fairspan.runs.sides import Change

_CONDITIONS = {
    "audit": (
        "biased",
        "worse",
        "inconclusive",
        "language-biased",
        "language-worse",
        "language-inconclusive",
    ),
    "evaluate": ("worse", "inconclusive"),
    "compare": ("worse", "inconclusive", "language-worse", "language-inconclusive"),
}
_WORSE = ("worse", "language-worse")
FailIf = Annotated[
    str | None,
    typer.Option(
        help="Exit with code 1 on any of these results: biased (audit only), worse, inconclusive; "
        "language-biased, language-worse or language-inconclusive for languages in mixed documents of an audit. "
        "Every treatment is judged, or the one named: tiles:biased."
    ),
]


def read_conditions(
    verb: str, text: str | None, treatments: Sequence[AnyTreatment] | None = None
) -> list[str]:
    """What was typed, checked before anything is measured."""
    if text is None:
        return []
    known, given = _CONDITIONS[verb], []
    for word in words(text):
        name, colon, kind = word.rpartition(":")
        given.append(shown_name(name) + colon + kind)
    kinds = {word: word.rpartition(":")[2] for word in given}
    wrong = [word for word, kind in kinds.items() if kind not in known]
    if wrong or not given:
        raise DesignError(
            f"fail_if takes {', '.join(known)} here, got {', '.join(wrong) or 'nothing'}."
        )
    if treatments is not None:
        names = [one.name for one in as_treatments(treatments)]
        _require_named(given, names)
        if len(names) < 2 and (verb != "audit" or {*_WORSE} & {*kinds.values()}):
            compares = f"fail_if={','.join(given)} compares treatments with the first"
            raise DesignError(f"{compares}, and only {names[0]} is named: name two.")
    return given


def _require_named(conditions: Sequence[str], treatments: Sequence[str]) -> None:
    """A treatment that is named but not measured must not look like one without faults."""
    names = dict.fromkeys(one.rpartition(":")[0] for one in conditions)
    missing = [name for name in names if name and name not in treatments]
    if missing:
        raise DesignError(
            f"fail_if names {missing[0]!r}, which is not one of {', '.join(treatments)}."
        )


def _meets(conditions: Sequence[str], treatment: str, kind: str) -> bool:
    return kind in conditions or f"{treatment}:{kind}" in conditions


def fail_on_runs(logs: Sequence[RunLog], conditions: Sequence[str]) -> None:
    """Say on stderr which results of these runs meet a condition, and end with exit code 1 if one does."""
    if not conditions:
        return
    from fairspan.studies.logs import changes

    found = []
    for log in logs:
        _require_named(conditions, log.measured)
        if log.verb == "audit":
            found += _verdicts(log, conditions)
        # An audit is inconclusive by its own verdict.
        meant = [one for one in conditions if one.endswith("worse") or log.verb != "audit"]
        if meant:
            found += _reasons(changes(log), meant)
    _end(found)


def fail_on_changes(found: Sequence[Change], conditions: Sequence[str]) -> None:
    """The same for what a comparison found."""
    _require_named(conditions, [one.second.treatment for one in found])
    _end(_reasons(found, conditions))


def _verdicts(log: RunLog, conditions: Sequence[str]) -> list[str]:
    found = []
    for frame, prefix, about in (
        ("verdicts", "", ""),
        ("language_verdicts", "language-", " on languages"),
    ):
        # Without verdicts, what was not found must not look like what is not there.
        needed = not prefix or _about_languages(conditions)
        verdicts = list(log.frame(frame).iter_rows(named=True)) if frame in log.view.frames else []
        if needed and not verdicts:
            notes = "; ".join(log.view.notes)
            raise DesignError(
                f"the run {log.run} has no verdicts{about}, which fail_if needs: {notes}"
            )
        met = [
            one for one in verdicts if _meets(conditions, one["treatment"], prefix + one["verdict"])
        ]
        found += [f"{one['treatment']}{about}: {one['sentence']}" for one in met]
    return found


def _about_languages(conditions: Sequence[str]) -> bool:
    return any(one.rpartition(":")[2].startswith("language-") for one in conditions)


def _reasons(found: Sequence[Change], conditions: Sequence[str]) -> list[str]:
    if _about_languages(conditions) and not any(one.languages for one in found):
        raise DesignError(
            "no two languages are compared, which fail_if needs: mixed documents in both orders compare them "
            "(mixed de:en,en:de)."
        )
    return [
        f"{one.name}: {one.sentence}"
        for one in found
        if _meets(conditions, one.second.treatment, one.condition)
    ]


def _end(reasons: Sequence[str]) -> None:
    for reason in reasons:
        typer.echo(f"fairspan: failed on {reason}", err=True)
    if reasons:
        raise typer.Exit(1)
