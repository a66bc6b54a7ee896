"""What an evaluation reads from disk, without a model: the corpus of its pages, or a collection."""

from pathlib import Path

from fairspan.corpus.corpus import Corpus
from fairspan.design.plan import LanguagePlan, choose_plans
from fairspan.errors import TaskError
from fairspan.retrieval.beir import read_beir
from fairspan.retrieval.evidence import read_evidence
from fairspan.retrieval.task import RetrievalTask
from fairspan.studies.evaluate.spec import EvaluationSpec

BEIR = "beir:"


def read_pages(spec: EvaluationSpec) -> tuple[tuple[LanguagePlan, ...], Corpus]:
    """The language plans of pages, and the corpus that they are built from."""
    also = [spec.queries.language] if spec.queries.language else []
    return choose_plans(spec.corpus, spec.languages, spec.mixed, partial=spec.partial, also=also)


def read_collection(spec: EvaluationSpec) -> RetrievalTask:
    """A collection of documents and queries."""
    if spec.task.startswith(BEIR):
        return _read_beir(spec, spec.task.removeprefix(BEIR))
    path = Path(spec.task).expanduser()
    if not path.exists():
        raise TaskError(
            f"there is no task {spec.task!r}: it is 'pages', the folder or file of a collection, 'beir:FOLDER' or "
            "'mteb:NAME'."
        )
    if (path / "qrels").is_dir():
        return _read_beir(spec, path)
    if spec.split != "test":
        raise TaskError(f"{path.name} is not in BEIR's layout, so [[split]] would do nothing: omit it.")
    documents = None if spec.documents is None else Path(spec.documents)
    return read_evidence(path, language=spec.language, documents=documents, unit=spec.unit)


def _read_beir(spec: EvaluationSpec, folder: Path | str) -> RetrievalTask:
    for option, plain in (("documents", None), ("language", None), ("unit", "article")):
        # A corpus to fit on is read in this language.
        fitted = option == "language" and spec.fit_corpus is not None
        if getattr(spec, option) != plain and not fitted:
            raise TaskError(f"a BEIR folder has everything in one place, so [[{option}]] would do nothing: omit it.")
    return read_beir(folder, split=spec.split)
