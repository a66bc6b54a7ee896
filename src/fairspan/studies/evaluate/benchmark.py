"""`PreparedBenchmark`: tasks of mteb of any type, which mteb scores under every treatment."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.metadata import version
from typing import Any

import numpy as np

from fairspan.calibration.calibration import Side
from fairspan.calibration.treatment import PLAIN, Treatment
from fairspan.encoding.encoder import Encoder, Text
from fairspan.encoding.text import key_of
from fairspan.retrieval.mteb_reading import load_task
from fairspan.retrieval.mteb_scoring import MtebEncoder, contents_hash, score_task, texts_of
from fairspan.retrieval.source import MtebSource
from fairspan.runs.fit_part import FitPart, choose_fit_part
from fairspan.runs.header import Header, TaskInfo
from fairspan.runs.identity import Identity, hash_of
from fairspan.runs.prepared import Work
from fairspan.runs.progress import Progress
from fairspan.runs.rows import as_rows
from fairspan.runs.study import Run
from fairspan.runs.subject import Subject, Treated, fit_pairs
from fairspan.runs.suited import refuse_unsuited
from fairspan.studies.evaluate.measures import EvaluateEntries
from fairspan.studies.evaluate.options import EvaluateOptions


@dataclass(frozen=True)
class PreparedBenchmark:
    """Tasks whose data are loaded, and texts to fit on.

    `states` is by the name of a task what decides the score of the same vectors.
    """

    subject: Subject
    options: EvaluateOptions
    tasks: tuple[Any, ...]
    states: Mapping[str, list[Any]]
    fit: FitPart

    @property
    def text_hashes(self) -> list[Any]:
        return list(self.states.values())

    @property
    def notes(self) -> list[str]:
        return [
            f"mteb has a newer version of {task.metadata.name}: {task.superseded_by}"
            for task in self.tasks
            if task.superseded_by
        ]

    @property
    def scope(self) -> str:
        count = len(self.options.compared)
        return f"{len(self.tasks)} tasks of mteb" + (f" × {count} treatments" if count > 1 else "")

    def describe(self, header: Header) -> Header:
        """The header with the names and the revisions of the tasks."""
        info = TaskInfo(
            source=self.options.task,
            names=[task.metadata.name for task in self.tasks],
            fingerprints=[hash_of(state) for state in self.states.values()],
            queries=0,
            documents=0,
        )
        return replace(header, task=info, study=EvaluateEntries())

    def work(self, under: Callable[[Treatment], Treated]) -> list[Work]:
        """About what mteb embeds for each treatment: every text of what is scored."""
        strings = list(dict.fromkeys(text for task in self.tasks for text in texts_of(task)))
        texts = list(map(Text, strings, self.subject.counter.count_whole(strings)))
        stages = []
        for treatment in self.options.compared:
            fitted = fit_pairs(treatment, self.fit, under)
            facts = {"reads": self.subject.window(treatment), "texts": len(texts)}
            pairs = (*fitted, (under(treatment).documents, texts))
            stages.append(Work(treatment.name, pairs, facts=facts))
        return stages

    @cached_property
    def _identity(self) -> Identity:
        return Identity.of(self)

    def key(self, task: Any, treatment: Treatment) -> bytes:
        """Where the score of a task under a treatment is stored."""
        identity = self._identity
        model = self.subject.model
        decisive = {
            "weights": identity.weights,
            "prompts": [identity.prompts, self.options.prompt, self.options.query_prompt],
            "named": [_prompts_of(model), getattr(model, "default_prompt_name", None)],
            "similarity": identity.similarity,
            "calibrations": identity.calibrations,
            "windows": [identity.windows[name] for name in (PLAIN, treatment.name)],
            "versions": identity.versions,
            "treatment": {**treatment.to_dict(), "name": ""},
            "fit": self.fit.text_hashes if treatment.whitens else [],
            "task": self.states[task.metadata.name],
        }
        return key_of("score of mteb", hash_of(decisive))


def prepare_benchmark(
    subject: Subject, options: EvaluateOptions, progress: Progress
) -> PreparedBenchmark:
    """Load the data of all tasks, without embedding anything."""
    options.check()
    assert isinstance(options.searched, MtebSource)
    subject = subject.with_prompts(options.prompt, options.query_prompt)
    subject = subject.reading(options.compared)
    refuse_unsuited(subject, options.compared)
    tasks = options.searched.tasks
    for task in tasks:
        progress.stage(f"reading {task.metadata.name}")
        load_task(task)
    states = {task.metadata.name: _state_of(task) for task in tasks}
    fit = _fit_part(options, subject, tasks)
    return PreparedBenchmark(subject, options, tuple(tasks), states, fit)


def measure_benchmark(prepared: PreparedBenchmark, run: Run) -> None:
    """Score every task under every treatment; a score that is stored is not computed again."""
    under = cache(run.under)
    for number, task in enumerate(prepared.tasks, start=1):
        about = task.metadata
        for treatment in prepared.options.compared:
            place = f"{about.name} ({number} of {len(prepared.tasks)})"
            run.progress.stage(f"{place}: {treatment.name}")
            key = prepared.key(task, treatment)
            if run.store.missing([key]):
                encoder = _encoder(prepared, run, under(treatment))
                run.store.put({key: np.array([score_task(task, encoder)])})
            columns = {"treatment": treatment.name, "measure": about.main_score}
            columns |= {"document": about.name, "part": about.type}
            (score,) = run.store.get([key])[key]
            run.add(as_rows({**run.label, **columns, "value": [float(score)]}))
        task.unload_data()


def _encoder(prepared: PreparedBenchmark, run: Run, treated: Treated) -> MtebEncoder:
    """A model under a treatment as mteb calls it, which embeds what the store does not have."""
    subject = prepared.subject
    asked = {"query": prepared.options.query_prompt, None: prepared.options.prompt}
    asked["document"] = asked[None]

    @cache
    def parts(side: Side | None, prompt: str) -> tuple[Encoder, Any]:
        """What embeds and what counts the texts of a side with a prompt."""
        prompts = {"query": prompt, "document": prompt}
        counters = replace(subject, prompts=prompts).counters
        with_prompt = replace(treated, prompts=prompts)
        if side == "query":
            return with_prompt.queries, counters["query"]
        return with_prompt.documents, counters["document"]

    def embed(texts: Sequence[str], side: Side | None, prompt: str | None) -> np.ndarray:
        """[texts, d], with the prompt that was asked for, or mteb's choice, or the side's."""
        if asked[side] is not None:
            prompt = asked[side]
        elif prompt is None:
            prompt = _usual_prompt(subject, side)
        encoder, counter = parts(side, prompt)
        return run.embed(encoder, list(map(Text, texts, counter.count_whole(texts))))

    return MtebEncoder(embed, _prompts_of(subject.model), subject.similarity)


def _usual_prompt(subject: Subject, side: Side | None) -> str:
    """The prompt of a side, or of texts that have none."""
    if side is not None:
        return subject.prompts[side]
    name = getattr(subject.model, "default_prompt_name", None) or ""
    return _prompts_of(subject.model).get(name, "")


def _prompts_of(model: Any) -> dict[str, str]:
    prompts = getattr(model, "prompts", None) or {}
    return {name: prompt for name, prompt in prompts.items() if prompt is not None}


def _state_of(task: Any) -> list[Any]:
    """What decides the score of the same vectors, of a task whose data are loaded."""
    data = task.metadata.dataset
    parts = [list(task.hf_subsets), list(task.eval_splits)]
    state = [task.metadata.name, data["path"], data["revision"], *parts, version("mteb")]
    # Only a commit says that the data are the same; those of a task of one's own may change.
    is_commit = re.fullmatch("[0-9a-f]{40}", str(data["revision"])) is not None
    return state if is_commit else [*state, contents_hash(task)]


def _fit_part(options: EvaluateOptions, subject: Subject, tasks: Sequence[Any]) -> FitPart:
    """The texts that whitening is fitted on; none of them is in a task."""
    if not any(treatment.whitens for treatment in options.compared):
        return FitPart()
    tested = (text for task in tasks for text in texts_of(task))
    model = (subject.model, subject.counter)
    return choose_fit_part(options.compared, *model, options.fitting, tested, seed=options.seed)
