"""What a decision says: the answer in a sentence, and what became of every candidate."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.calibration.treatment import Treatment
from fairspan.calibration.words import in_words
from fairspan.report.table import Tone
from fairspan.report.text import number, with_bounds
from fairspan.stats.arrays import two_digits
from fairspan.stats.choice import LEAST_CLUSTERS, Tested
from fairspan.studies.tune.decision import GUARD, PLAIN, REFERENCE, Decision, Reported, guards_of

BADGES: dict[str, tuple[str, Tone]] = {
    "use": ("use it", "good"),
    "do nothing": ("do nothing", "plain"),
    "inconclusive": ("needs more data", "open"),
    "unfinished": ("not finished", "open"),
}


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a candidate, and why.

    Kinds: "chosen", "refused" or "not confirmed" by the tests, "not tested", "not preferred", "dropped" in an early
    round, "left out".
    """

    kind: str
    why: str


def names_in_words(header: Mapping[str, Any]) -> dict[str, str]:
    """Every treatment as a sentence names it."""
    found = {str(one["name"]): in_words(Treatment.from_dict(one).calibration) for one in header["spec"]["treatments"]}
    return {**found, REFERENCE: f"the mean of chunks of {header['spec']['chunk_tokens']} tokens"}


def answer_sentence(decision: Decision, header: Mapping[str, Any]) -> str:
    """What to do, with the figures of the report part."""
    said = names_in_words(header)
    match decision.answer:
        case "use":
            return f"Use {said[decision.chosen]}: {_figures(decision, header)}."
        case "do nothing":
            return f"Use the plain model: {_why_nothing(decision, header, said)}."
        case "inconclusive":
            return f"Keep the plain model for now: {_why_open(decision, header, said)}."
    return "This tuning has not finished: run the same command again, which goes on from here."


def _figures(decision: Decision, header: Mapping[str, Any]) -> str:
    guards, metric = guards_of(header), str(header["spec"]["metric"])
    own = [one for one in decision.reported if one.name == decision.chosen]
    words = [_reported(one, metric, several=len(own) - len(guards) > 1) for one in own if one.task not in guards]
    epsilon = float(header["spec"]["epsilon"])
    if guards:
        words.append(f"not worse than −{epsilon:g} on {', '.join(guards)}")
    took = header["times"].get(decision.chosen)
    if took is not None:
        words.append(f"embedding takes {took:.2f} × the time")
    return "; ".join(words)


def _reported(one: Reported, metric: str, *, several: bool) -> str:
    where = f"on {one.task} " if several else ""
    words = f"{where}{metric} {number(one.before)} → {number(one.after)} ({with_bounds(one.gain.interval(), '+.3f')})"
    if np.isfinite(one.psi_before):
        words += f", PSI {number(one.psi_before, '.2f')} → {number(one.psi_after, '.2f')}"
    return words


def _why_nothing(decision: Decision, header: Mapping[str, Any], said: Mapping[str, str]) -> str:
    if not decision.tested:
        return "on the part that is tuned on, no candidate is better or fairer by more than one standard error"
    return "; ".join(f"{said[one.name]} {_finding(one, header)}" for one in decision.tested)


def _why_open(decision: Decision, header: Mapping[str, Any], said: Mapping[str, str]) -> str:
    if not decision.chosen_from:
        reasons = ", ".join(dict.fromkeys(str(reason) for reason in header["left_out"].values()))
        return f"no candidate was measured on all data that are tuned on ({reasons})"
    more = more_documents(decision, header)
    open_ones = [one for one in decision.tested if one.finding in ("undecided", "use")]
    if decision.tested:
        first = (open_ones or decision.tested)[0]
        words = f"{said[first.name]} {_finding(first, header)}"
    else:
        words = "no candidate is better or fairer by more than one standard error on the part that is tuned on"
    small = [task for task in header["tasks"] if task["parts"][GUARD]["clusters"] < LEAST_CLUSTERS]
    if small:
        counts = ", ".join(f"{task['parts'][GUARD]['clusters']} of {task['name']}" for task in small)
        words += f"; {LEAST_CLUSTERS} clusters of queries are needed to decide, and the guard part has {counts}"
    if not more:
        return words + "; more of the same data would not decide it"
    wanted = ", ".join(f"{count:,} more {_unit(task)}" for task, count in more.items())
    return f"{words}; about {wanted} would decide"


def more_documents(decision: Decision, header: Mapping[str, Any]) -> dict[str, int]:
    """By task, how many more clusters in all parts together would decide; empty where that is not known."""
    found = {}
    for task in header["tasks"]:
        more = (decision.lacking or {}).get(task["name"], 0)
        if more:
            counts = [part["clusters"] for part in task["parts"].values()]
            found[str(task["name"])] = two_digits(more * sum(counts) / task["parts"][GUARD]["clusters"])
    return found


def _unit(name: str) -> str:
    """Such as "pages of my_articles", of which there should be more."""
    kind, of, corpus = name.partition(" of ")
    if kind == "pages" and of:
        return name
    return f"documents of {corpus}" if kind == "passages" and of else f"documents with their queries in {name}"


def _finding(one: Tested, header: Mapping[str, Any]) -> str:
    """What a test on the guard part showed."""
    level, metric = one.level, str(header["spec"]["metric"])
    what = metric if one.claim == "quality" else "PSI"
    sign = 1 if one.claim == "quality" else -1
    moved = f"{what} {number(sign * one.gain.estimate, '+.3f')}"
    match one.finding:
        case "loss":
            task, change = min(one.changes.items(), key=lambda item: item[1].upper(level))
            return f"loses {metric} on {task} ({number(change.estimate, '+.3f')}, at most {change.upper(level):+.3f})"
        case "no gain":
            return f"gains nothing that matters on the guard part ({moved})"
        case "use":
            return f"looks better ({moved} on the guard part)"
    epsilon = float(header["spec"]["epsilon"])
    unsure = [task for task, change in one.changes.items() if not change.lower(level) > -epsilon]
    if one.gain.lower(level) > 0 and unsure:
        return f"gains ({moved}), and a loss beyond −{epsilon:g} on {', '.join(unsure)} is not ruled out"
    if one.gain.estimate <= 0:
        return f"does not gain on the guard part ({moved}), and a gain is not ruled out"
    return f"may gain ({moved} on the guard part), which chance explains as well"


def fates(decision: Decision, header: Mapping[str, Any]) -> dict[str, Fate]:
    """What became of every candidate, in the order of the grid."""
    tested = {one.name: one for one in decision.tested}
    listed = {one.name for one in decision.listed}
    rule = decision.listed[0].preference if decision.listed else None
    found: dict[str, Fate] = {}
    for name in (str(one["name"]) for one in header["spec"]["treatments"][1:]):
        measured = decision.measured.get(name)
        if name in header["left_out"]:
            found[name] = Fate("left out", str(header["left_out"][name]))
        elif measured is None:
            found[name] = Fate("left out", "it was not measured")
        elif name == decision.chosen:
            found[name] = Fate("chosen", "the guard part confirms it")
        elif name in tested:
            shown = tested[name].finding in ("loss", "no gain")
            found[name] = Fate("refused" if shown else "not confirmed", _finding(tested[name], header))
        elif measured.rounds_left:
            found[name] = Fate("dropped", f"among the worse half on {measured.clusters} clusters")
        elif name in listed:
            found[name] = Fate("not tested", "next in line")
        elif rule is not None and name not in rule.near:
            found[name] = Fate("not preferred", f"worse than {rule.best} by more than a standard error")
        elif rule is not None and name not in rule.fair:
            found[name] = Fate("not preferred", "as good, and less fair by more than a standard error")
        elif rule is not None:
            found[name] = Fate("not preferred", f"as good and as fair, and moves the vectors more than {rule.chosen}")
        else:
            found[name] = Fate("not preferred", f"not better than {PLAIN} by more than a standard error")
    return found
