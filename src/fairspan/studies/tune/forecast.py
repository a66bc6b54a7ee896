"""What a tuning would do, without doing it: the tokens and the time of each of its stages."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from fairspan.calibration.treatment import Treatment
from fairspan.encoding.encoder import Encoder, Text
from fairspan.report.text import duration
from fairspan.runs.bases import Treated
from fairspan.runs.speed import on_trial, tokens_per_second, tokens_read
from fairspan.studies.tune.decision import GUARD, REFERENCE, REPORT, TUNE
from fairspan.studies.tune.prepare import DividedTask, PreparedTuning

# A trial embeds at most this share of what the run embeds.
_TRIAL = 0.05


@dataclass(frozen=True, slots=True)
class StageForecast:
    """A round on the part that is tuned on, or another part.

    Attributes:
        candidates: how many are searched with, beside the plain model. Of the guard part that is the least.
        tokens: those of texts that have no vector yet.
        seconds: at the speed of the plain model in a short trial on this machine.
    """

    stage: str
    candidates: int
    clusters: int
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run would embed, and how many tokens this machine reads in a second."""

    stages: tuple[StageForecast, ...]
    candidates: int
    speed: float

    @property
    def tokens(self) -> int:
        return sum(stage.tokens for stage in self.stages)

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages)

    def sentence(self, unit: str) -> str:
        count = f"{self.candidates} candidate{'' if self.candidates == 1 else 's'}"
        return f"{count}, {self.tokens:,} {unit} to embed, about {duration(self.seconds)}"

    def to_dict(self) -> dict[str, Any]:
        stages = [asdict(stage) for stage in self.stages]
        return {"stages": stages, "candidates": self.candidates, "tokens": self.tokens, "seconds": self.seconds}


def forecast(
    prepared: PreparedTuning,
    under: Callable[[Treatment], Treated] | None = None,
    missing: Callable[[Iterable[bytes]], set[bytes]] = set,
) -> Forecast:
    """Count what a run embeds, and time a small part of it with the plain model.

    Args:
        under: the model under a treatment.
        missing: those of some keys that have no vector yet; by default all of them.
    """
    spec, guards = prepared.spec, [task for task in prepared.tasks if task.is_guard]
    tasks = [task for task in prepared.tasks if not task.is_guard]
    make = under or (lambda one: on_trial(prepared.subject, one, prepared.fit))
    plain, *candidates = [make(treatment) for treatment in spec.treatments]
    counting, stages = _Counting(missing, set()), list[tuple[str, int, int, int]]()
    left, rounds = len(candidates), len(tasks[0].rounds)
    for number in range(rounds):
        last = number == rounds - 1
        tokens = counting.add(plain, tasks, TUNE, number)
        tokens += sum(counting.add(one, tasks, TUNE, number) for one in candidates) * left // len(candidates)
        tokens += counting.add_reference(plain, tasks, TUNE, number) if last else 0
        name = TUNE if rounds == 1 else f"{TUNE}, round {number + 1}"
        stages.append((name, left, _clusters(tasks, TUNE, number), tokens))
        left = -(-left // 2)
    for part in (GUARD, REPORT):
        own = [*tasks, *guards]
        tokens = counting.add(plain, own, part)
        tokens += counting.add_reference(plain, tasks, part) if part == REPORT else 0
        # Which candidate it is, is not known before.
        tokens += sum(counting.count(one, own, part) for one in candidates) // len(candidates)
        stages.append((part, 1, _clusters(own, part), tokens))
    total = sum(tokens for *_, tokens in stages)
    texts = tasks[0].plan(TUNE).flat
    speed = tokens_per_second(plain.documents, texts, most=int(_TRIAL * total)) if total else float("inf")
    found = [StageForecast(*stage, seconds=stage[-1] / speed) for stage in stages]
    return Forecast(tuple(found), len(candidates), speed)


@dataclass(frozen=True, slots=True)
class _Counting:
    """Counts the tokens of texts, each once under every encoder that gives it another vector."""

    missing: Callable[[Iterable[bytes]], set[bytes]]
    done: set[bytes]

    def count(self, treated: Treated, tasks: Iterable[DividedTask], part: str, number: int = 0) -> int:
        return sum(self._wanted(treated, tasks, part, number).values())

    def add(self, treated: Treated, tasks: Iterable[DividedTask], part: str, number: int = 0) -> int:
        return self._added(self._wanted(treated, tasks, part, number))

    def add_reference(self, treated: Treated, tasks: Iterable[DividedTask], part: str, number: int = 0) -> int:
        plans = [task.plan(part, number, REFERENCE) for task in tasks]
        return self._added(self._absent([(treated.documents, plan.flat) for plan in plans]))

    def _wanted(self, treated: Treated, tasks: Iterable[DividedTask], part: str, number: int) -> dict[bytes, int]:
        texts: list[tuple[Encoder, Iterable[Text]]] = []
        for task in tasks:
            texts.append((treated.queries, task.searching(part, number).queries()))
            texts.append((treated.documents, task.plan(part, number).flat))
        return self._absent(texts)

    def _absent(self, texts: Iterable[tuple[Encoder, Iterable[Text]]]) -> dict[bytes, int]:
        """The tokens of every text that has no vector, by its key."""
        found = {encoder.key(text): tokens_read(encoder, text) for encoder, own in texts for text in own}
        absent = self.missing([key for key in found if key not in self.done])
        return {key: tokens for key, tokens in found.items() if key in absent}

    def _added(self, found: dict[bytes, int]) -> int:
        self.done.update(found)
        return sum(found.values())


def _clusters(tasks: Iterable[DividedTask], part: str, number: int = 0) -> int:
    return sum(len(task.searching(part, number).clusters) for task in tasks)
