"""`TuningSpec`: everything that was asked of a tuning, as one frozen value."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairspan.calibration.treatment import AnyTreatment, Treatment, as_treatment
from fairspan.design.design import Design
from fairspan.errors import DesignError, TaskError, require_list, require_whole
from fairspan.retrieval.measured import TOO_LONG
from fairspan.retrieval.metrics import parse_metric
from fairspan.retrieval.pages import PageQueries
from fairspan.retrieval.source import BEIR, KNOWN, MTEB, PAGES, PASSAGES, TaskSource
from fairspan.studies.tune.decision import PLAIN
from fairspan.studies.tune.grid import read_grid

FAIRNESS = ("position", "language", "length")
SETS = 220
"""Pages: a quarter of them are the 50 clusters that a decision needs, also if some share a text."""


@dataclass(frozen=True, slots=True)
class TuningSpec:
    """What to choose for, from what, and under which conditions; `fairspan.tune` says what each field means."""

    tasks: tuple[TaskSource, ...]
    guards: tuple[TaskSource, ...]
    candidates: tuple[Treatment, ...]
    metric: str = "ndcg@10"
    fairness: str | None = None
    epsilon: float = 0.01
    max_cost: float | None = None
    chunk_tokens: int = 64
    too_long: str | None = None
    prompt: str | None = None
    query_prompt: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        parse_metric(self.metric)
        if self.fairness is not None and self.fairness not in FAIRNESS:
            raise DesignError(f"[[fairness]] must be one of {', '.join(FAIRNESS)}, got {self.fairness!r}.")
        if not _is_number(self.epsilon) or not 0 < self.epsilon < 1:
            raise DesignError(f"[[epsilon]] must be between 0 and 1, such as 0.01, got {self.epsilon!r}.")
        if self.max_cost is not None and (not _is_number(self.max_cost) or not 0 < self.max_cost < float("inf")):
            raise DesignError(
                f"[[max_cost]] is the time relative to the plain model, such as 1.2, got {self.max_cost!r}."
            )
        require_whole("chunk_tokens", self.chunk_tokens, kind=TaskError)
        require_whole("seed", self.seed, least=0)
        if self.too_long is not None and self.too_long not in TOO_LONG:
            raise TaskError(f"[[too_long]] must be one of {', '.join(TOO_LONG)}, got {self.too_long!r}.")
        for number, one in enumerate((*self.tasks, *self.guards)):
            if one in self.tasks[:number] and one in self.guards:
                raise TaskError(f"{named_source(one)} is a task and a guard: a guard needs other documents.")
            if one in (*self.tasks, *self.guards)[:number]:
                raise TaskError(f"{named_source(one)} is named twice: omit one.")

    @property
    def plain(self) -> Treatment:
        return as_treatment(PLAIN)

    @property
    def treatments(self) -> tuple[Treatment, ...]:
        """All that are measured, the plain model first."""
        return (self.plain, *self.candidates)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "tasks": [_source_dict(one) for one in self.tasks],
            "guards": [_source_dict(one) for one in self.guards],
            "treatments": [one.to_dict() for one in self.treatments],
            "metric": self.metric,
            "fairness": self.fairness,
            "epsilon": self.epsilon,
            "max_cost": self.max_cost,
            "chunk_tokens": self.chunk_tokens,
            "too_long": self.too_long,
            "prompt": self.prompt,
            "query_prompt": self.query_prompt,
            "seed": self.seed,
        }


def make_tuning(
    tasks: Sequence[str] | str = (PAGES,),
    *,
    guards: Sequence[str] | str = (),
    grid: str | Path | Sequence[AnyTreatment] = "small",
    metric: str = "ndcg@10",
    fairness: str | None = None,
    epsilon: float = 0.01,
    max_cost: float | None = None,
    chunk_tokens: int = 64,
    too_long: str | None = None,
    prompt: str | None = None,
    query_prompt: str | None = None,
    seed: int = 0,
    **options: Any,
) -> TuningSpec:
    """A spec from plain values; `options` are those of tasks, each for the tasks that it means something to."""
    named = [tasks] if isinstance(tasks, str) else list(tasks) or [PAGES]
    guarding = [guards] if isinstance(guards, str) else list(guards)
    sources, used = {}, set[str]()
    for name in (*named, *guarding):
        sources[name], own = make_source(name, seed, options)
        used |= own
    idle = next((option for option in options if option not in used), None)
    if idle is not None:
        raise TaskError(f"[[{idle}]] would do nothing for {', '.join([*named, *guarding])}: omit it.")
    return TuningSpec(
        tuple(sources[name] for name in named),
        tuple(sources[name] for name in guarding),
        read_grid(grid),
        metric,
        fairness,
        epsilon,
        max_cost,
        chunk_tokens,
        too_long,
        prompt,
        query_prompt,
        seed,
    )


def make_source(name: str, seed: int, options: dict[str, Any]) -> tuple[TaskSource, set[str]]:
    """A task by its name, with those of the options that it takes, and which these are.

    `pages:CORPUS` and `passages:CORPUS` are of another corpus than the one that the options name.
    """
    if not isinstance(name, str) or not name.strip():
        raise TaskError(f"a task is {KNOWN}, got {name!r}.")
    kind, colon, place = name.partition(":")
    if kind in (PAGES, PASSAGES):
        others = ("documents", "language", "split", "unit", *(["corpus"] if colon else []))
        if kind == PASSAGES:
            others += tuple(option for option in options if option not in _OF_PASSAGES)
        taken = {option: value for option, value in options.items() if option not in others}
        return _built(kind, {**taken, **({"corpus": place} if colon else {})}, seed), set(taken)
    beir = name.startswith((BEIR, MTEB)) or (Path(name).expanduser() / "qrels").is_dir()
    mteb = name.startswith(MTEB)
    known = ("split", "language") if mteb else ("split",) if beir else ("documents", "language", "unit")
    taken = {option: value for option, value in options.items() if option in known}
    return TaskSource(name, **taken), set(taken)


def _built(kind: str, options: dict[str, Any], seed: int) -> TaskSource:
    """Pages or passages from plain values."""
    own: dict[str, Any] = {name: options.pop(name) for name in ("corpus", "partial") if name in options}
    for option, example in (("languages", "['en']"), ("mixed", "['de:en']")):
        value = options.pop(option, None)
        if value is not None and not isinstance(value, str):
            require_list(option, value, example, TaskError)
            value = tuple(value)
        if value is not None:
            own[option] = value
    names = {"query": "kind", "query_tokens": "tokens", "query_language": "language"}
    asked = {names.get(option, option): options.pop(option) for option in _OF_QUERIES if option in options}
    size, sets = options.pop("size", 4), options.pop("sets", SETS)
    design = Design(sizes=(size,), sets=sets, seed=seed, **options)
    return TaskSource(kind, design=design, queries=PageQueries(**asked), **own)


_OF_PASSAGES = ("corpus", "languages", "sets", "query_tokens")
_OF_QUERIES = ("query", "query_tokens", "query_language", "editions", "distractors")


def named_source(source: TaskSource) -> str:
    """The task as a user names it."""
    return f"{source.task} of {source.corpus}" if source.is_built else source.task


def _source_dict(source: TaskSource) -> dict[str, Any]:
    """What was asked of a task, with the options that it takes."""
    if not source.is_built:
        values = {"documents": source.documents, "language": source.language, "unit": source.unit}
        return {"task": source.task, **values, "split": source.split}
    return {
        "task": source.task,
        "corpus": source.corpus,
        "languages": None if source.languages is None else list(source.languages),
        "mixed": source.mixed if isinstance(source.mixed, str) else list(source.mixed),
        "partial": source.partial,
        "design": source.design.to_dict(),
        "queries": asdict(source.queries),
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
