"""Search across languages: the same questions and documents, in indexes of mixed languages."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairspan.errors import CorpusError
from fairspan.retrieval.measured import MeasuredTask, Position
from fairspan.retrieval.task import Evidence, Passage, Query, RetrievalTask

MIXED = "mixed"
PARALLEL = "parallel"

Choice = tuple[str, str]
"""A document in one language: its id, and the language."""


def combine_languages(tasks: Sequence[MeasuredTask], *, seed: int) -> tuple[MeasuredTask, ...]:
    """What to search across languages, from one task per language with the same ids in all.

    First come as many "mixed" indexes as there are languages, each with every document in one
    language, then the "parallel" index with all translations, all relevant. What is not there in
    every language is left out of all, and noted.
    """
    parallel = _parallel(tasks)
    languages = list(parallel.tasks)
    editions = rotate(parallel.articles, languages, seed)
    mixed = [parallel.index(choices, MIXED, number) for number, choices in enumerate(editions)]
    every = [(article, language) for article in parallel.articles for language in languages]
    return (*mixed, parallel.index(every, PARALLEL, len(editions)))


@dataclass(frozen=True)
class _Parallel:
    """Tasks and documents by language; the ids of articles and questions that all languages have.

    `answers` has the article of each question, `queries` every question in every language.
    """

    tasks: Mapping[str, MeasuredTask]
    documents: Mapping[str, Mapping[str, Passage]]
    articles: Sequence[str]
    answers: Mapping[str, str]
    queries: tuple[Query, ...]

    def index(self, choices: Sequence[Choice], kind: str, edition: int) -> MeasuredTask:
        """The task of an index that holds these documents."""
        relevant: dict[str, dict[str, float]] = {article: {} for article in self.articles}
        documents = []
        lengths = {}
        for article, language in choices:
            id = _id(article, language)
            relevant[article][id] = 1.0
            documents.append(replace(self.documents[language][article], id=id))
            lengths[id] = self.tasks[language].lengths[article]
        title = f"edition {edition + 1}" if kind == MIXED else "all translations"
        evidence, positions = self._evidence(dict(choices) if kind == MIXED else {})
        task = RetrievalTask(
            f"{self._title}, {title}",
            self.queries,
            tuple(documents),
            {query.id: relevant[query.cluster] for query in self.queries},
            evidence,
            edition,
            notes=self._notes,
            across=kind,
        )
        query_lengths = {
            _id(name, language): measured.query_lengths[name]
            for name in self.answers
            for language, measured in self.tasks.items()
        }
        return MeasuredTask(task, lengths, query_lengths, positions)

    def _evidence(
        self, language_of: Mapping[str, str]
    ) -> tuple[dict[str, Evidence], dict[str, Position]]:
        """The evidence and its position for every query about articles in one language each."""
        evidence: dict[str, Evidence] = {}
        positions: dict[str, Position] = {}
        for name, article in self.answers.items():
            if article not in language_of:
                continue
            measured = self.tasks[language_of[article]]
            where = measured.task.evidence.get(name)
            if where is None:
                continue
            for language in self.tasks:
                query = _id(name, language)
                evidence[query] = replace(where, document=_id(article, language_of[article]))
                positions[query] = measured.positions[name]
        return evidence, positions

    @property
    def _title(self) -> str:
        language, first = next(iter(self.tasks.items()))
        return f"{first.task.name.removesuffix(f'-{language}')} across {', '.join(self.tasks)}"

    @property
    def _notes(self) -> tuple[str, ...]:
        """The notes of all languages, and how much is missing in some."""
        languages_by_note: dict[str, list[str]] = {}
        for language, measured in self.tasks.items():
            for note in measured.task.notes:
                languages_by_note.setdefault(note, []).append(language)
        notes = [f"{', '.join(languages)}: {note}" for note, languages in languages_by_note.items()]
        tasks = [measured.task for measured in self.tasks.values()]
        questions = {query.id for task in tasks for query in task.queries}
        documents = {document.id for task in tasks for document in task.documents}
        for what, ids, kept in (
            ("questions", questions, self.answers),
            ("documents", documents, self.articles),
        ):
            lost = f"{len(ids) - len(kept)} of {len(ids)} {what}"
            if len(kept) < len(ids):
                notes.append(f"{lost} are missing in some language and were left out of all")
        return tuple(notes)


def _parallel(tasks: Sequence[MeasuredTask]) -> _Parallel:
    """The questions and documents that all tasks have."""
    by_language = {measured.task.queries[0].language: measured for measured in tasks}
    documents: dict[str, dict[str, Passage]] = {}
    queries: dict[str, dict[str, Query]] = {}
    for language, measured in by_language.items():
        documents[language] = {document.id: document for document in measured.task.documents}
        queries[language] = {query.id: query for query in measured.task.queries}
    articles = _common(documents.values())
    answers = {name: _answer(name, tasks) for name in _common(queries.values())}
    answers = {name: article for name, article in answers.items() if article in articles}
    if not answers or len(articles) < 2:
        raise CorpusError(
            f"{', '.join(by_language)} have {len(answers)} questions and {len(articles)} documents "
            "in common, too few to search: questions and documents need the same ids in every "
            "language."
        )
    every_query = tuple(
        replace(queries[language][name], id=_id(name, language), cluster=article)
        for name, article in answers.items()
        for language in by_language
    )
    return _Parallel(by_language, documents, articles, answers, every_query)


def rotate(articles: Sequence[str], languages: Sequence[str], seed: int) -> list[list[Choice]]:
    """For each edition the language of every article: a Latin rotation of a random order."""
    drawn = np.random.default_rng(seed).permutation(len(articles)).tolist()
    editions = []
    for edition in range(len(languages)):
        order = [languages[(number + edition) % len(languages)] for number in drawn]
        editions.append(list(zip(articles, order, strict=True)))
    return editions


def _id(name: str, language: str) -> str:
    return f"{name}/{language}"


def _common(mappings: Collection[Mapping[str, object]]) -> list[str]:
    """The keys that all have, in the order of the first."""
    return [name for name in next(iter(mappings)) if all(name in other for other in mappings)]


def _answer(name: str, tasks: Sequence[MeasuredTask]) -> str:
    """The document that a question asks for in all languages."""
    by_language = [{*measured.task.relevant[name]} for measured in tasks]
    several = max(map(len, by_language))
    if several > 1:
        raise CorpusError(
            f"the question {name!r} has {several} relevant documents, and across languages it "
            "needs one: leave it out, or search each language by itself."
        )
    answers = set().union(*by_language)
    if len(answers) != 1:
        raise CorpusError(
            f"the question {name!r} asks for {' and '.join(map(repr, sorted(answers)))} in "
            "different languages: give translations of a document the same id."
        )
    return answers.pop()
