"""The bridge to mteb, whose own runner runs here: tasks with data in memory, tiny models, no network.

Where pytrec_eval is not installed, because its platform has no wheel, a stand-in computes mteb's scores; it is tested
below.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.errors import MissingExtra, TaskError
from fairspan.model.build import copy_sharing_weights
from fairspan.retrieval import mteb_tasks
from fairspan.retrieval.mteb_tasks import MtebPart, find_task, run_mteb
from fairspan.runs.runner import RunOptions
from fairspan.runs.subject import open_subject
from fairspan.studies.evaluate.run_mteb import evaluate_mteb
from fairspan.studies.evaluate.spec import make_evaluation
from tests.pytrec_eval_stand_in import RelevanceEvaluator, stand_in_if_missing
from tests.tiny import tiny_model, words

pytestmark = [
    # mteb warns of its own default for an argument of its own.
    pytest.mark.filterwarnings("ignore:The fill_missing parameter is deprecated:DeprecationWarning"),
    # mteb calls a method that sentence-transformers has renamed.
    pytest.mark.filterwarnings("ignore:The `get_sentence_embedding_dimension` method:FutureWarning"),
]

CALIBRATION = {"basket_size": 4}
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
    with pytest.MonkeyPatch.context() as patch, stand_in_if_missing():
        patch.setenv("MTEB_CACHE", str(tmp_path_factory.mktemp("mteb")))
        import mteb
    yield mteb
    datasets.enable_progress_bars()


@pytest.fixture
def search(mteb: ModuleType) -> Callable[..., Any]:
    """Makes search tasks; each new task has its data loaded when it is run, and not before."""
    from datasets import Dataset

    def table(texts: Mapping[str, str]) -> Dataset:
        return Dataset.from_list([{"id": id, "text": text} for id, text in texts.items()])

    def make(
        subsets: Mapping[str, str] = {"default": "eng-Latn"},
        queries: Mapping[str, str] = QUERIES,
        relevant: Mapping[str, Mapping[str, int]] = RELEVANT,
        revision: str = "1",
        **attributes: Any,
    ) -> Any:
        languages: Any = {name: [language] for name, language in subsets.items()}

        class TinySearch(mteb.abstasks.AbsTaskRetrieval):  # type: ignore[misc,name-defined]
            metadata = mteb.TaskMetadata(
                name="TinySearch",
                description="A few random words.",
                type="Retrieval",
                dataset={"path": "nowhere/tiny-search", "revision": revision},
                eval_splits=["test"],
                eval_langs=["eng-Latn"] if list(subsets) == ["default"] else languages,
                main_score="ndcg_at_10",
            )

            def load_data(self, **kwargs: Any) -> None:
                self.dataset = {name: {"test": self.split()} for name in subsets}
                self.data_loaded = True

            @staticmethod
            def split() -> dict[str, Any]:
                judged = {query: dict(gains) for query, gains in relevant.items()}
                return {
                    "queries": table(queries),
                    "corpus": table(DOCUMENTS),
                    "relevant_docs": judged,
                    "top_ranked": None,
                }

        for name, value in attributes.items():
            setattr(TinySearch, name, value)
        return TinySearch()

    return make


@pytest.fixture
def model(tmp_path: Path) -> SentenceTransformer:
    return tiny_model(tmp_path / "model", "bert", "mean")


class Recorder:
    """Notes every text a model embeds: the side, the text with its prompt, and the vector."""

    def __init__(self, model: SentenceTransformer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str | None, str | None, list[str], np.ndarray]] = []
        encode = model.encode

        def recording(inputs: list[str], **options: Any) -> np.ndarray:
            vectors: np.ndarray = encode(inputs, **options)
            self.calls.append((options.get("task"), options.get("prompt"), list(inputs), vectors))
            return vectors

        monkeypatch.setattr(model, "encode", recording)

    def side(self, side: str | None) -> tuple[str | None, list[str], np.ndarray]:
        """The only call of that side: its prompt, texts and vectors."""
        (found,) = [call[1:] for call in self.calls if call[0] == side]
        return found


def ranked_by_hand(queries: np.ndarray, documents: np.ndarray) -> list[list[str]]:
    """Document ids by cosine, best first, in float64."""
    unit = [vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (queries, documents)]
    names = np.array(list(DOCUMENTS))
    return [list(names[np.argsort(-row)]) for row in unit[0].astype(np.float64) @ unit[1].astype(np.float64).T]


def ndcg_by_hand(rankings: Sequence[Sequence[str]], k: int = 10) -> float:
    """Mean nDCG of the queries in their order: gain over log2(rank + 1), over that of the best ranking."""
    discount = 1 / np.log2(np.arange(2, k + 2))
    values = []
    for gains, ranking in zip(RELEVANT.values(), rankings, strict=True):
        found = np.array([gains.get(document, 0) for document in ranking[:k]])
        best = np.array(sorted(gains.values(), reverse=True)[:k])
        values.append(found @ discount[: len(found)] / (best @ discount[: len(best)]))
    return float(np.mean(values))


def documents_of(part: MtebPart) -> list[list[str]]:
    return [[document for document, _ in part.rankings[query]] for query in QUERIES]


# mteb rounds nDCG to five places.
ROUNDED = {"abs": 5.1e-6, "rel": 0}


@pytest.mark.parametrize("calibrated", [False, True])
def test_a_search_equals_one_by_hand(
    calibrated: bool, model: SentenceTransformer, search: Callable[..., Any], tmp_path: Path
) -> None:
    """Rankings and nDCG are those of the model's own vectors, in float64."""
    if calibrated:
        model = fairspan.calibrate(model, **CALIBRATION)
    result = run_mteb(model, search(), tmp_path)
    (part,) = result.parts

    queries, documents = model.encode_query(list(QUERIES.values())), model.encode_document(list(DOCUMENTS.values()))
    by_hand = ranked_by_hand(queries, documents)
    assert documents_of(part) == by_hand
    assert result.main_score == pytest.approx(ndcg_by_hand(by_hand), **ROUNDED)
    assert (result.task, result.kind, result.measure) == ("TinySearch", "Retrieval", "ndcg_at_10")
    assert (part.split, part.subset, part.languages) == ("test", "default", ("eng-Latn",))
    assert part.relevant == RELEVANT
    assert part.main_score == result.main_score


def test_calibrated_and_plain_have_results_of_their_own(
    model: SentenceTransformer, search: Callable[..., Any], tmp_path: Path
) -> None:
    """mteb knows models by the name on their card, which calibration does not change: it must not be what decides."""
    model.model_card_data.model_name = "owner/tiny"
    treatments = [model] + [
        fairspan.calibrate(model, **CALIBRATION, sides=sides) for sides in ("both", "query", "document")
    ]
    results = [run_mteb(one, search(), tmp_path) for one in treatments]
    assert len({result.folder for result in results}) == 4
    for one, result in zip(treatments, results, strict=True):
        queries, documents = one.encode_query(list(QUERIES.values())), one.encode_document(list(DOCUMENTS.values()))
        assert documents_of(result.parts[0]) == ranked_by_hand(queries, documents)
    assert len({json.dumps(documents_of(result.parts[0])) for result in results}) == 4


def test_all_that_changes_a_result_has_its_place(
    model: SentenceTransformer, search: Callable[..., Any], tmp_path: Path
) -> None:
    folders = [run_mteb(model, search(), tmp_path).folder]
    model.max_seq_length = 20
    folders.append(run_mteb(model, search(), tmp_path).folder)
    model.prompts = {"query": "w1 ", "document": ""}
    folders.append(run_mteb(model, search(), tmp_path).folder)
    model.similarity_fn_name = "dot"
    folders.append(run_mteb(model, search(), tmp_path).folder)
    folders.append(run_mteb(model, search(revision="2"), tmp_path).folder)
    assert len(set(folders)) == 5
    described = json.loads((folders[-1] / "run.json").read_text())
    assert (described["window"], described["similarity"], described["dataset"]["revision"]) == (20, "dot", "2")


@pytest.mark.parametrize("sides", ["both", "query", "document"])
def test_a_calibration_acts_on_its_sides(
    sides: str,
    model: SentenceTransformer,
    search: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """mteb calls encode_query and encode_document; vectors of a side that is left alone are the plain model's, bit
    for bit."""
    calibrated = fairspan.calibrate(model, **CALIBRATION, sides=sides)
    everywhere = fairspan.calibrate(model, **CALIBRATION)
    recorder = Recorder(calibrated, monkeypatch)
    run_mteb(calibrated, search(), tmp_path)

    assert len(recorder.calls) == 2
    for side, texts in (("query", QUERIES), ("document", DOCUMENTS)):
        _, read, vectors = recorder.side(side)
        assert read == list(texts.values())
        plain = getattr(model, f"encode_{side}")(read)
        changed = getattr(everywhere, f"encode_{side}")(read)
        assert not np.allclose(plain, changed, atol=1e-3)
        assert np.array_equal(vectors, changed if sides in ("both", side) else plain)


@pytest.mark.parametrize(
    "prompts",
    [
        {"query": "w1 w2 ", "document": "w3 "},
        {"query": "w1 w2 ", "passage": "w3 "},
        {"query": "w1 w2 ", "document": "", "corpus": "w3 "},
    ],
    ids=["document", "passage", "corpus"],
)
@pytest.mark.parametrize("sides", ["both", "document"])
def test_prompts_stand_on_their_side(
    prompts: dict[str, str], sides: str, search: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a model calls its prompt for documents, documents get it; afterwards the model has its own names."""
    plain = tiny_model(tmp_path / "model", "bert", "mean")
    plain = SentenceTransformer(modules=list(plain.children()), prompts=prompts, device="cpu")
    model = fairspan.calibrate(plain, **CALIBRATION, sides=sides)
    own = dict(model.prompts)
    assert own.items() >= prompts.items()
    recorder = Recorder(model, monkeypatch)
    run_mteb(model, search(), tmp_path)
    assert model.prompts == own

    expected = model if sides == "both" else plain
    for side, texts, prompt, encoder in (
        ("query", QUERIES, "w1 w2 ", expected),
        ("document", DOCUMENTS, "w3 ", model),
    ):
        asked, read, vectors = recorder.side(side)
        assert (asked, read) == (prompt, list(texts.values()))
        assert np.array_equal(vectors, getattr(encoder, f"encode_{side}")(read, prompt=prompt))


def test_a_finished_run_is_read_back(
    model: SentenceTransformer, search: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second call embeds nothing and loads no data, and its result is the same to the last digit."""
    first = run_mteb(model, search(), tmp_path)
    recorder = Recorder(model, monkeypatch)
    task = search()
    monkeypatch.setattr(task, "load_data", lambda **kwargs: pytest.fail("the data was loaded again"))
    again = run_mteb(model, task, str(tmp_path))
    assert recorder.calls == []
    # Unlike ==, it takes NaN for equal; mteb gives some for so few queries.
    np.testing.assert_equal(asdict(again), asdict(first))


def test_an_interrupted_run_goes_on(
    model: SentenceTransformer, search: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two subsets the second fails; the next call embeds only that one."""
    subsets = {"en": "eng-Latn", "de": "deu-Latn"}
    encode, calls = model.encode, []

    def fails_later(inputs: list[str], **options: Any) -> np.ndarray:
        calls.append(options["task"])
        if len(calls) > 2:
            raise KeyboardInterrupt
        found: np.ndarray = encode(inputs, **options)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(model, "encode", fails_later)
        task = search(subsets)
        with pytest.raises(KeyboardInterrupt):
            run_mteb(model, task, tmp_path)
        assert not task.data_loaded

    recorder = Recorder(model, monkeypatch)
    result = run_mteb(model, search(subsets), tmp_path)
    assert len(recorder.calls) == 2
    assert {part.subset: part.languages for part in result.parts} == {"en": ("eng-Latn",), "de": ("deu-Latn",)}
    assert result.main_score == pytest.approx(np.mean([part.main_score for part in result.parts]))
    assert documents_of(result.parts[0]) == documents_of(result.parts[1])


def test_a_part_of_a_task_is_not_the_whole(
    model: SentenceTransformer, search: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mteb hands back every subset it has in its cache; a result has those that the task was limited to."""
    subsets = {"en": "eng-Latn", "de": "deu-Latn"}
    german = run_mteb(model, search(subsets).filter_languages(["deu"]), tmp_path)
    assert [part.subset for part in german.parts] == ["de"]
    both = run_mteb(model, search(subsets), tmp_path)
    assert [part.subset for part in both.parts] == ["en", "de"]
    recorder = Recorder(model, monkeypatch)
    again = run_mteb(model, search(subsets).filter_languages(["deu"]), tmp_path)
    assert [part.subset for part in again.parts] == ["de"]
    assert recorder.calls == []


@pytest.mark.parametrize("damaged", ["results", "predictions", "relevant", "no predictions"])
def test_files_that_a_crash_cut_short_are_made_again(
    damaged: str, model: SentenceTransformer, search: Callable[..., Any], tmp_path: Path
) -> None:
    first = run_mteb(model, search(), tmp_path)
    name = {"results": "TinySearch.json", "relevant": "relevant.json"}.get(damaged, "TinySearch_predictions.json")
    (file,) = first.folder.rglob(name)
    whole = file.read_text()
    if damaged == "no predictions":
        file.unlink()
    else:
        file.write_text(whole[: len(whole) // 2])
    again = run_mteb(model, search(), tmp_path)
    assert again.parts[0].rankings == first.parts[0].rankings
    assert again.parts[0].relevant == first.parts[0].relevant
    assert again.main_score == first.main_score


@pytest.mark.parametrize("attribute", ["ignore_identical_ids", "skip_first_result"])
def test_rankings_are_what_mteb_scored(
    attribute: str, model: SentenceTransformer, search: Callable[..., Any], tmp_path: Path
) -> None:
    """Some tasks leave out a document that is the query, or the first one found. The saved predictions hold both."""
    ids = dict(zip(QUERIES, ["d03", "d00", "d01", "d13", "d02"], strict=True))
    queries = {id: DOCUMENTS[id] for id in ids.values()}
    relevant = {ids[query]: gains for query, gains in RELEVANT.items()}
    result = run_mteb(model, search(queries=queries, relevant=relevant, **{attribute: True}), tmp_path)
    (part,) = result.parts
    for query in queries:  # a text is most similar to itself, so both ways leave out the same document
        assert len(part.rankings[query]) == len(DOCUMENTS) - 1
        assert query not in dict(part.rankings[query])
    rankings = [[document for document, _ in part.rankings[ids[query]]] for query in QUERIES]
    assert result.main_score == pytest.approx(ndcg_by_hand(rankings), **ROUNDED)


def test_equal_scores_are_ranked_as_trec_eval_does(
    model: SentenceTransformer, search: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Document ids descend where scores are equal; nDCG of that order is mteb's."""
    monkeypatch.setattr(model, "encode", lambda inputs, **options: np.ones((len(inputs), 4), dtype=np.float32))
    result = run_mteb(model, search(), tmp_path)
    rankings = documents_of(result.parts[0])
    assert rankings == [sorted(DOCUMENTS, reverse=True)] * len(QUERIES)
    assert result.main_score == pytest.approx(ndcg_by_hand(rankings), **ROUNDED)


def sts_task(mteb: ModuleType, pairs: Sequence[tuple[str, str]], scores: Sequence[float]) -> Any:
    from datasets import Dataset

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

        def load_data(self, **kwargs: Any) -> None:
            rows = [
                {"sentence1": first, "sentence2": second, "score": score}
                for (first, second), score in zip(pairs, scores, strict=True)
            ]
            self.dataset = {"test": Dataset.from_list(rows)}
            self.data_loaded = True

    return TinySTS()


@pytest.mark.parametrize("sides", ["query", "document"])
def test_a_task_without_sides_is_on_the_document_side(
    sides: str, mteb: ModuleType, model: SentenceTransformer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STS embeds with plain `encode`: calibrated with sides="document", plain with sides="query". Main score only."""
    pairs = [(words(20, seed), words(20, seed + 50)) for seed in range(12)]
    scores = [float(seed % 5) for seed in range(12)]
    calibrated = fairspan.calibrate(model, **CALIBRATION, sides=sides)
    recorder = Recorder(calibrated, monkeypatch)
    result = run_mteb(calibrated, sts_task(mteb, pairs, scores), tmp_path)
    assert {call[0] for call in recorder.calls} == {None}

    encoder = fairspan.calibrate(model, **CALIBRATION) if sides == "document" else model
    first, second = (encoder.encode([pair[side] for pair in pairs]).astype(np.float64) for side in (0, 1))
    cosines = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    # Saved to six places.
    assert result.main_score == pytest.approx(float(spearmanr(cosines, scores)[0]), abs=6e-7)
    assert (result.kind, result.measure) == ("STS", "cosine_spearman")
    assert result.parts[0].rankings == {}
    assert result.parts[0].relevant == {}
    calls = len(recorder.calls)
    assert run_mteb(calibrated, sts_task(mteb, pairs, scores), tmp_path) == result
    assert len(recorder.calls) == calls


def test_classification(mteb: ModuleType, model: SentenceTransformer, tmp_path: Path) -> None:
    """Eight texts a class are all that a classifier is fitted to, and here all that it is tested on."""
    from datasets import Dataset, DatasetDict
    from sklearn.linear_model import LogisticRegression

    texts, labels = [words(12, seed) for seed in range(16)], [seed % 2 for seed in range(16)]
    rows = Dataset.from_dict({"text": texts, "label": labels})

    class TinyClasses(mteb.abstasks.AbsTaskClassification):  # type: ignore[misc,name-defined]
        metadata = mteb.TaskMetadata(
            name="TinyClasses",
            description="Random words.",
            type="Classification",
            dataset={"path": "nowhere/tiny-classes", "revision": "1"},
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="accuracy",
        )
        n_experiments = 2

        def load_data(self, **kwargs: Any) -> None:
            self.dataset = DatasetDict(train=rows, test=rows)
            self.data_loaded = True

    result = run_mteb(model, TinyClasses(), tmp_path)
    vectors = model.encode(texts)
    by_hand = LogisticRegression(max_iter=100).fit(vectors, labels).score(vectors, labels)
    assert 0.5 < by_hand < 1
    assert (result.kind, result.measure, result.main_score) == ("Classification", "accuracy", by_hand)
    assert result.parts[0].rankings == {}


# mteb copies a tensor in a way that torch advises against.
@pytest.mark.filterwarnings("ignore:To copy construct from a tensor:UserWarning")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("MockRerankingTask", "Reranking"),
        ("MockInstructionReranking", "InstructionReranking"),
        ("MockPairClassificationTask", "PairClassification"),
        ("MockMultilingualClusteringFastTask", "Clustering"),
        ("MockBitextMiningTask", "BitextMining"),
    ],
)
def test_other_types_of_task(
    name: str,
    kind: str,
    mteb: ModuleType,
    model: SentenceTransformer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """mteb's own samples of them, whose scores mean nothing: they run, and are not run twice."""
    mocks = pytest.importorskip("mteb.mocks.mock_tasks")
    result = run_mteb(model, getattr(mocks, name)(), tmp_path)
    assert result.kind == kind
    assert all(bool(part.rankings) == kind.endswith("Reranking") for part in result.parts)
    recorder = Recorder(model, monkeypatch)
    np.testing.assert_equal(asdict(run_mteb(model, getattr(mocks, name)(), tmp_path)), asdict(result))
    assert recorder.calls == []


def test_every_run_of_a_task_draws_the_same_samples(
    model: SentenceTransformer, search: Callable[..., Any], tmp_path: Path
) -> None:
    """A task keeps its random state from one model to the next, and some draw their samples from it."""
    task, drawn = search(), []
    load = type(task).load_data

    def drawing(self: Any, **kwargs: Any) -> None:
        drawn.append((self.rng_state.random(), self.np_rng.random()))
        load(self, **kwargs)

    type(task).load_data = drawing
    run_mteb(model, task, tmp_path)
    run_mteb(fairspan.calibrate(model, **CALIBRATION), task, tmp_path)
    assert drawn == [(random.Random(42).random(), np.random.default_rng(42).random())] * 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("NFCorpu", "mteb has no task 'NFCorpu': did you mean 'NFCorpus'?"),
        ("no such task!", "mteb has no task 'no such task!': mteb.get_tasks() lists them."),
    ],
)
def test_an_unknown_task(
    name: str, message: str, mteb: ModuleType, model: SentenceTransformer, tmp_path: Path
) -> None:
    with pytest.raises(TaskError) as caught:
        run_mteb(model, name, tmp_path)
    assert str(caught.value) == message


def test_the_hub_cannot_be_reached(mteb: ModuleType, model: SentenceTransformer, tmp_path: Path) -> None:
    with pytest.raises(TaskError) as caught:
        run_mteb(model, "NFCorpus", tmp_path)
    assert str(caught.value) == (
        "the dataset mteb/nfcorpus of NFCorpus could not be loaded: the Hugging Face hub could not be reached."
    )


def test_data_that_does_not_load_is_one_line(
    model: SentenceTransformer, search: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**kwargs: Any) -> None:
        raise ValueError("no column\nand more")

    task = search()
    monkeypatch.setattr(task, "load_data", broken)
    with pytest.raises(
        TaskError, match=r"^the dataset nowhere/tiny-search of TinySearch could not be loaded: "
    ) as caught:
        run_mteb(model, task, tmp_path)
    assert "\n" not in str(caught.value)


def test_tasks_that_are_not_supported(
    mteb: ModuleType, model: SentenceTransformer, search: Callable[..., Any], tmp_path: Path
) -> None:
    with pytest.raises(TaskError, match=r"^CQADupstackRetrieval is the mean of 12 tasks: run each .*Android"):
        run_mteb(model, "CQADupstackRetrieval", tmp_path)
    with pytest.raises(TaskError, match=r"^CIFAR10 is a task of type ImageClassification on image: fairspan embeds"):
        run_mteb(model, "CIFAR10", tmp_path)
    with pytest.raises(TaskError, match=r"^a task is the name of one of mteb's, or an mteb\.AbsTask, got int\."):
        run_mteb(model, 7, tmp_path)
    assert list(tmp_path.glob("*/*-*")) == []


def test_a_task_can_be_limited(mteb: ModuleType) -> None:
    task = find_task("MIRACLRetrieval", languages=["deu"], splits=["dev"])
    assert (task.hf_subsets, list(task.eval_splits)) == (["de"], ["dev"])
    with pytest.raises(TaskError, match=r"^NFCorpus cannot be limited to the languages deu: No subsets were found"):
        find_task("NFCorpus", languages=["deu"])
    with pytest.raises(TaskError, match=r"^NFCorpus has no split 'final': it has test\.$"):
        find_task("NFCorpus", splits=["final"])


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mteb", None)
    with pytest.raises(MissingExtra) as caught:
        find_task("NFCorpus")
    assert str(caught.value) == "a task of mteb needs mteb: pip install 'fairspan[mteb]'."

    def half_installed(name: str) -> ModuleType:
        raise ModuleNotFoundError("No module named 'pytrec_eval'", name="pytrec_eval")

    monkeypatch.setattr(mteb_tasks, "import_module", half_installed)
    with pytest.raises(MissingExtra, match=r"needs pytrec_eval, which mteb imports: pip install 'fairspan\[mteb\]'"):
        find_task("NFCorpus")


def test_nothing_is_written_elsewhere(
    model: SentenceTransformer, search: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All files of a run lie in its folder, and the home folder stays as it is."""
    home, where = tmp_path / "home", tmp_path / "runs"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)
    result = run_mteb(model, search(), where)
    assert list(home.iterdir()) == []
    assert result.folder.parent == where / "TinySearch"
    names = {file.name for file in result.folder.rglob("*") if file.is_file()}
    assert names >= {"run.json", "relevant.json", "TinySearch.json", "TinySearch_predictions.json"}


# The stand-in for pytrec_eval.

CUTS = (1, 3, 10)
MEASURES = {f"{name}.{','.join(map(str, CUTS))}" for name in ("ndcg_cut", "map_cut", "recall", "P", "success")}


def test_the_stand_in_by_hand() -> None:
    """Ranks 1 to 4 are d, c, b, a: of two equal scores the higher id comes first. b is relevant 2, a and e are 1."""
    found = {"a": 0.1, "b": 0.5, "c": 0.5, "d": 0.9}
    evaluator = RelevanceEvaluator({"q": {"b": 2, "a": 1, "e": 1, "c": 0, "d": -1}}, MEASURES)
    values = evaluator.evaluate({"q": found, "not judged": found})
    assert list(values) == ["q"]
    best = 2 + 1 / np.log2(3) + 1 / np.log2(4)
    expected = {
        "ndcg_cut_1": 0.0,
        "ndcg_cut_3": 2 / np.log2(4) / best,
        "ndcg_cut_10": (2 / np.log2(4) + 1 / np.log2(5)) / best,
        "map_cut_3": (1 / 3) / 3,
        "map_cut_10": (1 / 3 + 2 / 4) / 3,
        "recall_3": 1 / 3,
        "recall_10": 2 / 3,
        "P_3": 1 / 3,
        "P_10": 2 / 10,
        "success_1": 0.0,
        "success_3": 1.0,
    }
    assert {name: values["q"][name] for name in expected} == pytest.approx(expected, abs=1e-15)


def test_the_stand_in_refuses_what_the_real_one_does() -> None:
    with pytest.raises(TypeError, match=r"Expected relevance to be integer\."):
        RelevanceEvaluator({"q": {"a": 1.0}}, MEASURES)  # type: ignore[dict-item]
    with pytest.raises(TypeError, match=r"Unable to resolve all measures\."):
        RelevanceEvaluator({"q": {"a": 1}}, {"ndcg.10"})


def random_search() -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    generator = np.random.default_rng(3)
    names = [f"d{number}" for number in range(30)]
    relevant, found = {}, {}
    for query in (f"q{number}" for number in range(40)):
        judged = generator.choice(names, 8, replace=False)
        levels = generator.integers(0, 4, 8)
        relevant[query] = {str(name): int(level) for name, level in zip(judged, levels, strict=True)}
        relevant[query][str(judged[0])] = 1
        ranked = generator.choice(names, 20, replace=False)
        scores = generator.random(20)
        found[query] = {str(name): float(score) for name, score in zip(ranked, scores, strict=True)}
    return relevant, found


@pytest.mark.slow
def test_the_stand_in_against_ranx() -> None:
    """Scores without ties, whose order ranx leaves to chance."""
    if find_spec("ranx") is None:
        pytest.skip("needs ranx")
    relevant, found = random_search()
    names = {"ndcg_cut": "ndcg", "map_cut": "map", "recall": "recall", "P": "precision", "success": "hit_rate"}
    measures = {f"{theirs}@{k}": f"{ours}_{k}" for ours, theirs in names.items() for k in CUTS}
    code = (
        "import json, sys; from ranx import Qrels, Run, evaluate; relevant, found, names = json.load(sys.stdin); "
        "run = Run(found); evaluate(Qrels(relevant), run, names); print(json.dumps(run.scores))"
    )
    # Compiling ranx's functions takes most of a minute, and leaves files beside them.
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        input=json.dumps([relevant, found, list(measures)]),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    theirs = json.loads(done.stdout)
    values = RelevanceEvaluator(relevant, MEASURES).evaluate(found)
    for query in relevant:
        ours = {name: values[query][measure] for name, measure in measures.items()}
        assert ours == pytest.approx({name: theirs[name][query] for name in measures}, abs=1e-12)


def test_the_stand_in_against_the_real_one() -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="pytrec_eval has no wheel for this platform")
    relevant, found = random_search()
    tied = {query: {document: round(score, 1) for document, score in ones.items()} for query, ones in found.items()}
    for run in (found, tied):
        theirs = pytrec_eval.RelevanceEvaluator(relevant, MEASURES).evaluate(run)
        ours = RelevanceEvaluator(relevant, MEASURES).evaluate(run)
        for query in relevant:
            assert ours[query] == pytest.approx(theirs[query], abs=1e-12)


def test_each_treatment_reads_as_far_as_it_can(
    search: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of 20 positions, set to read 60, on documents of 30 words: none cuts them, tiles read on."""
    short = tiny_model(tmp_path / "short", "bert", "mean", max_position_embeddings=20)
    short.max_seq_length = 60
    long = {id: f"{text} {words(30, 700 + number)}" for number, (id, text) in enumerate(DOCUMENTS.items())}
    monkeypatch.setitem(globals(), "DOCUMENTS", long)
    name = "tiles+tile_size=8"
    spec = make_evaluation("mteb:TinySearch", treatments=["none", name], documents_only=False)
    options = RunOptions(out=tmp_path / "run")
    log = evaluate_mteb(open_subject(short, name="short"), spec, options, task=search())
    plain = copy_sharing_weights(short)
    plain.max_seq_length = 20
    tiled = fairspan.calibrate(short, fairspan.Calibration.preset("tiles").but(tile_size=8))
    for treatment, model in (("none", plain), (name, tiled)):
        found = run_mteb(model, search(), tmp_path / treatment)
        queries, documents = model.encode_query(list(QUERIES.values())), model.encode_document(list(long.values()))
        assert documents_of(found.parts[0]) == ranked_by_hand(queries, documents)
        own = log.rows.filter(treatment=treatment, measure="ndcg@10")["value"].mean()
        assert own == pytest.approx(found.parts[0].main_score, abs=1e-5)
    unknown = "longer texts were cut, and how many is not known"
    assert log.notes == [
        f"none: texts are read up to 20 tokens; {unknown}",
        f"{name}: texts are read up to 60 tokens; {unknown}",
    ]
