"""Tasks of mteb: found by name, and searches read query by query."""

import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from fairspan.errors import CorpusError, MissingExtra, first_line
from fairspan.retrieval import trec_scores
from fairspan.retrieval.task import Passage, Query, RetrievalTask, same_texts


def read_mteb(task: Any) -> RetrievalTask:
    """A search task that has one subset, as `find_task` gives it; of its splits the first.

    Documents have the title before the text, as for mteb. Queries that nothing answers are left
    out.
    """
    data = _data_of(task)
    documents = {
        str(row["id"]): f"{row.get('title') or ''} {row.get('text') or ''}".strip()
        for row in data["corpus"]
    }
    texts = {str(row["id"]): str(row["text"]) for row in data["queries"]}
    relevant: dict[str, dict[str, float]] = {id: {} for id in texts}
    for query, gains in data["relevant_docs"].items():
        for id, gain in gains.items():
            if str(query) in texts and documents.get(str(id)):
                relevant[str(query)][str(id)] = max(0.0, float(gain))
    queries = tuple(Query(id, text) for id, text in texts.items() if any(relevant[id].values()))
    passages = tuple(Passage(id, text) for id, text in documents.items() if text)
    left_out = len(texts) - len(queries)
    notes = (f"{left_out} queries that nothing answers were left out",) if left_out else ()
    name = task.metadata.name
    return RetrievalTask(name, queries, passages, relevant, notes=(*notes, *same_texts(passages)))


def find_task(name: str, *, language: str | None = None, split: str | None = None) -> Any:
    """A task of texts, an `mteb.AbsTask`, by its name; of subsets, those in one language only."""
    mteb = mteb_library()
    languages = None if language is None else [language]
    splits = None if split is None else [split]
    try:
        # mteb warns of tasks that have a newer version.
        with warnings.catch_warnings(action="ignore"):
            task = mteb.get_task(
                name,
                languages=languages,
                eval_splits=splits,
                exclusive_language_filter=language is not None,
            )
    except KeyError as error:
        meant = str(error.args[0]).partition("Did you mean: ")[2]
        hint = f"did you mean {meant}" if meant else "mteb.get_tasks() lists them."
        raise CorpusError(f"mteb has no task {name!r}: {hint}") from None
    except ValueError as error:
        raise CorpusError(f"{name} cannot be limited to the language {language}: {error}") from None
    if split is not None and split not in task.metadata.eval_splits:
        raise CorpusError(
            f"{name} has no split {split!r}: it has {', '.join(task.metadata.eval_splits)}."
        )
    if task.is_aggregate:
        parts = ", ".join(part.metadata.name for part in task.metadata.tasks)
        raise CorpusError(f"{name} is the mean of several tasks: name one or more of {parts}.")
    if set(task.modalities) != {"text"}:
        contents = " and ".join(sorted(task.modalities))
        raise CorpusError(f"{name} is a task on {contents}: name tasks on texts only.")
    return task


def is_search(task: Any) -> bool:
    """Whether a task searches all its documents; a reranking sorts a few of them."""
    return str(task.metadata.type) == "Retrieval"


def load_task(task: Any) -> None:
    """Load the data of a task, or raise one line."""
    try:
        with warnings.catch_warnings(action="ignore"):
            task.load_data()
    # Tasks load in ways of their own, and let through whatever these raise.
    except Exception as error:
        dataset = f"the dataset {task.metadata.dataset['path']} of {task.metadata.name}"
        reason = f"{type(error).__name__}: {first_line(error).rstrip('.')}"
        raise CorpusError(f"{dataset} could not be loaded: {reason}.") from None


def _data_of(task: Any) -> Any:
    """The tables `corpus`, `queries` and `relevant_docs`."""
    name = task.metadata.name
    if not is_search(task):
        raise CorpusError(
            f"{name} is a task of type {task.metadata.type}, which cannot be read query by query: "
            "name a search, or let evaluate score it."
        )
    subsets = list(task.hf_subsets)
    if len(subsets) > 1:
        listed = ", ".join(subsets[:6])
        raise CorpusError(
            f"{name} has {len(subsets)} subsets ({listed}, …): choose a language with language."
        )
    load_task(task)
    return dict(splits_of(task))[task.eval_splits[0]]


def splits_of(task: Any) -> Iterator[tuple[str, Any]]:
    """The splits of each subset, by name."""
    for subset in task.hf_subsets:
        is_flat = subset == "default" and subset not in task.dataset
        yield from (task.dataset if is_flat else task.dataset[subset]).items()


def mteb_library() -> ModuleType:
    """mteb, with our own scores of rankings if pytrec_eval is not installed."""
    absent = find_spec("pytrec_eval") is None
    if absent:
        sys.modules["pytrec_eval"] = trec_scores
    try:
        return import_module("mteb")
    except ModuleNotFoundError as error:
        missing = "mteb" if error.name == "mteb" else f"{error.name}, which mteb imports"
        raise MissingExtra(
            f"a task of mteb needs {missing}: pip install 'fairspan[mteb]'."
        ) from None
    finally:
        if absent:
            del sys.modules["pytrec_eval"]
