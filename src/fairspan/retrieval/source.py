"""`TaskSource`: what is searched, as a user names it: pages or passages of a corpus, or a collection."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fairspan.corpus.corpus import Corpus
from fairspan.design.design import Design
from fairspan.design.lengths import TokenCounter
from fairspan.design.plan import LanguagePlan, choose_plans, languages_of
from fairspan.errors import TaskError
from fairspan.retrieval.beir import read_beir
from fairspan.retrieval.evidence import has_translations, read_evidence
from fairspan.retrieval.pages import PageQueries, build_pages
from fairspan.retrieval.passages import build_passages
from fairspan.retrieval.records import LAYOUTS
from fairspan.retrieval.task import RetrievalTask

PAGES, PASSAGES = "pages", "passages"
BEIR, MTEB = "beir:", "mteb:"
PER_DOCUMENT = 3
"""Passages that are cut out of a document."""
KNOWN = "'pages', 'passages', the folder or file of a collection, 'beir:FOLDER' or 'mteb:NAME'"
# Options that only one kind of task has, with their defaults.
_OF_COLLECTIONS: dict[str, Any] = {"documents": None, "language": None, "unit": "article", "split": "test"}
_OF_PAGES: dict[str, Any] = {
    "corpus": "sample",
    "mixed": (),
    "partial": False,
    "size": 4,
    "sets": 100,
    "opening": None,
    "min_tokens": None,
    "max_tokens": None,
    "query": "held-out",
    "query_tokens": 60,
    "query_language": None,
    "editions": None,
    "distractors": 0,
}
# Those of pages that passages have as well.
_OF_PASSAGES = ("corpus", "sets", "query_tokens")


@dataclass(frozen=True, slots=True)
class TaskSource:
    """A task by its name, and the options that say what is read or built; `fairspan.evaluate` explains them.

    `fitted` says that a corpus to fit on is read in `language`, so that a BEIR folder may be given one.
    """

    task: str = PAGES
    corpus: str = "sample"
    languages: tuple[str, ...] | None = None
    mixed: str | tuple[str, ...] = ()
    partial: bool = False
    design: Design = field(default_factory=lambda: Design(sets=100))
    queries: PageQueries = field(default_factory=PageQueries)
    documents: str | None = None
    language: str | None = None
    unit: str = "article"
    split: str = "test"
    fitted: bool = False

    def __post_init__(self) -> None:
        """What was changed and would do nothing for this kind of task is a mistake."""
        if not isinstance(self.task, str) or not self.task.strip():
            raise TaskError(f"a task is {KNOWN}, got {self.task!r}.")
        queries, design = self.queries, self.design
        own: tuple[Any, ...] = (self.documents, self.language, self.unit, self.split)
        of_collections = dict(zip(_OF_COLLECTIONS, own, strict=True))
        own = (self.corpus, self.mixed, self.partial, *design.sizes, design.sets, design.opening)
        own += (design.min_tokens, design.max_tokens, queries.kind, queries.tokens, queries.language)
        of_pages = dict(zip(_OF_PAGES, (*own, queries.editions, queries.distractors), strict=True))
        match self.task:
            case "pages":
                why, given = "pages are built from a corpus", of_collections
            case "passages":
                why = "passages are cut out of the documents of a corpus"
                given = of_collections | {name: of_pages[name] for name in of_pages if name not in _OF_PASSAGES}
            case _:
                why, given = f"{self.task} brings its own documents and queries", of_pages
        for option, value in given.items():
            if value != {**_OF_COLLECTIONS, **_OF_PAGES}[option]:
                raise TaskError(f"{why}, so [[{option}]] would do nothing: omit it.")
        if self.is_built or self.languages is None or self.fitted:
            return
        if self.language is not None or self._is_elsewhere:
            raise TaskError(f"{why}, so [[languages]] would do nothing: omit it, or choose one with [[language]].")
        if len(set(self.languages)) < 2 or len(set(self.languages)) < len(self.languages):
            named = ", ".join(map(repr, self.languages)) or "none"
            raise TaskError(
                f"a search across languages needs at least two different [[languages]], got {named}: name more, or "
                "choose one with [[language]]."
            )

    @property
    def is_built(self) -> bool:
        """Whether it is made from a corpus, without labels."""
        return self.task in (PAGES, PASSAGES)

    @property
    def _is_elsewhere(self) -> bool:
        """Whether it is in a layout of its own, without translations."""
        return self.task.startswith((BEIR, MTEB)) or (Path(self.task).expanduser() / "qrels").is_dir()

    @property
    def too_long(self) -> str | None:
        """What becomes of documents that no treatment reads whole, unless somebody says; None for the usual."""
        return "shorten" if self.task == PASSAGES else None

    def read(self, counter: TokenCounter) -> tuple[RetrievalTask, ...]:
        """The indexes to search: one for each edition of pages, one for each language of passages, or one.

        Of a collection in several languages there is one for each, which `combine_languages` makes indexes of.
        """
        if self.task == PAGES:
            plans, corpus = self.read_corpus()
            return build_pages(corpus, plans, self.design, counter, self.queries)
        if self.task == PASSAGES:
            plans, corpus = self.read_corpus()
            documents, seed = self.design.sets, self.design.seed
            settings = {"tokens": self.queries.tokens, "per_document": PER_DOCUMENT}
            return build_passages(corpus, languages_of(plans), counter, **settings, documents=documents, seed=seed)
        if self.task.startswith(MTEB):
            from fairspan.retrieval.mteb_reading import read_mteb  # imports torch

            # "test" means mteb's own choice, which it is for most tasks.
            split = None if self.split == "test" else self.split
            return (read_mteb(self.task.removeprefix(MTEB), language=self.language, split=split),)
        return self.read_collections()

    def read_corpus(self) -> tuple[tuple[LanguagePlan, ...], Corpus]:
        """The language plans of a task that is built from a corpus, and that corpus."""
        also = [self.queries.language] if self.queries.language else []
        # Passages of one language need no translations.
        partial = self.partial or self.task == PASSAGES
        return choose_plans(self.corpus, self.languages, self.mixed, partial=partial, also=also)

    def read_collections(self) -> tuple[RetrievalTask, ...]:
        """A collection in each of several languages, or in one."""
        path, languages = Path(self.task).expanduser(), self.languages or ()
        # Otherwise these are the languages of the corpus to fit on.
        several = len(languages) > 1 and self.language is None and not self._is_elsewhere and path.exists()
        if not several or (self.fitted and not has_translations(path)):
            return (self.read_collection(),)
        if not has_translations(path):
            raise TaskError(
                f"{path.name} is not in several languages, so [[languages]] would do nothing: omit it. It is for "
                f"{LAYOUTS[1]}."
            )
        return tuple(replace(self, languages=None, language=language).read_collection() for language in languages)

    def read_collection(self) -> RetrievalTask:
        """A collection of documents and queries."""
        if self.task.startswith(BEIR):
            return self._read_beir(self.task.removeprefix(BEIR))
        path = Path(self.task).expanduser()
        if not path.exists():
            raise TaskError(f"there is no task {self.task!r}: it is {KNOWN}.")
        if (path / "qrels").is_dir():
            return self._read_beir(path)
        if self.split != "test":
            raise TaskError(f"{path.name} is not in BEIR's layout, so [[split]] would do nothing: omit it.")
        documents = None if self.documents is None else Path(self.documents)
        return read_evidence(path, language=self.language, documents=documents, unit=self.unit)

    def _read_beir(self, folder: Path | str) -> RetrievalTask:
        for option, plain in (("documents", None), ("language", None), ("unit", "article")):
            if getattr(self, option) != plain and not (option == "language" and self.fitted):
                raise TaskError(
                    f"a BEIR folder has everything in one place, so [[{option}]] would do nothing: omit it."
                )
        return read_beir(folder, split=self.split)
