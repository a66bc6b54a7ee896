"""`answer_of` a decision: what to do, why, and what it costs, in sentences."""

from collections.abc import Mapping

import numpy as np

from fairspan.calibration.calibration import CALIBRATION_FILE
from fairspan.calibration.treatment import PLAIN, Treatment
from fairspan.calibration.words import in_words
from fairspan.report.text import number, with_bounds
from fairspan.runs.header import Header
from fairspan.stats.choice import Choice, gain, quality, unfairness
from fairspan.stats.intervals import Interval
from fairspan.studies.tune.decision import Decision, best_candidate
from fairspan.studies.tune.entries import TuneEntries

EVEN = 0.1
"""A PSI up to this is called even."""
WHOLE = 0.95
"""If the plain model reads less than this share of the text, that is mentioned with the time."""
FEW_CHANGED = 20
"""Documents of a guard: if fewer change, those with a rare loss may not be among them."""


def answer_of(decision: Decision, header: Header) -> str:
    """The answer with its reasons, costs and limits."""
    metric = str(header.spec["metric"])
    losses = [
        f"{name} loses {metric} on {task}: {_signed(change)}."
        for name, (task, change) in decision.lost.items()
    ]
    choice = decision.choice
    if choice is None:
        sentences = ["Keep the plain model: every candidate loses on a guard.", *losses]
    elif decision.answer == "keep":
        sentences = [_keep(decision, choice, metric), *losses, _better_chunks(decision)]
    else:
        sentences = [
            _use(decision, choice, metric),
            _evenness(choice),
            _cost(header.part(TuneEntries).costs),
            _halves(choice),
            *losses,
            _few_changed(decision),
            _better_chunks(decision),
        ]
    if decision.answer == "probably":
        held = "the plain model, as strict asks"
        if not header.spec["strict"]:
            held = "it; with strict it would not"
        sentences.append(f"{CALIBRATION_FILE} holds {held}.")
    return " ".join(filter(None, sentences))


def in_full(treatment: Treatment) -> str:
    """A treatment by its name, and what that means."""
    name = treatment.name
    if treatment.chunks:
        size = treatment.chunk_size()
        length = "as large as the window" if size == "window" else f"of {size} tokens"
        return f"{name} (averaged chunks {length})"
    return f"{name} ({in_words(treatment.calibration)})" if treatment.acts else f"the {name} model"


def _use(decision: Decision, choice: Choice, metric: str) -> str:
    """That the choice is better or probably better, and what would settle it."""
    treatment = in_full(decision.treatments[choice.name])
    before = number(quality(choice.checked, PLAIN))
    after = number(quality(choice.checked, choice.name))
    gained = f"{metric} {before} → {after} ("
    if not choice.agreed:
        gained += "on the half of the documents that did not choose it; cross-checked gain "
    gained += _signed(choice.gain)
    if decision.finding == "use":
        return f"Use {treatment}: {gained})."
    doubtful = decision.doubtful.items()
    if doubtful and choice.gain.low > 0:
        where = ", ".join(f"{task} ({_signed(change)})" for task, change in doubtful)
        doubt = f"A loss beyond −{decision.margin:g} is not ruled out on {where}."
        return f"Probably use {treatment}: {gained}). {doubt} {_settling(decision)}"
    likely = number(choice.probability, ".0%")
    return f"{treatment} is probably better: {gained}, {likely}). {_settling(decision)}"


def _keep(decision: Decision, choice: Choice, metric: str) -> str:
    """That no candidate is better, or none is shown to be."""
    name, change = best_candidate(choice)
    before = number(quality(list(decision.samples.values()), PLAIN))
    best = f"{in_full(decision.treatments[name])} changes {metric} ({before}) by {_signed(change)}"
    if decision.finding == "no gain":
        return (
            "Keep the plain model: no difference that matters. A gain above "
            f"{decision.margin:g} is ruled out: {best}, and no other more."
        )
    return (
        f"Keep the plain model: no candidate is shown to find more. The best, {best}. "
        f"{_settling(decision)}"
    )


def _settling(decision: Decision) -> str:
    what, more = decision.more_needed()
    if not more:
        return "More of the same would hardly settle it."
    return f"About {more:,} more {what} would settle it."


def _evenness(choice: Choice) -> str:
    """How evenly documents are found by the position of the evidence, where that is known."""
    before = round(unfairness(choice.checked, PLAIN), 2)
    after = round(unfairness(choice.checked, choice.name), 2)
    if np.isnan(before) or np.isnan(after):
        return ""
    change = f"(PSI {number(before, '.2f')} → {number(after, '.2f')})."
    if after == before:
        return f"The parts of a document are found as evenly as before {change}"
    if after <= EVEN < before:
        return (
            "What is asked for is found as well at the end of a document as at its beginning "
            f"{change}"
        )
    how = "more" if after < before else "less"
    return f"The parts of a document are found {how} evenly than before {change}"


def _cost(costs: Mapping[str, float]) -> str:
    """The time and the new vectors that the choice takes."""
    if not costs:
        return ""
    because = ""
    form = ".0f" if costs["time"] >= 10 else ".1f"
    if costs["read"] < WHOLE:
        because = f", since the plain model reads only {number(costs['read'], '.0%')} of the text"
    return (
        f"Embedding takes {number(costs['time'], form)} × the time{because}; "
        f"{costs['changed']:,} of {costs['documents']:,} documents need a new vector; "
        "the index keeps its size."
    )


def _halves(choice: Choice) -> str:
    """That the halves prefer different candidates, and what is checked then."""
    if choice.agreed:
        return ""
    first, second = choice.preferred
    return (
        f"One half of the documents prefers {first}, the other {second}; the cross-checked gain is "
        "that of each half under the other's choice."
    )


def _few_changed(decision: Decision) -> str:
    """That so little changes on a guard that a rare loss may be missing."""
    changed = {task: guard.changed(PLAIN, decision.name) for task, guard in decision.guards.items()}
    return " ".join(
        f"On {task}, only {count} of {decision.guards[task].clusters} documents change: a rare "
        "loss may be missing."
        for task, count in changed.items()
        if 0 < count < FEW_CHANGED
    )


def _better_chunks(decision: Decision) -> str:
    """That averaged chunks find more than what is advised, if they do."""
    samples = list(decision.samples.values())
    chunks = [name for name, treatment in decision.treatments.items() if treatment.chunks]
    gains = {name: gain(samples, decision.advised, name) for name in chunks}
    return " ".join(
        f"{name} finds more than {decision.advised}: {_signed(change)}."
        for name, change in gains.items()
        if change.low > 0
    )


def _signed(change: Interval) -> str:
    return with_bounds(change, "+.3f")
