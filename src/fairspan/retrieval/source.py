"""`TaskSource`: what is searched, as a user names it: pages or passages of a corpus, or a collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.readers import LONG_SAMPLE, SAMPLE
from fairspan.design.design import Design
from fairspan.design.lengths import TokenCounter
from fairspan.design.plan import LanguagePlan, choose_plans, languages_of
from fairspan.errors import CorpusError, require_list, require_whole
from fairspan.retrieval.beir import files_of_positions, read_beir, read_positions
from fairspan.retrieval.pages import QUERIES, build_pages
from fairspan.retrieval.passages import PassageDraw
from fairspan.retrieval.task import LEAST_TOKENS, RetrievalTask

PAGES, PASSAGES = "pages", "passages"
BEIR, MTEB = "beir:", "mteb:"
KNOWN = "'pages', 'passages', the folder of a collection, 'beir:FOLDER' or 'mteb:NAME'"
# Options that only some kinds of task have.
_OF_COLLECTIONS = ("language", "split")
_OF_SEGMENTS = ("orders", "opening", "min_tokens", "max_tokens", "length_language", "length_ratio")
_OF_PAGES = ("mixed", "partial", "size", *_OF_SEGMENTS, "query", "query_language", "editions")


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """What is read or built for a task, besides its name.

    Attributes:
        corpus: of pages and passages, as in `audit`. "sample" is "long-sample" for passages.
        languages: of pages and passages. Of a collection in several languages, those to search across.
        mixed: languages lead:later of mixed pages, as in `audit`.
        partial: omit segments that lack a translation.
        size: number of segments per page.
        sets: number of pages, or of documents with passages, that are searched for.
        orders: how the segments of pages are ordered, as `design` in `audit`.
        editions: number of indexes, each with other orders; by default every segment is at every position once.
        query: what pages are searched with: "held-out", "first-sentence" or "title".
        query_tokens: length of the longest held-out query.
        query_language: ask in this language, whatever the language of the page.
        opening, min_tokens, max_tokens, length_language, length_ratio: of segments on pages, as in `audit`.
        language: of a collection that has several.
        split: of a collection that is divided.
        seed: of what is drawn, and of intervals.
    """

    corpus: str = field(default=SAMPLE, metadata={"source": True})
    languages: Sequence[str] | None = None
    mixed: str | Sequence[str] = ()
    partial: bool = False
    size: int = 4
    sets: int = 100
    orders: str = "latin"
    editions: int | None = None
    query: str = "held-out"
    query_tokens: int = 60
    query_language: str | None = None
    opening: int | None = None
    min_tokens: int | None = None
    max_tokens: int | None = None
    length_language: str | None = None
    length_ratio: float | None = None
    language: str | None = None
    split: str = "test"
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "corpus", str(self.corpus))
        for name, example in (("languages", "['en']"), ("mixed", "['de:en']")):
            value = getattr(self, name)
            if value is not None and not (name == "mixed" and isinstance(value, str)):
                require_list(name, value, example, CorpusError)
                object.__setattr__(self, name, tuple(value))
        if self.query not in QUERIES:
            raise CorpusError(f"query must be one of {', '.join(QUERIES)}, got {self.query!r}.")
        require_whole("query_tokens", self.query_tokens, least=LEAST_TOKENS, kind=CorpusError)
        if self.editions is not None:
            require_whole("editions", self.editions, kind=CorpusError)


@dataclass(frozen=True)
class TaskSource(TaskOptions):
    """A task by its name, with its options.

    `fitted` says that `languages` may be those of a corpus to fit on, so that any collection may be given some.
    """

    task: str = PAGES
    fitted: bool = False

    def __post_init__(self) -> None:
        """What was changed and would do nothing for this kind of task is a mistake."""
        super().__post_init__()
        if not isinstance(self.task, str) or not self.task.strip():
            raise CorpusError(f"a task is {KNOWN}, got {self.task!r}.")
        built = {
            PAGES: "pages are built from a corpus",
            PASSAGES: "passages are cut out of documents of a corpus",
        }
        why, used = (
            built.get(self.task, f"{self.task} brings its own documents and queries"),
            options_of(self.task),
        )
        for option in fields(TaskOptions):
            if (
                option.name not in {*used, "languages", "seed"}
                and getattr(self, option.name) != option.default
            ):
                raise CorpusError(f"{why}, so {option.name} would do nothing: omit it.")
        _ = self.design
        if self.is_built or self.languages is None or self.fitted:
            return
        if (
            self.language is not None
            or self.task.startswith(MTEB)
            or (self._folder / "qrels").is_dir()
        ):
            raise CorpusError(
                f"languages would do nothing for {self.task}: omit it, or choose one with language. It is for a "
                "folder that has a BEIR folder for each language."
            )
        if len(set(self.languages)) < max(2, len(self.languages)):
            named = ", ".join(map(repr, self.languages)) or "none"
            raise CorpusError(
                f"a search across languages needs at least two different languages, got {named}: name more, or "
                "choose one with language."
            )

    @property
    def design(self) -> Design:
        """The documents that are built; of pages and passages only."""
        limits = {name: getattr(self, name) for name in _OF_SEGMENTS if name != "orders"}
        return Design(
            design=self.orders, sizes=(self.size,), sets=self.sets, seed=self.seed, **limits
        )

    @property
    def is_built(self) -> bool:
        """Whether it is made from a corpus, without labels."""
        return self.task in (PAGES, PASSAGES)

    @property
    def too_long(self) -> str | None:
        """What becomes of documents that no treatment reads whole, unless somebody says; None for the usual."""
        return "shorten" if self.task == PASSAGES else None

    def read(self, counter: TokenCounter) -> tuple[RetrievalTask, ...]:
        """The indexes to search: one for each edition of pages, one for each language of passages, or one.

        Of a collection in several languages there is one for each, which `combine_languages` makes indexes of.
        """
        if not self.is_built:
            return self.read_collections()
        plans, corpus = self.read_corpus()
        if self.task == PASSAGES:
            limits = {"tokens": self.query_tokens, "documents": self.sets, "seed": self.seed}
            return PassageDraw(counter, **limits).tasks(corpus, languages_of(plans))
        asked = (self.query, self.query_tokens, self.query_language)
        return build_pages(corpus, plans, self.design, counter, *asked, editions=self.editions)

    def read_corpus(self) -> tuple[tuple[LanguagePlan, ...], Corpus]:
        """The language plans of a task that is built from a corpus, and that corpus."""
        also = [self.query_language] if self.query_language else []
        # Passages of one language need no translations.
        partial = self.partial or self.task == PASSAGES
        corpus = LONG_SAMPLE if (self.task, self.corpus) == (PASSAGES, SAMPLE) else self.corpus
        return choose_plans(corpus, self.languages, self.mixed, partial=partial, also=also)

    def read_collections(self) -> tuple[RetrievalTask, ...]:
        """A collection in each of several languages, or in one."""
        if self.task.startswith(MTEB):
            from fairspan.retrieval.mteb_reading import (
                read_mteb,
            )  # not before it is asked for: mteb is an extra

            # "test" means mteb's own choice, which it is for most tasks.
            split = None if self.split == "test" else self.split
            return (read_mteb(self.task.removeprefix(MTEB), language=self.language, split=split),)
        folder = self._folder
        if not folder.is_dir():
            raise CorpusError(f"there is no task {self.task!r}: it is {KNOWN}.")
        if (folder / "qrels").is_dir():
            return (read_beir(folder, split=self.split, language=self.language),)
        there = {
            one.parent.name: one.parent for one in sorted(folder.glob("*/qrels"))
        } or files_of_positions(folder)
        if not there:
            raise CorpusError(
                f"{folder} is not a task: it has no qrels folder. To search documents "
                f"without questions, give the task 'passages' with corpus={folder}."
            )
        several = (
            self.languages
            if self.languages and len(self.languages) > 1 and self.language is None
            else ()
        )
        if not several or (self.fitted and len(there) == 1):
            several = (self.language or (next(iter(there)) if len(there) == 1 else "en"),)
        name, found = folder.resolve().name, []
        for language in several:
            if language not in there:
                raise CorpusError(
                    f"{name} has no {language!r}. Languages there: {', '.join(there)}."
                )
            if there[language].is_file():
                found.append(read_positions(there[language], language))
            else:
                task = read_beir(there[language], split=self.split, language=language)
                found.append(replace(task, name=f"{name}-{language}"))
        return tuple(found)

    @property
    def _folder(self) -> Path:
        return Path(self.task.removeprefix(BEIR)).expanduser()


def options_of(kind: str) -> set[str]:
    """The options that mean something for a kind of task; of collections, those of one language."""
    if kind not in (PAGES, PASSAGES):
        return {*_OF_COLLECTIONS}
    idle = (*_OF_COLLECTIONS, *(_OF_PAGES if kind == PASSAGES else ()))
    return {one.name for one in fields(TaskOptions)} - {*idle}
