"""mteb without a network: its library, a tiny search of it, and what it knows of models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest

from fairspan.retrieval import mteb_reading
from tests.builders.tiny import words

QUERIES = {f"q{number}": words(6, seed=100 + number) for number in range(5)}
DOCUMENTS = {f"d{number:02}": words(9 + 3 * number, seed=number) for number in range(14)}
RELEVANT = {
    f"q{number}": {f"d{number:02}": 2, f"d{number + 5:02}": 1, "d13": 0} for number in range(5)
}
# What mteb warns about in its own calls, of a SentenceTransformer that it is given.
of_mteb = pytest.mark.filterwarnings(
    "ignore:The fill_missing parameter is deprecated:DeprecationWarning",
    "ignore:The `get_sentence_embedding_dimension` method:FutureWarning",
)
scored_by_mteb = pytest.mark.skipif(
    find_spec("pytrec_eval") is None, reason="mteb scores searches by pytrec_eval"
)


@pytest.fixture(scope="module")
def mteb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """mteb, which makes the folder of its default cache when it is imported."""
    if find_spec("mteb") is None:
        pytest.skip("needs mteb: pip install 'fairspan[mteb]'")
    import datasets

    datasets.disable_progress_bars()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MTEB_CACHE", str(tmp_path_factory.mktemp("mteb")))
        library = mteb_reading.mteb_library()
    yield library
    datasets.enable_progress_bars()


def table(texts: Mapping[str, str], **more: Sequence[str]) -> Any:
    from datasets import Dataset

    columns = {name: list(values) for name, values in more.items()}
    return Dataset.from_dict({"id": list(texts), "text": list(texts.values()), **columns})


@pytest.fixture
def search(mteb: ModuleType) -> Callable[..., Any]:
    """Makes search tasks; each new task has its data loaded when it is read, and not before."""

    def make(
        subsets: Mapping[str, str] = {"default": "eng-Latn"},
        queries: Mapping[str, str] = QUERIES,
        relevant: Mapping[str, Mapping[str, int]] = RELEVANT,
        documents: Mapping[str, str] = DOCUMENTS,
        identical: bool = False,
        **more: Sequence[str],
    ) -> Any:
        languages: Any = {name: [language] for name, language in subsets.items()}

        class TinySearch(mteb.abstasks.AbsTaskRetrieval):  # type: ignore[misc,name-defined]
            ignore_identical_ids = identical
            metadata = mteb.TaskMetadata(
                name="TinySearch",
                description="A few random words.",
                dataset={"path": "nowhere/tiny-search", "revision": "1"},
                eval_splits=["test"],
                type="Retrieval",
                eval_langs=["eng-Latn"] if list(subsets) == ["default"] else languages,
                main_score="ndcg_at_10",
            )

            def load_data(self, **kwargs: Any) -> None:
                own = {"queries": table(queries), "corpus": table(documents, **more)}
                judged = {query: dict(gains) for query, gains in relevant.items()}
                own |= {"top_ranked": None, "relevant_docs": judged}
                self.dataset = {name: {"test": own} for name in subsets}
                self.data_loaded = True

        return TinySearch()

    return make


@pytest.fixture
def registry(mteb: ModuleType) -> Iterator[dict[str, Any]]:
    """The models that mteb knows, as they were before the test."""
    known = mteb.models.model_implementations.MODEL_REGISTRY
    with patch.dict(known):
        yield known


@pytest.fixture
def named(mteb: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Has a task found by any name."""
    return lambda task: monkeypatch.setattr(mteb, "get_task", lambda name, **options: task)
