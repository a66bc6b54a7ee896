"""Searches of mteb, found by name and read query by query."""

import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from fairspan.errors import CorpusError, MissingExtra, first_line
from fairspan.retrieval.task import Passage, Query, RetrievalTask, same_texts


def read_mteb(name: str, language: str | None = None) -> RetrievalTask:
    """A search of mteb that has one subset, or one in that language; of its splits the first.

    Documents have the title before the text, as for mteb. Queries that nothing answers are omitted.
    """
    task = find_task(name, language)
    load_task(task)
    data = dict(splits_of(task))[task.eval_splits[0]]
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
    omitted = len(texts) - len(queries)
    notes = (f"{omitted} queries that nothing answers were left out",) if omitted else ()
    # Where queries are documents, such as arguments, one does not search for itself.
    identical = getattr(task, "ignore_identical_ids", False)
    itself = {query.id: frozenset({query.id}) for query in queries if documents.get(query.id)}
    return RetrievalTask(
        task.metadata.name,
        queries,
        passages,
        relevant,
        left_out=itself if identical else {},
        notes=(*notes, *same_texts(passages)),
    )


def find_task(name: str, language: str | None = None) -> Any:
    """A search of texts, an `mteb.AbsTask`, by its name; of subsets, that in one language only."""
    mteb = mteb_library()
    languages = None if language is None else [language]
    try:
        # mteb warns of tasks that have a newer version.
        with warnings.catch_warnings(action="ignore"):
            task = mteb.get_task(
                name, languages=languages, exclusive_language_filter=language is not None
            )
    except KeyError as error:
        meant = str(error.args[0]).partition("Did you mean: ")[2]
        hint = f"did you mean {meant}" if meant else "mteb.get_tasks() lists them."
        raise CorpusError(f"mteb has no task {name!r}: {hint}") from None
    except ValueError as error:
        raise CorpusError(f"{name} cannot be limited to the language {language}: {error}") from None
    kind = "an aggregate" if task.is_aggregate else str(task.metadata.type)
    if kind != "Retrieval" or set(task.modalities) != {"text"}:
        contents = " and ".join(sorted(task.modalities))
        raise CorpusError(
            f"{name} is {kind} on {contents}, and evaluate takes one search of texts: score it by "
            "mteb.evaluate with fairspan.mteb_model(…)."
        )
    subsets = list(task.hf_subsets)
    if len(subsets) > 1:
        listed = ", ".join(subsets[:6])
        raise CorpusError(
            f"{name} has {len(subsets)} subsets ({listed}, …): choose a language with languages."
        )
    return task


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


def splits_of(task: Any) -> Iterator[tuple[str, Any]]:
    """The splits of each subset, by name."""
    for subset in task.hf_subsets:
        is_flat = subset == "default" and subset not in task.dataset
        yield from (task.dataset if is_flat else task.dataset[subset]).items()


def mteb_library() -> ModuleType:
    """mteb. It imports pytrec_eval, which some platforms lack, and needs it only to score."""
    absent = find_spec("pytrec_eval") is None
    if absent:
        sys.modules["pytrec_eval"] = ModuleType("pytrec_eval")
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
