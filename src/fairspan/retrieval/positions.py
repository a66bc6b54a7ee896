"""Questions on the articles of a corpus, in one file per language, each with the position of its answer (XQuAD)."""

from pathlib import Path

from fairspan.corpus.corpus import Corpus
from fairspan.errors import CorpusError
from fairspan.retrieval.records import file_in, records, with_ids
from fairspan.retrieval.task import Asked, Evidence, Passage, Query, RetrievalTask, Span, make_task


def files_of_positions(folder: Path) -> dict[str, Path]:
    """The file of each language of a folder of positions; none of another folder."""
    names = sorted({file.name.partition(".jsonl")[0] for file in folder.glob("[!.]*.jsonl*")})
    files = {name: file for name in names if (file := file_in(folder, f"{name}.jsonl")) is not None}
    first = {name: next(records(file), None) for name, file in files.items()}
    return {name: files[name] for name, one in first.items() if one is not None and one.has("start_in_article")}


def read_positions(file: Path, language: str) -> RetrievalTask:
    """The questions of one language, on the articles of the corpus that belongs to their folder."""
    folder = file.resolve().parent
    corpus = Corpus.read(_articles(folder), [language])
    texts = {id: corpus.text(id, language) for id in corpus.ids()}
    paragraphs: dict[str, set[Span]] = {id: set() for id in texts}
    asked = []
    for id, record in with_ids(records(file), "qid"):
        article, answer, start = record.id("article"), record.text("answer"), record.whole("start_in_article")
        if article not in texts:
            raise record.fault(f"there is no article {article!r} in {corpus.name} ({language}).")
        record.require_inside(texts[article], article, start, start + len(answer), answer)
        opening = start - record.whole("start_in_paragraph")
        paragraphs[article].add((opening, opening + record.whole("paragraph_chars")))
        query = Query(id, record.text("question"), language, article)
        asked.append(Asked(query, Evidence(article, start, start + len(answer)), answer))
    passages = [Passage(id, text, language, tuple(sorted(paragraphs[id]))) for id, text in texts.items()]
    return make_task(f"{folder.name}-{language}", passages, asked, corpus.notes)


def _articles(folder: Path) -> Path:
    inside = folder / "documents"
    beside = folder.parent.parent / "corpora" / folder.name.removesuffix("_positions")
    for place in (inside, beside):
        if place.is_dir():
            return place
    raise CorpusError(f"{folder} has questions but no articles: put the corpus that has them into {inside}.")
