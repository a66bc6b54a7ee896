"""What is searched: passages of a corpus, questions of one's own, or a search of mteb."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path

from fairspan.corpus.corpus import Corpus, parse_languages
from fairspan.corpus.readers import LONG_SAMPLE
from fairspan.errors import CorpusError, require_whole
from fairspan.retrieval.beir import read_beir
from fairspan.retrieval.passages import LEAST_WORDS, MOST_WORDS, PassageDraw
from fairspan.retrieval.task import RetrievalTask

PASSAGES = "passages"
BEIR = "beir:"
MTEB = "mteb:"
CHOICES = "'passages', the folder of a collection, one of its files qrels/SPLIT.tsv, or 'mteb:NAME'"
_OF_PASSAGES = ("corpus", "sets", "query_words")


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """What to search, and how it is drawn.

    Attributes:
        corpus: documents to cut passages out of: a folder of text files or with en.jsonl, de.jsonl,
            …, a JSONL or Parquet file, or the name of a dataset. By default the essays that come
            with fairspan.
        languages: languages of the corpus to read, such as en and de; by default all. For a task
            in several languages, the one to search.
        sets: number of documents to draw, translations counted once. By default all, or of a large
            corpus 100 to 1,000 with 225,000 words.
        query_words: number of words at the beginning of a passage that are the query.
        seed: seed of the random choice of documents and passages.
    """

    corpus: str = field(default=LONG_SAMPLE, metadata={"source": True})
    languages: Sequence[str] | None = None
    sets: int | None = None
    query_words: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        """Bring the options into one form, and raise for values that are not allowed."""
        object.__setattr__(self, "corpus", str(self.corpus))
        object.__setattr__(self, "languages", parse_languages(self.languages))
        if self.sets is not None:
            require_whole("sets", self.sets, least=2)
        require_whole("query_words", self.query_words, least=LEAST_WORDS, kind=CorpusError)
        if self.query_words > MOST_WORDS:
            raise CorpusError(
                f"query_words must be at most {MOST_WORDS}, the length of a passage, got "
                f"{self.query_words}."
            )
        require_whole("seed", self.seed, least=0)


@dataclass(frozen=True)
class TaskSource:
    """A task by its name, with the options for it; it is read once."""

    name: str
    options: TaskOptions = field(default_factory=TaskOptions)

    def __post_init__(self) -> None:
        """Raise for options that mean nothing to this task."""
        if not isinstance(self.name, str) or not self.name.strip():
            raise CorpusError(f"a task is {CHOICES}, got {self.name!r}.")
        if self.name == PASSAGES:
            return
        usual = {option.name: option.default for option in fields(TaskOptions)}
        for option in _OF_PASSAGES:
            if getattr(self.options, option) != usual[option]:
                raise CorpusError(f"{option} is for passages: omit it for {self.name}.")
        if len(self.options.languages or ()) > 1:
            raise CorpusError(
                f"{self.name} is searched in one language at a time: name one with languages."
            )

    @property
    def unused(self) -> set[str]:
        """Options that mean nothing to this task."""
        return set() if self.name == PASSAGES else set(_OF_PASSAGES)

    @property
    def is_of_mteb(self) -> bool:
        return self.name.startswith(MTEB)

    @property
    def _language(self) -> str | None:
        return self.options.languages[0] if self.options.languages else None

    @cached_property
    def task(self) -> RetrievalTask:
        """Its queries and documents, as they are drawn or read."""
        if self.name == PASSAGES:
            options = self.options
            draw = PassageDraw(options.query_words, options.sets, options.seed)
            return draw.task(Corpus.read(options.corpus, options.languages, partial=True))
        if self.is_of_mteb:
            # Imported only here: mteb is an extra.
            from fairspan.retrieval.mteb_reading import read_mteb

            return read_mteb(self.name.removeprefix(MTEB), self._language)
        return _read_collection(self.name, self._language)


def _read_collection(name: str, language: str | None) -> RetrievalTask:
    """A folder in BEIR's layout, one of its files of judgements, or a folder for each language."""
    path = Path(name.removeprefix(BEIR)).expanduser()
    if path.is_file() and path.parent.name == "qrels":
        split = path.name.partition(".tsv")[0]
        return read_beir(path.parent.parent, split=split, language=language)
    if not path.is_dir():
        raise CorpusError(f"there is no task {name!r}: it is {CHOICES}.")
    if (path / "qrels").is_dir():
        return read_beir(path, language=language)
    folders = {qrels.parent.name: qrels.parent for qrels in sorted(path.glob("*/qrels"))}
    if not folders:
        raise CorpusError(
            f"{path} is not a task: it has no qrels folder. To search documents without "
            f"questions, omit the task and name them with corpus={path}."
        )
    chosen = language or (next(iter(folders)) if len(folders) == 1 else "en")
    if chosen not in folders:
        raise CorpusError(
            f"{path.name} has no {chosen!r}. Languages there: {', '.join(folders)}: name one with "
            "languages."
        )
    task = read_beir(folders[chosen], language=chosen)
    return replace(task, name=f"{path.resolve().name}-{chosen}")
