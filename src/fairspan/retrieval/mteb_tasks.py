"""Tasks of the mteb benchmark: mteb runs them, and what paired statistics need of a run is read back."""

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from fairspan.encoding.encoder import ENGINE
from fairspan.errors import MissingExtra, TaskError
from fairspan.model.fingerprint import fingerprint

# An `mteb.AbsTask`. mteb is an extra, which not even the types may need.
Task = Any

Ranking = tuple[tuple[str, float], ...]
"""Documents and their scores, best first; equal scores by document id, descending, as trec_eval ranks them."""

# What models call their prompt for documents when they do not call it "document".
_OTHER_NAMES = ("passage", "corpus")


@dataclass(frozen=True, slots=True)
class MtebPart:
    """One split of one subset of a task, in languages such as "eng-Latn".

    Of a search it has for each query what was found, as mteb scored it, and the gain of every judged document.
    """

    split: str
    subset: str
    languages: tuple[str, ...]
    main_score: float
    rankings: Mapping[str, Ranking]
    relevant: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class MtebResult:
    """What one model reached in one task: the main score is the mean of `measure`, such as "ndcg_at_10", over parts.

    `kind` is mteb's type of task, such as "Retrieval" or "STS", and `folder` has mteb's own files of this run.
    """

    task: str
    kind: str
    measure: str
    main_score: float
    parts: tuple[MtebPart, ...]
    dataset_revision: str
    mteb_version: str
    folder: Path


def find_task(name: str, *, languages: Sequence[str] | None = None, splits: Sequence[str] | None = None) -> Task:
    """A task of mteb by its name.

    Args:
        languages: to be kept of a task in several, as "deu" or "deu-Latn".
        splits: to be run, by default those that mteb evaluates.
    """
    library = _library()
    try:
        task = library.get_task(name, languages=languages, eval_splits=splits)
    except KeyError as error:
        meant = str(error.args[0]).partition("Did you mean: ")[2]
        hint = f"did you mean {meant}" if meant else "mteb.get_tasks() lists them."
        raise TaskError(f"mteb has no task {name!r}: {hint}") from None
    except ValueError as error:
        raise TaskError(f"{name} cannot be limited to the languages {', '.join(languages or ())}: {error}") from None
    unknown = [split for split in splits or () if split not in task.metadata.eval_splits]
    if unknown:
        raise TaskError(f"{name} has no split {unknown[0]!r}: it has {', '.join(task.metadata.eval_splits)}.")
    return task


def run_mteb(model: SentenceTransformer, task: str | Task, folder: Path | str) -> MtebResult:
    """Run a task with `mteb.evaluate`, or read what an earlier call left in the folder.

    mteb embeds queries with `encode_query` and documents with `encode_document`, so a calibration limited to one side
    acts on that side. Tasks that know no sides, such as STS and classification, embed with `encode`, which to a
    calibration is the document side.

    mteb saves after every split and subset; the same call goes on after the last one, and returns at once when
    nothing is missing. Every model and calibration has a place of its own in the folder: by the name alone, which is
    all that mteb goes by, a calibrated model would be given the scores of the plain one.

    Args:
        task: the name of a task, or an `mteb.AbsTask`, which is identified by the revision of its dataset.
        folder: for results, rankings and relevance judgements.
    """
    library = _library()
    task = find_task(task) if isinstance(task, str) else task
    _refuse_unsupported(library, task)
    with _prompts_as_mteb_names_them(model):
        identity = _identity(library, model, task)
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()
        home = Path(folder) / task.metadata.name / digest[:16]
        run = _Run(library, model, task, home)
        found = run.read()
        if found is None:
            _write(home / "run.json", identity)
            run.complete()
            found = run.read()
    if found is None:
        raise TaskError(f"mteb finished {task.metadata.name} without leaving all results in {home}.")
    return found


class _Run:
    """One model in one task, in a folder that no other model or calibration uses."""

    def __init__(self, library: ModuleType, model: SentenceTransformer, task: Task, home: Path) -> None:
        self._library, self._model, self._task, self._home = library, model, task, home
        self._searches = isinstance(task, library.abstasks.AbsTaskRetrieval)
        self._predictions = home / "predictions" / task.prediction_file_name
        self._relevant = home / "relevant.json"

    def read(self) -> MtebResult | None:
        """The result, or None if a part of it is missing."""
        try:
            found = self._evaluate("only-cache")
        except ValueError:
            return None
        scores = {(split, one["hf_subset"]): one for split, ones in found.scores.items() for one in ones}
        rankings, relevant = _read(self._predictions), _read(self._relevant)
        try:
            parts = [self._part(split, scores[split, subset], rankings, relevant) for split, subset in self._wanted()]
        except KeyError:
            return None
        return MtebResult(
            task=found.task_name,
            kind=str(self._task.metadata.type),
            measure=self._task.metadata.main_score,
            main_score=float(np.mean([part.main_score for part in parts])),
            parts=tuple(parts),
            dataset_revision=found.dataset_revision,
            mteb_version=found.mteb_version,
            folder=self._home,
        )

    def complete(self) -> None:
        """Let mteb compute what is missing."""
        self._discard_damaged()
        # A task goes on drawing samples where it stopped, and treatments are to be compared on the same ones.
        self._task.rng_state = random.Random(self._task.seed)
        self._task.np_rng = np.random.default_rng(self._task.seed)
        with loaded(self._task):
            self._evaluate("only-missing")
            if self._searches:
                self._save_relevant()

    def _evaluate(self, strategy: str) -> Any:
        results = self._library.evaluate(
            self._model,
            self._task,
            cache=self._library.ResultCache(self._home),
            prediction_folder=self._predictions.parent if self._searches else None,
            overwrite_strategy=strategy,
            encode_kwargs={"batch_size": 32, "show_progress_bar": False},
            show_progress_bar=False,
            co2_tracker=False,
        )
        return results.task_results[0]

    def _wanted(self) -> list[tuple[str, str]]:
        return [(split, subset) for split in self._task.eval_splits for subset in self._task.hf_subsets]

    def _part(self, split: str, scores: Mapping[str, Any], rankings: Any, relevant: Any) -> MtebPart:
        subset = scores["hf_subset"]
        ranked: dict[str, Ranking] = {}
        judged: dict[str, Mapping[str, float]] = {}
        if self._searches:
            ranked = {query: self._ranking(query, found) for query, found in rankings[subset][split].items()}
            judged = {query: relevant[subset][split][query] for query in ranked}
        languages, main_score = tuple(scores["languages"]), float(scores["main_score"])
        return MtebPart(split, subset, languages, main_score, ranked, judged)

    def _ranking(self, query: str, found: dict[str, float]) -> Ranking:
        """What mteb scores of what it found: some tasks omit the query itself, or the first document."""
        if self._task.ignore_identical_ids:
            found = {document: score for document, score in found.items() if document != query}
        if self._task.skip_first_result and found:
            first = max(found, key=lambda document: found[document])
            found = {document: score for document, score in found.items() if document != first}
        return tuple(sorted(found.items(), key=lambda item: (item[1], item[0]), reverse=True))

    def _save_relevant(self) -> None:
        relevant = _read(self._relevant)
        data = self._task.dataset
        for split, subset in self._wanted():
            own = data[split] if subset == "default" and subset not in data else data[subset][split]
            judged = {query: dict(gains) for query, gains in own["relevant_docs"].items()}
            relevant.setdefault(subset, {})[split] = judged
        _write(self._relevant, relevant)

    def _discard_damaged(self) -> None:
        """Remove what a killed run left half written, and scores whose rankings are gone: mteb computes both anew."""
        rankings = _read(self._predictions)
        if not rankings:
            self._predictions.unlink(missing_ok=True)
        ranked = {(split, subset) for subset, splits in rankings.items() for split in splits}
        for file in (self._home / "results").rglob(f"{self._task.metadata.name}.json"):
            scores = _read(file).get("scores", {})
            scored = {(split, one["hf_subset"]) for split, ones in scores.items() for one in ones}
            if not scored or (self._searches and not scored <= ranked):
                file.unlink()


def _library() -> ModuleType:
    try:
        return import_module("mteb")
    except ModuleNotFoundError as error:
        missing = "mteb" if error.name == "mteb" else f"{error.name}, which mteb imports"
        raise MissingExtra(f"a task of mteb needs {missing}: pip install 'fairspan[mteb]'.") from None


def _refuse_unsupported(library: ModuleType, task: Task) -> None:
    if not isinstance(task, library.AbsTask):
        raise TaskError(f"a task is the name of one of mteb's, or an mteb.AbsTask, got {type(task).__name__}.")
    name, kind = task.metadata.name, task.metadata.type
    if task.is_aggregate:
        parts = [part.metadata.name for part in task.metadata.tasks]
        raise TaskError(f"{name} is the mean of {len(parts)} tasks: run each of them ({', '.join(parts)}).")
    if set(task.modalities) != {"text"}:
        contents = " and ".join(sorted(task.modalities))
        raise TaskError(f"{name} is a task of type {kind} on {contents}: fairspan embeds text alone.")


def require_search(task: Task) -> None:
    """Raise unless it is a search of texts."""
    library = _library()
    _refuse_unsupported(library, task)
    if not isinstance(task, library.abstasks.AbsTaskRetrieval):
        name, kind = task.metadata.name, task.metadata.type
        raise TaskError(
            f"{name} is a task of type {kind}, whose score is no mean over queries: name a task of type Retrieval."
        )


@contextmanager
def _prompts_as_mteb_names_them(model: SentenceTransformer) -> Iterator[None]:
    """Until the end of a run, the prompt for documents is named "document".

    mteb ignores other names, and so does `encode_document`, because every model has a "document", if an empty one.
    """
    given = model.prompts
    prompts = dict(given)
    found = [prompts.get(name) for name in ("document", *_OTHER_NAMES)]
    for name in _OTHER_NAMES:
        if name != model.default_prompt_name:
            prompts.pop(name, None)
    prompts["document"] = next((prompt for prompt in found if prompt), "")
    model.prompts = prompts
    try:
        yield
    finally:
        model.prompts = given


@contextmanager
def loaded(task: Task) -> Iterator[None]:
    """Its data, for as long as they are needed."""
    if task.data_loaded:
        yield
        return
    try:
        task.load_data()
    except Exception as error:  # tasks load in ways of their own, and let through whatever these raise
        source = task.metadata.dataset["path"]
        reason = f"{type(error).__name__}: " + str(error).strip().partition("\n")[0].rstrip(".")
        if isinstance(error, ConnectionError):
            reason = "the Hugging Face hub could not be reached"
        raise TaskError(f"the dataset {source} of {task.metadata.name} could not be loaded: {reason}.") from None
    try:
        yield
    finally:
        task.unload_data()


def _identity(library: ModuleType, model: SentenceTransformer, task: Task) -> dict[str, Any]:
    """All that decides a result, in JSON."""
    configurations = [module.get_config_dict() for module in model.modules() if hasattr(module, "get_config_dict")]
    return {
        "task": task.metadata.name,
        "dataset": dict(task.metadata.dataset),
        "seed": task.seed,
        "mteb": library.__version__,
        "model": fingerprint(model),
        "engine": ENGINE,
        "calibrations": [one["calibration"] for one in configurations if "calibration" in one],
        "prompts": dict(model.prompts),
        "default_prompt": model.default_prompt_name,
        "window": model.max_seq_length,
        "similarity": str(model.similarity_fn_name),
    }


def _read(file: Path) -> dict[str, Any]:
    """A JSON object; empty if the file is not there, or was not written to its end."""
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found


def _write(file: Path, values: Mapping[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(values, indent=2, default=str), encoding="utf-8")
    unfinished.replace(file)
