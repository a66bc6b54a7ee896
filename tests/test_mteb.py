"""Search tasks of mteb, read query by query: tasks with data in memory, tiny models, no network."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fairspan
from fairspan.errors import CorpusError, MissingExtra
from fairspan.retrieval import mteb_reading
from fairspan.retrieval.mteb_reading import find_task, read_mteb
from tests.tiny import tiny_model, words

QUERIES = {f"q{number}": words(6, seed=100 + number) for number in range(5)}
DOCUMENTS = {f"d{number:02}": words(9 + 3 * number, seed=number) for number in range(14)}
RELEVANT = {f"q{number}": {f"d{number:02}": 2, f"d{number + 5:02}": 1, "d13": 0} for number in range(5)}


@pytest.fixture(scope="module")
def mteb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """mteb, which makes the folder of its default cache when it is imported."""
    if find_spec("mteb") is None:
        pytest.skip("needs mteb: pip install 'fairspan[mteb]'")
    import datasets

    datasets.disable_progress_bars()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MTEB_CACHE", str(tmp_path_factory.mktemp("mteb")))
        library = mteb_reading._library()
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
        **more: Sequence[str],
    ) -> Any:
        languages: Any = {name: [language] for name, language in subsets.items()}

        class TinySearch(mteb.abstasks.AbsTaskRetrieval):  # type: ignore[misc,name-defined]
            metadata = mteb.TaskMetadata(
                name="TinySearch",
                description="A few random words.",
                type="Retrieval",
                dataset={"path": "nowhere/tiny-search", "revision": "1"},
                eval_splits=["test"],
                eval_langs=["eng-Latn"] if list(subsets) == ["default"] else languages,
                main_score="ndcg_at_10",
            )

            def load_data(self, **kwargs: Any) -> None:
                own = {"queries": table(queries), "corpus": table(DOCUMENTS, **more), "top_ranked": None}
                judged = {query: dict(gains) for query, gains in relevant.items()}
                self.dataset = {name: {"test": {**own, "relevant_docs": judged}} for name in subsets}
                self.data_loaded = True

        return TinySearch()

    return make


def sts_task(mteb: ModuleType) -> Any:
    """A task that is no search."""

    class TinySTS(mteb.abstasks.AbsTaskSTS):  # type: ignore[misc,name-defined]
        metadata = mteb.TaskMetadata(
            name="TinySTS",
            description="Pairs of random words.",
            type="STS",
            dataset={"path": "nowhere/tiny-sts", "revision": "1"},
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="cosine_spearman",
        )

    return TinySTS()


@pytest.fixture
def named(mteb: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Has a task found by any name."""
    return lambda task: monkeypatch.setattr(mteb, "get_task", lambda name, **options: task)


def test_a_task_is_read_query_by_query(search: Callable[..., Any], named: Callable[[Any], None]) -> None:
    """Titles stand before texts; q9 has no answer, and what is judged and not there counts for nothing."""
    titles = ["T", *[""] * 13]
    queries = {**QUERIES, "q9": "w1"}
    task = search(queries=queries, relevant={**RELEVANT, "q0": {"d00": 3, "gone": 1}, "q9": {"d01": 0}}, title=titles)
    named(task)
    found = read_mteb("TinySearch")
    assert {query.id: query.text for query in found.queries} == QUERIES
    assert {one.id: one.text for one in found.documents} == {**DOCUMENTS, "d00": f"T {DOCUMENTS['d00']}"}
    assert found.relevant["q0"] == {"d00": 3.0}
    assert found.relevant["q1"] == {"d01": 2.0, "d06": 1.0, "d13": 0.0}
    assert found.notes == ("1 queries that nothing answers were left out",)


@pytest.mark.filterwarnings("ignore:The fill_missing parameter is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The `get_sentence_embedding_dimension` method:FutureWarning")
@pytest.mark.skipif(find_spec("pytrec_eval") is None, reason="mteb scores with pytrec_eval")
def test_scores_are_those_of_mteb_itself(
    mteb: ModuleType, search: Callable[..., Any], named: Callable[[Any], None], tmp_path: Path
) -> None:
    """mteb runs a calibrated model as docs/tasks.md says; `evaluate` finds the same. mteb rounds to five places."""
    model = tiny_model(tmp_path / "model", "bert", "mean")
    fair = fairspan.calibrate(model, basket_size=4)
    named(search())
    treatments = ["none", "paper+basket_size=4"]
    options: dict[str, Any] = {"treatments": treatments, "metrics": ["ndcg@10", "recall@3"], "documents_only": False}
    log = fairspan.evaluate(model, "mteb:TinySearch", **options, out=tmp_path / "run", progress=False)
    for treatment, one in zip(log.treatments, (model, fair), strict=True):
        theirs = mteb.evaluate(one, search(), cache=None, co2_tracker=False).task_results[0].scores["test"][0]
        for metric, name in (("ndcg@10", "ndcg_at_10"), ("recall@3", "recall_at_3")):
            ours = log.rows.filter(treatment=treatment, measure=metric)["value"]
            assert len(ours) == len(QUERIES)
            assert ours.mean() == pytest.approx(theirs[name], abs=1e-5)


def test_one_subset_is_read(search: Callable[..., Any], named: Callable[[Any], None]) -> None:
    named(search({"de": "deu-Latn", "fr": "fra-Latn"}))
    with pytest.raises(CorpusError, match=r"^TinySearch has 2 subsets \(de, fr, …\): choose a language"):
        read_mteb("TinySearch")
    named(search({"de": "deu-Latn"}))
    assert len(read_mteb("TinySearch").queries) == 5


@pytest.mark.parametrize(
    ("name", "limits", "message"),
    [
        ("NFCorpu", {}, "mteb has no task 'NFCorpu': did you mean 'NFCorpus'?"),
        ("no such task!", {}, "mteb has no task 'no such task!': mteb.get_tasks() lists them."),
        ("NFCorpus", {"language": "deu"}, "NFCorpus cannot be limited to the language deu: No subsets were found"),
        ("NFCorpus", {"split": "final"}, "NFCorpus has no split 'final': it has test."),
    ],
)
def test_a_task_that_is_not_there(mteb: ModuleType, name: str, limits: dict[str, str], message: str) -> None:
    with pytest.raises(CorpusError) as caught:
        find_task(name, **limits)
    assert str(caught.value).startswith(message)


def test_a_task_can_be_limited(mteb: ModuleType) -> None:
    task = find_task("MIRACLRetrieval", language="deu", split="dev")
    assert (task.hf_subsets, list(task.eval_splits)) == (["de"], ["dev"])


def test_tasks_that_are_no_search_of_texts(mteb: ModuleType, named: Callable[[Any], None]) -> None:
    with pytest.raises(
        CorpusError, match=r"^CQADupstackRetrieval is the mean of several tasks: name one of .*Android"
    ):
        read_mteb("CQADupstackRetrieval")
    with pytest.raises(CorpusError, match=r"^CIFAR10 is a task of type ImageClassification on image, which cannot"):
        read_mteb("CIFAR10")
    named(sts_task(mteb))
    with pytest.raises(CorpusError, match=r"^TinySTS is a task of type STS on text, which cannot be read query by"):
        read_mteb("TinySTS")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("no column\nand more"), "ValueError: no column."),
        (ConnectionError("no hub."), "ConnectionError: no hub."),
    ],
)
def test_data_that_do_not_load_are_one_line(
    search: Callable[..., Any], named: Callable[[Any], None], error: Exception, reason: str
) -> None:
    def broken(**kwargs: Any) -> None:
        raise error

    task = search()
    task.load_data = broken
    named(task)
    with pytest.raises(CorpusError) as caught:
        read_mteb("TinySearch")
    said = f"the dataset nowhere/tiny-search of TinySearch could not be loaded: {reason}"
    assert str(caught.value) == said


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mteb", None)
    with pytest.raises(MissingExtra) as caught:
        find_task("NFCorpus")
    assert str(caught.value) == "a task of mteb needs mteb: pip install 'fairspan[mteb]'."

    def half_installed(name: str) -> ModuleType:
        raise ModuleNotFoundError("No module named 'rich'", name="rich")

    monkeypatch.setattr(mteb_reading, "import_module", half_installed)
    with pytest.raises(MissingExtra, match=r"needs rich, which mteb imports: pip install 'fairspan\[mteb\]'"):
        find_task("NFCorpus")


WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "pytrec_eval":
            sys.modules.pop(name, None)
            raise ModuleNotFoundError(name=name)

import importlib.util
known = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "pytrec_eval" else known(name, *more)
sys.meta_path.insert(0, Absent())
from fairspan.retrieval.mteb_reading import find_task
print(find_task("NFCorpus").metadata.name, "pytrec_eval" in sys.modules)
"""


@pytest.mark.slow
def test_where_pytrec_eval_has_no_wheel(mteb: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mteb imports it at once and needs it to score, which is not done here."""
    monkeypatch.setenv("MTEB_CACHE", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["NFCorpus", "False"], done.stderr
