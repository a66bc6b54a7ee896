"""Which temperature a study of length suggests, and why: by geometry, by labels and by theory."""

from itertools import groupby
from math import log2
from typing import NamedTuple

import polars as pl

from fairspan.report.text import with_bounds
from fairspan.stats.growth import growth
from fairspan.studies.collapse.schedules import reference_reach
from fairspan.studies.collapse.summary import LengthSummary


class Choice(NamedTuple):
    """What geometry suggests for texts of one length.

    Attributes:
        temperature: the highest one that is shown to be enough; None if none is.
        reason: if none is, what the measured temperatures do.
    """

    length: int
    temperature: float | None
    reason: str = ""


def suggestion(summary: LengthSummary) -> list[Choice]:
    """For every length the highest temperature at which texts are shown to be no more alike than the shortest ones.

    "No more" is by less than the margin for each doubling of length, from the shortest texts of the plain model.
    """
    return [_choice(summary, length) for length in summary.lengths]


def _choice(summary: LengthSummary, length: int) -> Choice:
    tried = sorted(((value, name) for name, value in summary.tried.items()), reverse=True)
    if length == summary.lengths[0]:
        return Choice(length, 1.0)
    if not tried:
        return Choice(length, None)
    doublings = log2(summary.tokens[length] / summary.tokens[summary.lengths[0]])
    kinds = {
        name: growth(summary.cosine(name, length, "short_baseline"), summary.margin * doublings, summary.level)
        for _, name in tried
    }
    enough = next((value for value, name in tried if kinds[name] in ("not more", "less")), None)
    if enough is not None:
        return Choice(length, enough)
    if kinds[tried[0][1]] == "open":
        return Choice(length, None, "too few documents to tell whether they are more alike than the shortest")
    colder = [(value, name) for value, name in tried if value < 1 and name != summary.baseline]
    if not colder:
        return Choice(length, None, "more alike than the shortest, and no temperature below 1 was measured")
    changes = {name: summary.cosine(name, length, summary.baseline) for _, name in colder}
    helping = [(changes[name].estimate, value, name) for value, name in colder if changes[name].high < 0]
    if helping:
        _, best, name = min(helping)
        still = (
            "with too few documents to tell whether it is enough" if kinds[name] == "open" else "and is not enough"
        )
        return Choice(length, None, f"{best:g} helps{' most' if len(colder) > 1 else ''}, {still}")
    if all(one.low > 0 for one in changes.values()):
        every = "every temperature below 1" if len(colder) > 1 else f"{colder[0][0]:g}"
        return Choice(length, None, f"{every} makes them more alike, not less")
    return Choice(length, None, "no temperature below 1 is shown to make them less alike")


def advice(summary: LengthSummary) -> str:
    """What the geometry suggests, in one line. Whether it helps is for search and classification to say."""
    if len(summary.lengths) < 2:
        return "nothing: there is one length only"
    if not summary.tried:
        return "nothing: no temperature was tried"
    found = suggestion(summary)
    if all(one.temperature == 1 for one in found):
        return "none: long texts are shown not to be more alike than short ones"
    parts = [] if any((one.temperature or 1) < 1 for one in found) else ["nothing"]
    for (value, reason), group in groupby(found, key=lambda one: one[1:]):
        if value == 1:
            continue
        same = [one.length for one in group]
        texts = f"texts of {same[0]}{f' to {same[-1]}' if len(same) > 1 else ''} tokens"
        if same[-1] == summary.lengths[-1]:
            texts = f"texts of {same[0]} tokens and more"
        parts.append(f"{value:g} for {texts}" if value is not None else f"{texts}: {reason}")
    return "; ".join(parts)


def schedule(summary: LengthSummary) -> list[tuple[int, float]]:
    """The suggestion as the steps of a `LengthSchedule`, which counts special tokens where lengths do not.

    Where nothing is shown to be enough, the step before goes on. Empty if no text needs a temperature.
    """
    steps: list[tuple[int, float]] = []
    for length, value, _ in suggestion(summary):
        if value is not None and value != (steps[-1][1] if steps else 1.0):
            steps.append((length + summary.added_tokens, value))
    return steps


def labels(summary: LengthSummary) -> str | None:
    """The schedule fitted on half of the classified documents, and what it does to the others, if one was."""
    found = summary.fitted
    if found is None:
        return None
    steps = [f"{one.temperature:g} from {one.begin}" for one in found.bins if one.temperature != 1]
    if not steps:
        return f"fitted on {found.fitted_documents} classified documents: no temperature is supported"
    return (
        f"fitted on {found.fitted_documents} classified documents: {', '.join(steps)} tokens on; accuracy on "
        f"{found.tested_documents} others {with_bounds(found.change, '+.3f')}"
    )


def theory(summary: LengthSummary) -> str | None:
    """How far a temperature keeps the σ_a that Theorem 3 predicts of the shortest texts; None if unmeasured."""
    last = summary.last_layers.filter(measure="sigma_s", treatment=summary.baseline)
    found = dict(last.select("length", "estimate").rows())
    # Natural lengths are bins, of which none is a reference; and theory needs scores that differ.
    if not found or summary.natural or summary.lengths[0] < 2 or min(found.values()) <= 0:
        return None
    # The theorem's L is what attention sees, special tokens included.
    lengths = [length + summary.added_tokens for length in found]
    return reference_reach(lengths, list(found.values()), lengths[0]).note


def remarks(summary: LengthSummary) -> pl.DataFrame:
    """What temperature is suggested and why, one sentence for each `source`: geometry, labels, theory."""
    said = [("geometry", f"suggested by geometry alone: {advice(summary)}")]
    steps = ",".join(f"[{tokens},{value:g}]" for tokens, value in schedule(summary))
    if steps:
        said.append(("geometry", f"as a schedule, special tokens counted: temperature=[{steps}]"))
    said += [(source, one) for source, one in (("labels", labels(summary)), ("theory", theory(summary))) if one]
    return pl.DataFrame(said, schema=["source", "sentence"], orient="row")
