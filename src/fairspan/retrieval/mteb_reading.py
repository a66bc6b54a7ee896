"""A search task of mteb as a collection, for studies that need its queries one by one."""

from collections.abc import Mapping
from typing import Any

from fairspan.errors import TaskError
from fairspan.retrieval.mteb_tasks import find_task, loaded, require_search
from fairspan.retrieval.task import Passage, Query, RetrievalTask, same_texts


def read_mteb(name: str, *, language: str | None = None, split: str | None = None) -> RetrievalTask:
    """The documents, queries and judgements of a search task; its first split, in one subset.

    Documents are read as mteb reads them, the title before the text. Queries that nothing answers are left out.
    """
    languages, splits = None if language is None else [language], None if split is None else [split]
    task = find_task(name, languages=languages, splits=splits)
    require_search(task)
    with loaded(task):
        subsets = list(task.hf_subsets)
        if len(subsets) > 1:
            raise TaskError(
                f"{name} has {len(subsets)} subsets ({', '.join(subsets[:6])}, …): choose a language with "
                "[[language=]]."
            )
        part, subset = task.eval_splits[0], subsets[0]
        data = task.dataset
        own = data[part] if subset == "default" and subset not in data else data[subset][part]
        documents = [Passage(str(one["id"]), _text(one)) for one in own["corpus"]]
        texts = {str(one["id"]): str(one["text"]) for one in own["queries"]}
        judged = {str(query): dict(gains) for query, gains in own["relevant_docs"].items()}
    kept = tuple(document for document in documents if document.text)
    there = {document.id for document in kept}
    relevant = {query: _known(gains, there) for query, gains in judged.items() if query in texts}
    answered = tuple(Query(query, texts[query]) for query in texts if any(relevant.get(query, {}).values()))
    if not answered:
        raise TaskError(f"{name} has no query that one of its documents answers.")
    left_out = len(texts) - len(answered)
    notes = (f"{left_out} queries that nothing answers were left out",) if left_out else ()
    return RetrievalTask(name, answered, kept, relevant, notes=(*notes, *same_texts(kept)))


def _text(record: Mapping[str, Any]) -> str:
    return f"{record.get('title') or ''} {record.get('text') or ''}".strip()


def _known(gains: Mapping[str, Any], there: set[str]) -> dict[str, float]:
    return {str(name): max(0.0, float(gain)) for name, gain in gains.items() if str(name) in there}
