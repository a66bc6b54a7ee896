"""Search across languages: the same questions and documents in several languages, in indexes of mixed languages."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fairspan.errors import CorpusError
from fairspan.retrieval.measured import MeasuredTask, Position
from fairspan.retrieval.task import Evidence, RetrievalTask

MIXED, PARALLEL = "mixed", "parallel"


def combine_languages(tasks: Sequence[MeasuredTask], *, seed: int) -> tuple[MeasuredTask, ...]:
    """What to search across languages, made of one task per language with the same ids of questions and documents.

    Every question is asked in every language. First come as many "mixed" indexes as there are languages. Each has
    every document in one language, as many in each language as in any other to within one, and over all of them
    every document is in every language once. Then comes the "parallel" index, with all translations, all relevant.
    What is not there in every language is left out of all, and noted.
    """
    spoken = {one.task.queries[0].language: one for one in tasks}
    texts = {
        language: {one.id: one for one in own.task.documents} for language, own in spoken.items()
    }
    articles = _common(texts.values())
    asked = {
        language: {one.id: one for one in own.task.queries} for language, own in spoken.items()
    }
    answers = {name: _answer(name, tasks) for name in _common(asked.values())}
    answers = {name: article for name, article in answers.items() if article in articles}
    if not answers or len(articles) < 2:
        raise CorpusError(
            f"{', '.join(spoken)} have {len(answers)} questions and {len(articles)} documents in common, too few to "
            "search: questions and documents need the same ids in every language."
        )
    queries = tuple(
        replace(asked[language][name], id=_id(name, language), cluster=answers[name])
        for name in answers
        for language in spoken
    )
    query_lengths = {
        _id(name, language): own.query_lengths[name]
        for name in answers
        for language, own in spoken.items()
    }
    stem = tasks[0].task.name.removesuffix(f"-{tasks[0].task.queries[0].language}")
    title, notes = f"{stem} across {', '.join(spoken)}", _notes(spoken, articles, answers)

    def index(chosen: Sequence[tuple[str, str]], kind: str, edition: int) -> MeasuredTask:
        """The documents `chosen` by id and language."""
        languages_of: dict[str, list[str]] = {}
        for article, language in chosen:
            languages_of.setdefault(article, []).append(language)
        documents = tuple(
            replace(texts[language][article], id=_id(article, language))
            for article, language in chosen
        )
        lengths = {
            _id(article, language): spoken[language].lengths[article]
            for article, language in chosen
        }
        relevant = {
            query.id: {
                _id(query.cluster, language): 1.0 for language in languages_of[query.cluster]
            }
            for query in queries
        }
        evidence: dict[str, Evidence] = {}
        positions: dict[str, Position] = {}
        for name, article in answers.items() if kind == MIXED else ():
            (there,) = languages_of[article]
            found = spoken[there].task.evidence.get(name)
            for query in (_id(name, language) for language in spoken if found is not None):
                assert found is not None
                evidence[query] = replace(found, document=_id(article, there))
                positions[query] = spoken[there].positions[name]
        called = f"{title}, {f'edition {edition + 1}' if kind == MIXED else 'all translations'}"
        task = RetrievalTask(
            called, queries, documents, relevant, evidence, edition, notes=notes, across=kind
        )
        return MeasuredTask(task, lengths, query_lengths, positions)

    editions = rotate(articles, list(spoken), seed)
    every = [(article, language) for article in articles for language in spoken]
    found = [index(chosen, MIXED, edition) for edition, chosen in enumerate(editions)]
    return (*found, index(every, PARALLEL, len(editions)))


def rotate(
    articles: Sequence[str], languages: Sequence[str], seed: int
) -> list[list[tuple[str, str]]]:
    """For each edition the language of every article: a Latin rotation of the articles in random order."""
    drawn = np.random.default_rng(seed).permutation(len(articles)).tolist()
    count = len(languages)
    return [
        [
            (article, languages[(number + edition) % count])
            for article, number in zip(articles, drawn, strict=True)
        ]
        for edition in range(count)
    ]


def _id(name: str, language: str) -> str:
    return f"{name}/{language}"


def _common(named: Collection[Mapping[str, object]]) -> list[str]:
    """The names that all have, in the order of the first."""
    return [name for name in next(iter(named)) if all(name in own for own in named)]


def _answer(name: str, tasks: Sequence[MeasuredTask]) -> str:
    """The document that answers a question in every language."""
    found = {document for one in tasks for document in one.task.relevant[name]}
    if len(found) != 1:
        raise CorpusError(
            f"the question {name!r} asks for {' and '.join(map(repr, sorted(found)))} in different languages: give "
            "translations of a document the same id."
        )
    return found.pop()


def _notes(
    spoken: Mapping[str, MeasuredTask], articles: Sequence[str], answers: Mapping[str, str]
) -> tuple[str, ...]:
    said: dict[str, list[str]] = {}
    for language, own in spoken.items():
        for note in own.task.notes:
            said.setdefault(note, []).append(language)
    notes = [f"{', '.join(languages)}: {note}" for note, languages in said.items()]
    tasks = [own.task for own in spoken.values()]
    questions = len({query.id for task in tasks for query in task.queries})
    documents = len({document.id for task in tasks for document in task.documents})
    for what, there, kept in (
        ("questions", questions, len(answers)),
        ("documents", documents, len(articles)),
    ):
        if kept < there:
            notes.append(
                f"{there - kept} of {there} {what} are missing in some language and were left out of all"
            )
    return tuple(notes)
