"""`Arm`: one treatment of one evaluation; which pairs are compared, and what changes in a pair."""

from collections.abc import Sequence
from dataclasses import dataclass

from fairspan.errors import FairspanError
from fairspan.runs.facts import measured_on
from fairspan.runs.header import Header
from fairspan.runs.log import RunLog
from fairspan.stats.gains import is_worse


@dataclass(frozen=True, slots=True)
class Arm:
    """One treatment of one run."""

    log: RunLog
    treatment: str

    def __post_init__(self) -> None:
        measured = self.log.measured
        if self.treatment not in measured:
            raise FairspanError(
                f"the run {self.log.run} has no treatment {self.treatment!r}, only "
                f"{', '.join(measured)}{_remedy(self.log)}"
            )

    def __str__(self) -> str:
        return f"{self.log.run}: {self.treatment}"


@dataclass(frozen=True, slots=True)
class Change:
    """What changes from the first arm to the second in one measure, and whether it is a loss."""

    first: Arm
    second: Arm
    measure: str
    kind: str
    numbers: str

    @property
    def condition(self) -> str:
        """What `fail_if` calls it."""
        return "worse" if is_worse(self.kind) else self.kind

    @property
    def name(self) -> str:
        """The two treatments, with their runs if these are two."""
        if self.first.log.folder == self.second.log.folder:
            return f"{self.first.treatment} → {self.second.treatment}"
        return f"{self.first} → {self.second}"

    @property
    def sentence(self) -> str:
        return f"{self.kind}: {self.numbers}"

    def to_dict(self) -> dict[str, str]:
        """The change as JSON holds it."""
        return {
            "first_run": self.first.log.run,
            "second_run": self.second.log.run,
            "first_treatment": self.first.treatment,
            "second_treatment": self.second.treatment,
            "measure": self.measure,
            "verdict": self.kind,
            "sentence": self.sentence,
        }


def pairs_to_compare(
    first: RunLog, second: RunLog | None = None, treatments: Sequence[str] | None = None
) -> list[tuple[Arm, Arm]]:
    """The two treatments that are named, each in its run.

    Without names: every treatment of one run with its first, or those that two runs share.
    """
    if second is not None:
        require_same_texts(first.header, second.header)
    if treatments is not None:
        if len(treatments) != 2:
            raise FairspanError(
                f"treatments names two treatments, such as plain and paper, got {list(treatments)}."
            )
        before, after = treatments
        return [(Arm(first, before), Arm(second or first, after))]
    return _pairs_in(first) if second is None else _pairs_between(first, second)


def require_same_texts(first: Header, second: Header) -> None:
    """Raise if two evaluations searched other texts."""
    before = first.searched
    after = second.searched
    if before.fingerprints != after.fingerprints:
        raise FairspanError(
            f"{first.run} and {second.run} read different texts ({_texts_of(first)}; "
            f"{_texts_of(second)}): compare runs on the same texts."
        )


def _texts_of(header: Header) -> str:
    """What a run read, such as "passages, fingerprint 1f0e52aa"."""
    facts = [value for _, value in measured_on(header)]
    marks = [mark[:8] for mark in header.searched.fingerprints[:1]]
    return f"{', '.join(facts)}, fingerprint {marks[0]}" if marks else ", ".join(facts)


def _pairs_in(log: RunLog) -> list[tuple[Arm, Arm]]:
    baseline, *others = log.measured
    if not others:
        remedy = _remedy(log, ": name a second run to compare with.")
        raise FairspanError(f"of the run {log.run} only {baseline} was measured{remedy}")
    return [(Arm(log, baseline), Arm(log, other)) for other in others]


def _pairs_between(first: RunLog, second: RunLog) -> list[tuple[Arm, Arm]]:
    """Every treatment that both runs have; or the only one of each."""
    shared = [name for name in first.measured if name in second.measured]
    if not shared and len(first.measured) == len(second.measured) == 1:
        return [(Arm(first, first.measured[0]), Arm(second, second.measured[0]))]
    if not shared:
        unfinished = first if first.unfinished else second
        remedy = _remedy(unfinished, ": name one of each with treatments.")
        raise FairspanError(
            f"the runs share no treatment ({', '.join(first.measured)}; "
            f"{', '.join(second.measured)}){remedy}"
        )
    return [(Arm(first, name), Arm(second, name)) for name in shared]


def _remedy(log: RunLog, otherwise: str = ".") -> str:
    """The end of a sentence on what a run did not measure: what to do if it has not finished."""
    if not log.unfinished:
        return otherwise
    return f": {log.unfinished}. Run its command again, which continues where it stopped."
