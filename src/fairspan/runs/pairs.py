"""Which treatments of one run, or of two, are compared with each other."""

from __future__ import annotations

from collections.abc import Sequence

from fairspan.errors import LogError
from fairspan.runs.log import AuditLog


def treatment_pairs(
    first: AuditLog, second: AuditLog | None, treatments: Sequence[str] | None = None
) -> list[tuple[str, str]]:
    """One treatment of each side for every comparison.

    Without names, those of one run are compared with its first, and between two runs each with itself.
    """
    if treatments is not None:
        if len(treatments) != 2:
            raise LogError(f"a comparison takes two treatments, such as none,paper, got {','.join(treatments)!r}.")
        return [(treatments[0], treatments[1])]
    if second is None:
        baseline, *others = _measured(first)
        if not others:
            raise LogError(
                f"the run {first.run} has one treatment, {baseline}: name a second run to compare it with."
            )
        return [(baseline, other) for other in others]
    both = [name for name in _measured(first) if name in _measured(second)]
    if both:
        return [(name, name) for name in both]
    if len(first.treatments) == len(second.treatments) == 1:
        return [(first.treatments[0], second.treatments[0])]
    raise LogError(
        f"the runs share no treatment ({', '.join(first.treatments)}; {', '.join(second.treatments)}): name one of "
        "each."
    )


def _measured(log: AuditLog) -> list[str]:
    """The treatments that have rows: an interrupted run may lack some, and some are skipped."""
    there = set(log.rows["treatment"].unique().to_list())
    return [name for name in log.treatments if name in there]
