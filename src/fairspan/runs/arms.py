"""`Arm`: one treatment of one run; which two of them are compared, and what changes between them."""

from collections.abc import Sequence
from dataclasses import dataclass

from fairspan.calibration.treatment import shown_name
from fairspan.errors import FairspanError
from fairspan.runs.log import RunLog
from fairspan.stats.equivalence import LossKind


@dataclass(frozen=True, slots=True)
class Arm:
    """One treatment of one run."""

    log: RunLog
    treatment: str

    def __post_init__(self) -> None:
        measured = self.log.measured
        if self.treatment not in measured:
            only = f"the run {self.log.run} has no treatment {self.treatment!r}, only {', '.join(measured)}"
            raise FairspanError(f"{only}{_remedy(self.log)}")

    def __str__(self) -> str:
        return f"{self.log.run}: {self.treatment}"


@dataclass(frozen=True, slots=True)
class Change:
    """What changes from the first side to the second in one measure or metric, and whether it is a loss.

    Attributes:
        languages: whether it is about differences between languages.
    """

    first: Arm
    second: Arm
    measure: str
    kind: LossKind
    numbers: str
    languages: bool = False

    @property
    def condition(self) -> str:
        """What a pipeline calls it."""
        return f"language-{self.kind}" if self.languages else self.kind

    @property
    def name(self) -> str:
        """The two treatments, with their runs if these are two."""
        if self.first.log.folder == self.second.log.folder:
            return f"{self.first.treatment} → {self.second.treatment}"
        return f"{self.first} → {self.second}"

    @property
    def sentence(self) -> str:
        return f"{self.kind}: {self.numbers}"

    def to_dict(self) -> dict[str, str | None]:
        return {
            "first_run": self.first.log.run,
            "second_run": self.second.log.run,
            "first_treatment": self.first.treatment,
            "second_treatment": self.second.treatment,
            "measure": self.measure,
            "about": "languages" if self.languages else None,
            "verdict": self.kind,
            "sentence": self.sentence,
        }


def pairs_to_compare(
    first: RunLog, second: RunLog | None = None, treatments: Sequence[str] | None = None
) -> list[tuple[Arm, Arm]]:
    """Two named treatments; without names, every treatment of one run against its first, or those of both runs."""
    if second is not None and second.verb != first.verb:
        raise FairspanError(
            f"{first.run} is a run of {first.verb}, {second.run} of {second.verb}: compare runs of one kind."
        )
    if treatments is not None:
        if len(treatments) != 2:
            raise FairspanError(
                f"treatments names two treatments, such as plain and paper, got {list(treatments)}."
            )
        one, other = map(shown_name, treatments)
        return [(Arm(first, one), Arm(second or first, other))]
    stopped = next((log for log in (first, second) if log is not None and log.unfinished), None)
    if second is None:
        baseline, *others = first.measured
        found = [(Arm(first, baseline), Arm(first, other)) for other in others]
        fault = f"of the run {first.run} only {baseline} was measured"
        advice = ": name a second run to compare with."
    else:
        both = [name for name in first.measured if name in second.measured]
        found = [(Arm(first, name), Arm(second, name)) for name in both]
        if not both and len(first.measured) == len(second.measured) == 1:
            found = [(Arm(first, first.measured[0]), Arm(second, second.measured[0]))]
        fault = f"the runs share no treatment ({', '.join(first.measured)}; {', '.join(second.measured)})"
        advice = ": name one of each with treatments."
    if not found:
        raise FairspanError(f"{fault}{advice if stopped is None else _remedy(stopped)}")
    return found


def _remedy(log: RunLog) -> str:
    """The end of a sentence on what was not measured."""
    return (
        f": {log.unfinished}. Run its command again, which continues where it stopped."
        if log.unfinished
        else "."
    )
