"""Search tasks of mteb, read query by query, and what mteb itself runs, without a network."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import fairspan
from fairspan.calibration.calibration import PRESETS, Calibration
from fairspan.errors import CorpusError, MissingExtra, UnsupportedModel
from fairspan.retrieval import mteb_reading
from fairspan.retrieval.mteb_reading import find_task, read_mteb
from fairspan.retrieval.mteb_running import mteb_model, mteb_task
from tests.saying import said_by
from tests.searches import write_beir
from tests.tiny import save_tiny, tiny_model, words

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


def metadata_of(mteb: ModuleType, **entries: Any) -> Any:
    dataset = {"path": "nowhere/tiny-search", "revision": "1"}
    same = {"description": "A few random words.", "dataset": dataset, "eval_splits": ["test"]}
    return mteb.TaskMetadata(**same, **entries)


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
            metadata = metadata_of(
                mteb,
                name="TinySearch",
                type="Retrieval",
                eval_langs=["eng-Latn"] if list(subsets) == ["default"] else languages,
                main_score="ndcg_at_10",
            )

            def load_data(self, **kwargs: Any) -> None:
                own = {"queries": table(queries), "corpus": table(DOCUMENTS, **more)}
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


def test_a_task_is_read_query_by_query(
    search: Callable[..., Any], named: Callable[[Any], None]
) -> None:
    """Titles stand before texts; q9 has no answer, and what is judged and not there counts for
    nothing."""
    judged = {**RELEVANT, "q0": {"d00": 3, "gone": 1}, "q9": {"d01": 0}}
    named(search(queries={**QUERIES, "q9": "w1"}, relevant=judged, title=["T", *[""] * 13]))
    found = read_mteb(find_task("TinySearch"))
    assert {query.id: query.text for query in found.queries} == QUERIES
    titled = {**DOCUMENTS, "d00": f"T {DOCUMENTS['d00']}"}
    assert {one.id: one.text for one in found.documents} == titled
    assert found.relevant["q0"] == {"d00": 3.0}
    assert found.relevant["q1"] == {"d01": 2.0, "d06": 1.0, "d13": 0.0}
    assert found.notes == ("1 queries that nothing answers were left out",)


@of_mteb
def test_scores_are_those_of_mteb_itself(
    mteb: ModuleType, search: Callable[..., Any], named: Callable[[Any], None], tmp_path: Path
) -> None:
    """mteb runs a calibrated model as docs/tasks.md says; `evaluate` finds the same. mteb rounds to
    five places."""
    model = tiny_model(tmp_path / "model", "bert", "mean")
    fair = fairspan.calibrate(model, basket_size=4)
    named(search())
    treatments = ["none", "paper+basket_size=4"]
    options: dict[str, Any] = {"treatments": treatments, "metrics": ["ndcg@10", "recall@3"]}
    options |= {"documents_only": False, "out": tmp_path / "run", "progress": False}
    log = fairspan.evaluate(model, "mteb:TinySearch", **options)
    for treatment, one in zip(log.treatments, (model, fair), strict=True):
        found = mteb.evaluate(one, search(), cache=None, co2_tracker=False)
        theirs = found.task_results[0].scores["test"][0]
        for metric, name in (("ndcg@10", "ndcg_at_10"), ("recall@3", "recall_at_3")):
            ours = log.rows.filter(treatment=treatment, measure=metric)["value"]
            assert len(ours) == len(QUERIES)
            assert ours.mean() == pytest.approx(theirs[name], abs=1e-5)


def test_one_subset_is_read(search: Callable[..., Any], named: Callable[[Any], None]) -> None:
    named(search({"de": "deu-Latn", "fr": "fra-Latn"}))
    with pytest.raises(
        CorpusError, match=r"^TinySearch has 2 subsets \(de, fr, …\): choose a language"
    ):
        read_mteb(find_task("TinySearch"))
    named(search({"de": "deu-Latn"}))
    assert len(read_mteb(find_task("TinySearch")).queries) == 5


@pytest.mark.parametrize(
    ("name", "limits", "message"),
    [
        ("NFCorpu", {}, "mteb has no task 'NFCorpu': did you mean 'NFCorpus'?"),
        ("no such task!", {}, "mteb has no task 'no such task!': mteb.get_tasks() lists them."),
        (
            "NFCorpus",
            {"language": "deu"},
            "NFCorpus cannot be limited to the language deu: No subsets were found",
        ),
        ("NFCorpus", {"split": "final"}, "NFCorpus has no split 'final': it has test."),
    ],
)
def test_a_task_that_is_not_there(
    mteb: ModuleType, name: str, limits: dict[str, str], message: str
) -> None:
    assert said_by(find_task, name, **limits).startswith(message)


def test_a_task_can_be_limited(mteb: ModuleType) -> None:
    task = find_task("MIRACLRetrieval", language="deu", split="dev")
    assert (task.hf_subsets, list(task.eval_splits)) == (["de"], ["dev"])


def test_tasks_that_are_no_search_of_texts(mteb: ModuleType) -> None:
    """A reranking sorts a few documents, and is no search of all of them."""
    for name, said in (
        ("CQADupstackRetrieval", r"is the mean of several tasks: name one or more of .*Android"),
        ("CIFAR10", r"is a task on image: name tasks on texts only"),
        ("STS22", r"is a task of type STS, which cannot be read query by query: name a search"),
        ("AskUbuntuDupQuestions", r"is a task of type Reranking, which cannot be read query by"),
    ):
        with pytest.raises(CorpusError, match=f"^{name} {said}"):
            read_mteb(find_task(name))


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
    said = f"the dataset nowhere/tiny-search of TinySearch could not be loaded: {reason}"
    assert said_by(read_mteb, find_task("TinySearch")) == said


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mteb", None)
    said = "a task of mteb needs mteb: pip install 'fairspan[mteb]'."
    assert said_by(find_task, "NFCorpus", kind=MissingExtra) == said

    def half_installed(name: str) -> ModuleType:
        raise ModuleNotFoundError("No module named 'rich'", name="rich")

    monkeypatch.setattr(mteb_reading, "import_module", half_installed)
    with pytest.raises(
        MissingExtra, match=r"needs rich, which mteb imports: pip install 'fairspan\[mteb\]'"
    ):
        find_task("NFCorpus")


def test_a_calibrated_model_says_what_it_is(
    mteb: ModuleType, registry: dict[str, Any], tmp_path: Path
) -> None:
    model = tiny_model(tmp_path / "model", "bert", "mean")
    paper, long = mteb_model(model, "paper", basket_size=4), mteb_model(model, "fair")
    assert paper.name == "local/model (paper+basket_size=4)"
    assert long.name == "local/model (fair)"
    cooler = mteb_model(model, strength=0, temperature=0.9)
    assert cooler.name == "local/model (plain+temperature=0.9)", "IRF's method is another"
    assert (paper.max_tokens, long.max_tokens, long.embed_dim) == (512, float("inf"), 32)
    assert long.n_parameters == sum(one.numel() for one in model.parameters())
    assert (long.similarity_fn_name.value, long.adapted_from) == ("cosine", "model")
    found = mteb.get_model("local/model (paper+basket_size=4)", device="cpu")
    assert found.mteb_model_meta.revision == paper.revision
    assert found.model[0].calibration.basket_size == 4
    assert mteb_model(found.model).revision == paper.revision, "a calibrated model stays as it is"
    changed = mteb_model(
        tiny_model(tmp_path / "other", "bert", "mean", initializer_range=0.4), "fair"
    )
    shorter = mteb_model(model, "fair", max_seq_length=99)
    assert len({one.revision for one in (paper, long, changed, shorter)}) == 4
    assert shorter.max_tokens == 99
    sides = mteb_model(model, "tiles-64", temperature={"query": 1, "document": 0.8})
    assert not set('<>:"|?*\\') & set(sides.model_name_as_path()), "folders are called so"


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_a_preset_that_depends_on_the_pooling_keeps_its_name(
    registry: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pooling: str
) -> None:
    """Here "auto" is "even" for one model and "model" for the other."""
    model = tiny_model(tmp_path / "model", "bert", pooling)
    tiles = Calibration(strength=0, tile_size=8, pooling="auto")
    monkeypatch.setitem(PRESETS, "fair", tiles)
    assert mteb_model(model, "fair").name == "local/model (fair)"
    if pooling == "mean":
        assert mteb_model(model, tiles, pooling="model").name != "local/model (fair)"


def test_each_side_is_embedded_as_its_own(
    mteb: ModuleType, registry: dict[str, Any], tmp_path: Path
) -> None:
    from torch.utils.data import DataLoader

    wrapper, folder = mteb.SentenceTransformerEncoderWrapper, save_tiny(tmp_path / "model", "bert")
    known = {
        "loader": wrapper,
        "loader_kwargs": {"model_prompts": {"query": "w1 ", "document": "w2 "}},
    }
    registry["model"] = mteb.models.ModelMeta.create_empty({**known, "training_datasets": {"NQ"}})
    meta = mteb_model(str(folder), "paper", basket_size=4, sides="document")
    assert meta.training_datasets == {"NQ"}
    encoder, plain, texts = meta.load_model(), fairspan.load(folder), list(DOCUMENTS.values())
    given = DataLoader(table(DOCUMENTS), batch_size=4)
    where = {
        "task_metadata": mteb.get_task("NFCorpus").metadata,
        "hf_split": "test",
        "hf_subset": "default",
    }
    found = {
        one: encoder.encode(given, **where, prompt_type=mteb.types.PromptType(one))
        for one in ("query", "document")
    }
    fair = fairspan.calibrate(plain, "paper", basket_size=4)
    np.testing.assert_allclose(found["query"], plain.encode_query(texts, prompt="w1 "), atol=1e-5)
    np.testing.assert_allclose(
        found["document"], fair.encode_document(texts, prompt="w2 "), atol=1e-5
    )
    assert np.abs(found["document"] - plain.encode_document(texts, prompt="w2 ")).max() > 0.01
    registry["model"] = registry["model"].model_copy(update={"loader": len})
    with pytest.raises(
        UnsupportedModel, match=r"^mteb runs model by code of its own: give a SentenceTransformer"
    ):
        mteb_model(str(folder))


@of_mteb
def test_results_are_not_taken_for_those_of_the_plain_model(
    mteb: ModuleType, registry: dict[str, Any], search: Callable[..., Any], tmp_path: Path
) -> None:
    """Each is asked for twice: the second time, mteb reads what it filed, with six places."""

    def score(model: Any, cache: Any = None) -> Any:
        found = mteb.evaluate(
            model, search(), cache=cache, co2_tracker=False, show_progress_bar=False
        )
        return found.task_results[0].scores["test"][0]["mrr_at_10"]

    plain = tiny_model(tmp_path / "model", "bert", "mean")
    cache = mteb.ResultCache(tmp_path / "results")
    fair = fairspan.calibrate(plain, basket_size=4)
    expected = {one: score(one) for one in (plain, fair)}
    assert abs(expected[plain] - expected[fair]) > 0.01, "the calibration shows"
    metas = (mteb_model(fair), mteb_model(plain, "plain"))
    for one, filed in zip((plain, *metas), (plain, fair, plain), strict=True):
        twice = [score(one, cache), score(one, cache)]
        assert twice == pytest.approx([expected[filed]] * 2, abs=1e-6)
    assert len(list(tmp_path.glob("results/*/*/*/TinySearch.json"))) == 3


def test_scores_by_position_are_those_of_evaluate(registry: dict[str, Any], tmp_path: Path) -> None:
    """On a folder where four of five queries say in which fifth their answer is, by the example."""
    task, folder = tmp_path / "task", save_tiny(tmp_path / "model", "bert")
    documents = [{"id": id, "text": text} for id, text in DOCUMENTS.items()]
    asked = [{"id": id, "text": text} for id, text in QUERIES.items()]
    in_fifths = [{**one, "fifth": int(one["id"][1:]) - 1} for one in asked]
    write_beir(task, documents, in_fifths, RELEVANT)
    treatments, options = ("plain", "tempscale"), {"out": tmp_path / "run", "progress": False}
    log = fairspan.evaluate(
        str(folder), str(task), treatments=treatments, documents_only=False, **options
    )
    example = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "with_mteb.py"))
    found = example["compare"](str(folder), treatments, task=str(task))
    assert found["local/model (plain)"] != found["local/model (tempscale)"]
    for treatment in treatments:
        theirs = found[f"local/model ({treatment})"]
        ours = log.rows.filter(treatment=treatment, measure="ndcg@10")
        assert ours["value"].mean() == pytest.approx(theirs.pop("main_score"), abs=1e-5)
        by_fifth = dict(ours.select("position", "value").drop_nulls().iter_rows())
        wanted = {f"ndcg_at_10_position_{place}": by_fifth[place] for place in (1, 2, 3, 4)}
        assert theirs == pytest.approx(wanted)
    bare = write_beir(tmp_path / "bare", documents, asked, RELEVANT)
    with pytest.raises(
        CorpusError, match=r"^mteb needs one index with known positions: .*bare has 1 with 0\.$"
    ):
        mteb_task(bare)


def test_passages_of_the_embedded_essays(mteb: ModuleType) -> None:
    task = mteb_task()
    assert task.metadata.name == "FederalistPassageRetrieval", (
        "other passages: new _REVISION, and .v2 in the name"
    )
    assert task.metadata.is_filled()
    task.load_data()
    data = task.dataset["default"]["test"]
    counts = np.bincount(data["queries"]["position"])[1:]
    assert (len(data["corpus"]), len(data["queries"]), counts.min()) == (81, 714, counts.max() - 1)
    assert mteb_task(sets=9).metadata.name.startswith("PositionRetrieval-")


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
def test_where_pytrec_eval_has_no_wheel(
    mteb: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mteb imports it at once and needs it to score, for which there are measures of our own."""
    monkeypatch.setenv("MTEB_CACHE", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["NFCorpus", "False"], done.stderr
