"""`TaskSource`: what is searched, one class with its options for each kind of task."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, get_args

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.readers import LONG_SAMPLE, SAMPLE
from fairspan.design.design import Design
from fairspan.design.lengths import TokenCounter
from fairspan.design.plan import LanguagePlan, choose_plans, languages_of
from fairspan.errors import CorpusError, require_list, require_whole
from fairspan.retrieval.beir import files_of_positions, read_beir, read_positions
from fairspan.retrieval.pages import QUERIES, PageQueries, build_pages
from fairspan.retrieval.passages import Budget, PassageDraw
from fairspan.retrieval.rough_tokens import in_tokens
from fairspan.retrieval.task import LEAST_TOKENS, RetrievalTask

PAGES = "pages"
PASSAGES = "passages"
BEIR = "beir:"
MTEB = "mteb:"
_PAGES = 100
"""How many are drawn by default."""
_LIMITS = ("opening", "min_tokens", "max_tokens", "length_language", "length_ratio")
CHOICES = "'pages', 'passages', the folder of a collection, 'beir:FOLDER' or 'mteb:NAME'"


@dataclass(frozen=True, kw_only=True)
class PassageOptions:
    """The options of passages.

    Attributes:
        corpus: corpus of passages and pages: sample, a folder of text files or with
            en.jsonl, de.jsonl, …, a JSONL or Parquet file, or the name of a dataset. For passages,
            sample is long-sample.
        languages: languages of passages and pages, such as en and de; of a collection in several
            languages, those to search across.
        sets: number of pages, or of documents with passages, that are searched for. By default 100
            pages; all documents, or as many as have 300,000 tokens, from 100 to 1,000.
        query_tokens: length of the longest held-out query.
        seed: seed of what is drawn, and of intervals.
    """

    corpus: str = field(default=SAMPLE, metadata={"source": True})
    languages: Sequence[str] | None = None
    sets: int | None = None
    query_tokens: int = 60
    seed: int = 0

    def __post_init__(self) -> None:
        """Bring the options into one form, and raise for values that are not allowed."""
        object.__setattr__(self, "corpus", str(self.corpus))
        _store_list(self, "languages", "['en']")
        if self.sets is not None:
            require_whole("sets", self.sets, least=2)
        require_whole("query_tokens", self.query_tokens, least=LEAST_TOKENS, kind=CorpusError)


@dataclass(frozen=True, kw_only=True)
class PageOptions(PassageOptions):
    """The options of pages.

    Attributes:
        mixed: languages of mixed pages as lead:later, such as de:en, or all.
        partial: omit segments that lack a translation, instead of refusing the corpus.
        size: number of segments per page.
        orders: how the segments of pages are ordered: latin, permutations or williams.
        editions: number of indexes, each with other orders; by default every segment is at every
            position once.
        query: what pages are searched with: held-out, first-sentence or title.
        query_language: language of the queries, whatever the language of the page.
        opening: number of tokens to use from the start of every segment on a page. By default all.
        min_tokens: omit shorter segments from pages, in tokens of the model.
        max_tokens: omit longer segments from pages, in tokens of the model.
        length_language: apply these limits to this language only.
        length_ratio: with `length_language`, the allowed difference of other languages' lengths, as
            a share of its length.
    """

    mixed: str | Sequence[str] = ()
    partial: bool = False
    size: int = 4
    orders: str = "latin"
    editions: int | None = None
    query: str = QUERIES[0]
    query_language: str | None = None
    opening: int | None = None
    min_tokens: int | None = None
    max_tokens: int | None = None
    length_language: str | None = None
    length_ratio: float | None = None


@dataclass(frozen=True, kw_only=True)
class CollectionOptions:
    """The options of collections and of tasks of mteb.

    Attributes:
        language: language of a collection that has several.
        split: split of a collection.
    """

    language: str | None = None
    split: str = "test"


@dataclass(frozen=True, kw_only=True)
class TaskOptions(PageOptions, CollectionOptions):
    """The options of all kinds of task, as a call and a command take them."""

    @property
    def changed(self) -> dict[str, Any]:
        """The options that are not as by default."""
        usual = {option.name: option.default for option in fields(self)}
        values = {name: getattr(self, name) for name in options_of(TaskOptions)}
        return {name: value for name, value in values.items() if value != usual[name]}

    def idle(self, *kinds: Kind) -> set[str]:
        """The options of other kinds of task than these, if they are as by default."""
        used = {name for kind in kinds for name in options_of(kind)}
        return {*options_of(TaskOptions)} - used - {"seed", *self.changed}


class _Kind:
    """What a kind of task is called, and what it does with documents that are too long."""

    kind: ClassVar[str]
    too_long: ClassVar[str | None] = None


@dataclass(frozen=True, kw_only=True)
class PassageSource(PassageOptions, _Kind):
    """Documents searched by passages that are cut out of them: one index for each language."""

    kind = PASSAGES
    too_long = "shorten"

    @cached_property
    def planned_corpus(self) -> tuple[tuple[LanguagePlan, ...], Corpus]:
        """A plan for each language, and the corpus. Passages need no translations."""
        corpus = LONG_SAMPLE if self.corpus == SAMPLE else self.corpus
        return choose_plans(corpus, self.languages, (), partial=True)

    def read(
        self, counter: TokenCounter, budget: Budget | None = None
    ) -> tuple[RetrievalTask, ...]:
        plans, corpus = self.planned_corpus
        limits = asdict(budget or Budget()) if self.sets is None else {"documents": self.sets}
        draw = PassageDraw(in_tokens(counter), self.query_tokens, seed=self.seed, **limits)
        return draw.tasks(corpus, languages_of(plans))


@dataclass(frozen=True, kw_only=True)
class PageSource(PageOptions, _Kind):
    """Pages joined from texts: one index for each language plan and edition."""

    kind = PAGES

    def __post_init__(self) -> None:
        """Check the options of pages."""
        super().__post_init__()
        if not isinstance(self.mixed, str):
            _store_list(self, "mixed", "['de:en']")
        if self.query not in QUERIES:
            raise CorpusError(f"query must be one of {', '.join(QUERIES)}, got {self.query!r}.")
        if self.editions is not None:
            require_whole("editions", self.editions, kind=CorpusError)
        _ = self.design

    @property
    def design(self) -> Design:
        same = {name: getattr(self, name) for name in ("seed", *_LIMITS)}
        return Design(design=self.orders, sizes=(self.size,), sets=self.sets or _PAGES, **same)

    @cached_property
    def planned_corpus(self) -> tuple[tuple[LanguagePlan, ...], Corpus]:
        """The language plans, and the corpus in their languages and in that of the queries."""
        also = [self.query_language] if self.query_language else []
        plans = (self.languages, self.mixed)
        return choose_plans(self.corpus, *plans, partial=self.partial, also=also)

    def with_opening(self, opening: int | None) -> PageSource:
        """Pages of only the beginnings of these texts, which are not read again."""
        pages = replace(self, opening=opening)
        vars(pages)["planned_corpus"] = self.planned_corpus
        return pages

    def read(self, counter: TokenCounter) -> tuple[RetrievalTask, ...]:
        plans, corpus = self.planned_corpus
        queries = PageQueries(self.query, self.query_tokens, self.query_language)
        return build_pages(corpus, plans, self.design, counter, queries, self.editions)


@dataclass(frozen=True, kw_only=True)
class CollectionSource(CollectionOptions, _Kind):
    """The folder of a collection; of one in several languages, `language` or English."""

    kind = "a collection"
    task: str

    @cached_property
    def _tasks(self) -> tuple[RetrievalTask, ...]:
        folder = _folder_of(self.task)
        if (folder / "qrels").is_dir():
            return (read_beir(folder, split=self.split, language=self.language),)
        paths = _paths_by_language(self.task)
        usual = next(iter(paths)) if len(paths) == 1 else "en"
        return (_read_language(paths, self.language or usual, self.split),)

    def read(self, _: TokenCounter | None = None) -> tuple[RetrievalTask, ...]:
        return self._tasks


@dataclass(frozen=True, kw_only=True)
class LanguageSource(_Kind):
    """A collection in several languages to search across: one task for each of them."""

    kind = "a collection in several languages"
    task: str
    languages: Sequence[str]
    split: str = CollectionOptions.split

    def __post_init__(self) -> None:
        _store_list(self, "languages", "['en', 'de']")
        if len(set(self.languages)) < max(2, len(self.languages)):
            named = ", ".join(map(repr, self.languages)) or "none"
            raise CorpusError(
                f"a search across languages needs at least two different languages, got {named}: "
                "name more, or choose one with language."
            )

    @cached_property
    def _tasks(self) -> tuple[RetrievalTask, ...]:
        paths = _paths_by_language(self.task)
        return tuple(_read_language(paths, language, self.split) for language in self.languages)

    def read(self, _: TokenCounter | None = None) -> tuple[RetrievalTask, ...]:
        return self._tasks


@dataclass(frozen=True, kw_only=True)
class MtebSource(CollectionOptions, _Kind):
    """A search task of mteb, or tasks of any type, which mteb scores."""

    kind = "a task of mteb"
    task: str

    @cached_property
    def tasks(self) -> list[Any]:
        """Those that are named, with commas between them."""
        # Imported only here: mteb is an extra.
        from fairspan.retrieval.mteb_reading import find_task

        names = [name.strip() for name in self.task.removeprefix(MTEB).split(",")]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise CorpusError(f"the task {twice!r} of mteb is named twice.")
        # "test" means mteb's own choice, which it is for most tasks.
        split = None if self.split == "test" else self.split
        return [find_task(name, language=self.language, split=split) for name in names]

    @cached_property
    def is_search(self) -> bool:
        """Whether it is one search, which is read query by query."""
        if "," in self.task:
            return False
        from fairspan.retrieval.mteb_reading import is_search

        return is_search(self.tasks[0])

    def read(self, _: TokenCounter) -> tuple[RetrievalTask, ...]:
        from fairspan.retrieval.mteb_reading import read_mteb

        if len(self.tasks) > 1:
            raise CorpusError(f"{self.task} names several tasks: name one search of mteb here.")
        return (read_mteb(self.tasks[0]),)


TaskSource = PassageSource | PageSource | CollectionSource | LanguageSource | MtebSource
Kind = type[TaskSource]


def find_source(task: str, options: TaskOptions, beside: Collection[str] = ()) -> TaskSource:
    """The source of a task with the options of its kind; those `beside` have another use too."""
    require_whole("seed", options.seed, least=0)
    kind = kind_of(task, options.languages)
    refuse_unused(options.changed, {*options_of(kind), *beside}, [task])
    return make_source(kind, task, options.changed)


def kind_of(task: str, languages: Sequence[str] | None = None) -> Kind:
    """The class of a task; `languages` are those to search across, if it is a collection."""
    if not isinstance(task, str) or not task.strip():
        raise CorpusError(f"a task is {CHOICES}, got {task!r}.")
    if task in (PASSAGES, PAGES):
        return PassageSource if task == PASSAGES else PageSource
    if task.startswith(MTEB):
        return MtebSource
    is_divided = languages is not None and not (_folder_of(task) / "qrels").is_dir()
    return LanguageSource if is_divided else CollectionSource


def options_of(kind: type[TaskOptions] | Kind) -> list[str]:
    """The options that a kind of task has."""
    return [option.name for option in fields(kind) if option.name != "task"]


def make_source(kind: Kind, task: str, values: dict[str, Any]) -> TaskSource:
    """The source of a task, with those of the values that are for its kind."""
    names = {option.name for option in fields(kind)}
    chosen = {name: value for name, value in {**values, "task": task}.items() if name in names}
    return kind(**chosen)


def refuse_unused(changed: Iterable[str], used: set[str], tasks: Sequence[str]) -> None:
    """Raise if an option is for other kinds of task. The seed is of intervals, too."""
    for name in changed:
        if name not in used | {"seed"}:
            kinds = [kind.kind for kind in get_args(TaskSource) if name in options_of(kind)]
            raise CorpusError(f"{name} is for {', '.join(kinds)}: omit it for {', '.join(tasks)}.")


def _store_list(source: object, name: str, example: str) -> None:
    """Replace a list of a source by a tuple."""
    value = getattr(source, name)
    if value is not None:
        require_list(name, value, example, CorpusError)
        object.__setattr__(source, name, tuple(value))


def _folder_of(task: str) -> Path:
    return Path(task.removeprefix(BEIR)).expanduser()


def _paths_by_language(task: str) -> dict[str, Path]:
    """The BEIR folder of each language, or its file of XQuAD with positions."""
    folder = _folder_of(task)
    if not folder.is_dir():
        raise CorpusError(f"there is no task {task!r}: it is {CHOICES}.")
    folders = {qrels.parent.name: qrels.parent for qrels in sorted(folder.glob("*/qrels"))}
    paths = folders or files_of_positions(folder)
    if not paths:
        raise CorpusError(
            f"{folder} is not a task: it has no qrels folder. To search documents without "
            f"questions, give the task 'passages' with corpus={folder}."
        )
    return paths


def _read_language(paths: dict[str, Path], language: str, split: str) -> RetrievalTask:
    """The task of a language, from the paths of all."""
    name = next(iter(paths.values())).parent.resolve().name
    if language not in paths:
        raise CorpusError(f"{name} has no {language!r}. Languages there: {', '.join(paths)}.")
    path = paths[language]
    if path.is_file():
        return read_positions(path, language)
    return replace(read_beir(path, split=split, language=language), name=f"{name}-{language}")
