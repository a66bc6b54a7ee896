"""Tasks of every type that mteb scores under each treatment, without a network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fairspan
from fairspan.calibration.treatment import as_treatment
from fairspan.errors import CorpusError, FairspanError
from fairspan.retrieval.mteb_running import mteb_model
from fairspan.retrieval.trec_scores import RelevanceEvaluator
from fairspan.studies.evaluate.options import EvaluateOptions
from fairspan.studies.evaluate.run import STUDY
from fairspan.studies.logs import changes, compare, read_log
from tests.saying import said_by
from tests.test_mteb import DOCUMENTS, QUERIES, RELEVANT, mteb, of_mteb, registry, table
from tests.tiny import tiny_model, words

__all__ = ["mteb", "registry"]
SENTENCES = [words(4 + number % 9, seed=number) for number in range(60)]
LABELS = [number % 3 for number in range(60)]
TREATMENTS = ["plain", "tempscale+temperature=0.3", "last2avg", "whitening-8"]
MAIN_SCORES = {
    "Classification": "accuracy",
    "Clustering": "v_measure",
    "STS": "cosine_spearman",
    "Reranking": "map_at_1000",
    "Summarization": "cosine_spearman",
    "Retrieval": "ndcg_at_10",
}
NAMES = ",".join(f"Tiny{kind}" for kind in MAIN_SCORES)


def rows_of(kind: str) -> dict[str, Any]:
    """The data of a tiny task, split by split; searches have several tables."""
    from datasets import Dataset

    columns: dict[str, Sequence[Any]] = {"text": SENTENCES, "label": LABELS}
    if kind == "Clustering":
        columns = {"sentences": SENTENCES, "labels": LABELS}
    elif kind == "STS":
        scores = [(7 * number) % 6 for number in range(30)]
        columns = {"sentence1": SENTENCES[:30], "sentence2": SENTENCES[30:], "score": scores}
    elif kind == "Summarization":
        parts = [SENTENCES[start : start + 5] for start in range(0, 60, 5)]
        columns = {"text": SENTENCES[:6], "human_summaries": parts[:6]}
        columns |= {"machine_summaries": parts[6:], "relevance": [[1, 3, 5, 2, 4]] * 6}
    elif kind in ("Retrieval", "Reranking"):
        judged = {query: dict(gains) for query, gains in RELEVANT.items()}
        first = {query: [*gains, "d11", "d12"] for query, gains in RELEVANT.items()}
        tables = {"queries": table(QUERIES), "corpus": table(DOCUMENTS), "relevant_docs": judged}
        return {"test": {**tables, "top_ranked": first if kind == "Reranking" else None}}
    data = Dataset.from_dict({name: list(values) for name, values in columns.items()})
    return {"train": data, "test": data}


def tiny_task(mteb: ModuleType, kind: str, calls: Counter[str]) -> Any:
    """A task of a type; `calls` counts how often it is scored."""
    names = {"Reranking": "AbsTaskRetrieval"}
    base = getattr(mteb.abstasks, names.get(kind, f"AbsTask{kind}"))
    dataset = {"path": f"nowhere/{kind}", "revision": "1"}

    class Tiny(base):  # type: ignore[misc,valid-type]
        metadata = mteb.TaskMetadata(
            name=f"Tiny{kind}",
            type=kind,
            description="A few random words.",
            dataset=dataset,
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score=MAIN_SCORES[kind],
        )
        min_score, max_score = 1, 5
        max_fraction_of_documents_to_embed = 0.7
        max_documents_per_cluster = 20
        n_experiments = n_clusters = 2

        def load_data(self, **_: Any) -> None:
            self.dataset = {"default": rows_of(kind)}
            self.data_loaded = True

        def evaluate(self, *values: Any, **named: Any) -> Any:
            calls[kind] += 1
            return super().evaluate(*values, **named)

    return Tiny()


@pytest.fixture
def calls(mteb: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each task was scored; mteb finds a tiny task of each type, and its own."""
    counted: Counter[str] = Counter()
    find = mteb.get_task

    def get_task(name: str, **limits: Any) -> Any:
        kind = name.removeprefix("Tiny")
        return tiny_task(mteb, kind, counted) if kind in MAIN_SCORES else find(name, **limits)

    monkeypatch.setattr(mteb, "get_task", get_task)
    return counted


@pytest.fixture
def scoring(tmp_path: Path) -> Callable[..., Any]:
    """Evaluates a tiny model on all tasks, or on those that are named."""
    model = tiny_model(tmp_path / "model", "bert", "mean")
    asked: dict[str, Any] = {"treatments": TREATMENTS, "progress": False}
    asked |= {"store": tmp_path / "store", "out": tmp_path / "run"}
    return lambda names=NAMES, **how: fairspan.evaluate(model, f"mteb:{names}", **{**asked, **how})


def scores_of(log: Any) -> dict[tuple[str, str], float]:
    return {row[:2]: row[2] for row in log.rows.select("document", "treatment", "value").rows()}


@of_mteb
def test_scores_are_those_of_mteb(
    mteb: ModuleType,
    calls: Counter[str],
    registry: Mapping[str, Any],
    scoring: Callable[..., Any],
    tmp_path: Path,
) -> None:
    """Of all types: what mteb itself gives with `mteb_model`, which embeds in other batches."""
    ours = scores_of(scoring(treatments=TREATMENTS[1:2]))
    model = tiny_model(tmp_path / "model", "bert", "mean")
    meta = mteb_model(model, as_treatment(TREATMENTS[1]).calibration)
    for kind in MAIN_SCORES:
        task = tiny_task(mteb, kind, Counter())
        found = mteb.evaluate(meta, task, cache=None, show_progress_bar=False)
        theirs = found.task_results[0].get_score()
        assert ours[f"Tiny{kind}", TREATMENTS[1]] == pytest.approx(theirs, abs=1e-5), kind


def test_all_treatments_have_the_samples_that_a_task_draws(
    calls: Counter[str], scoring: Callable[..., Any]
) -> None:
    """The second changes nothing, and other samples would give it another score."""
    plain, same, other = scoring(
        "TinyClustering", treatments=["plain", "plain+basket_size=64", TREATMENTS[1]]
    ).rows["value"]
    assert same == pytest.approx(plain, abs=1e-6)
    assert other != plain


def test_tables_by_task_and_by_type(
    calls: Counter[str], scoring: Callable[..., Any], tmp_path: Path
) -> None:
    """Means, and changes relative to the first treatment, by hand; baselines are treatments."""
    log = scoring("TinySTS,TinySummarization,TinyRetrieval")
    ours = scores_of(log)
    tasks, types = log.frame("tasks"), log.frame("types")
    assert len(tasks) == 12
    for _, _, task, _, treatment, score, _, relative in tasks.rows():
        before = ours[task, "plain"]
        assert score == ours[task, treatment]
        expected = None if treatment == "plain" else (score - before) / abs(before)
        assert relative == (expected and pytest.approx(expected))
    whole = {row["treatment"]: row for row in types.filter(type="mean of types").to_dicts()}
    means = {
        name: np.mean([ours[task, name] for task in dict.fromkeys(tasks["task"])]) for name in whole
    }
    assert list(whole) == TREATMENTS
    for name, row in whole.items():
        assert (row["tasks"], row["score"]) == (3, pytest.approx(means[name]))
    assert whole["last2avg"]["relative"] == pytest.approx(means["last2avg"] / means["plain"] - 1)
    assert log.notes == ["whitening-8: fitted on 320 texts of long-sample that are not tested"]
    assert log.view.cards[0].badge == "baseline"
    page = log.save_page(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "no intervals over queries and no verdicts" in page
    assert log.verdicts.is_empty()
    assert log.figure().axes
    for judge in (compare, changes):
        assert "one score of mteb per task, and no queries" in said_by(
            judge, log, kind=FairspanError
        )


def test_changed_data_of_a_task_are_scored(
    calls: Counter[str],
    scoring: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Other labels under the same name and revision, and the same texts."""
    first = scores_of(scoring("TinyClassification", treatments=["plain"]))
    monkeypatch.setattr("tests.test_mteb_scores.LABELS", [number % 2 for number in range(60)])
    again = scoring("TinyClassification", treatments=["plain"], out=tmp_path / "other")
    assert calls["Classification"] == 2
    assert scores_of(again) != first


def test_a_finished_task_is_not_scored_again(
    mteb: ModuleType,
    calls: Counter[str],
    scoring: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A run that breaks off has what it scored; it continues there, and so do others that ask for
    more tasks or treatments."""
    names, two = "TinySTS,TinyRetrieval", TREATMENTS[:2]
    scorer = mteb.abstasks.AbsTaskRetrieval.evaluate

    def broken(*values: Any, **named: Any) -> Any:
        raise RuntimeError("no more\nspace")

    monkeypatch.setattr(mteb.abstasks.AbsTaskRetrieval, "evaluate", broken)
    with pytest.raises(
        CorpusError, match=r"^mteb could not score TinyRetrieval: RuntimeError: no more\.$"
    ):
        scoring(names, treatments=two)
    half = read_log(tmp_path / "run")
    assert "not scored: TinyRetrieval" in half.view.notes
    assert half.frame("types")["type"].to_list() == ["STS", "STS"]
    monkeypatch.setattr(mteb.abstasks.AbsTaskRetrieval, "evaluate", scorer)
    assert calls == {"STS": 2, "Retrieval": 1}
    log = scoring(names, treatments=two)
    assert calls == {"STS": 2, "Retrieval": 3}
    more = scoring(f"{names},TinyReranking", treatments=[*two, "last2avg"], out=tmp_path / "more")
    assert calls == {"STS": 3, "Retrieval": 4, "Reranking": 3}
    assert scores_of(log).items() <= scores_of(more).items()
    scoring(names, treatments=two, fresh=True)
    assert calls == {"STS": 5, "Retrieval": 6, "Reranking": 3}


@pytest.mark.parametrize(
    ("names", "how", "said"),
    [
        ("TinySTS,NoTask", {}, "mteb has no task 'NoTask': "),
        ("TinySTS,TinySTS", {}, "the task 'TinySTS' of mteb is named twice."),
        ("TinySTS", {"metrics": ["mrr"]}, "metrics is for searches, and mteb:TinySTS is scored by"),
        ("TinySTS", {"treatments": ["whitening-32"], "fit_corpus": "nowhere"}, "nowhere"),
    ],
)
def test_what_mteb_cannot_score(
    calls: Counter[str], scoring: Callable[..., Any], names: str, how: dict[str, Any], said: str
) -> None:
    assert said in said_by(scoring, names, **how)
    assert not calls


def test_a_forecast_counts_all_texts(calls: Counter[str], tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "model", "bert", "mean")
    asked = EvaluateOptions(
        model, "mteb:TinySTS,TinyRetrieval", treatments=TREATMENTS[:2], language="eng"
    )
    asked.check()  # the corpus that whitening is fitted on has other names of languages
    found = STUDY.forecast(asked)
    counts = model.tokenizer([*SENTENCES, *DOCUMENTS.values(), *QUERIES.values()])["input_ids"]
    assert [row["tokens"] for row in found.rows] == [sum(map(len, counts))] * 2
    assert found.scope == "2 tasks of mteb × 2 treatments"
    assert not calls


def test_measures_of_rankings_by_hand() -> None:
    """As trec_eval defines them: of equal scores the last name is first; unjudged is irrelevant."""
    run = {"q": {"a": 0.5, "b": 0.5, "c": 0.9, "d": 0.1}, "unjudged": {"a": 1.0}}
    names = {"ndcg_cut.1,3", "map_cut.3", "recall.1,3", "P.3", "success.1,2"}
    found = RelevanceEvaluator({"q": {"a": 1, "b": 2, "e": 1, "c": 0}}, names).evaluate(run)
    best = 2 + 1 / np.log2(3) + 1 / 2
    assert found == {
        "q": pytest.approx(
            {
                "ndcg_cut_1": 0.0,
                "ndcg_cut_3": (2 / np.log2(3) + 1 / 2) / best,
                "map_cut_3": (1 / 2 + 2 / 3) / 3,
                "recall_1": 0.0,
                "recall_3": 2 / 3,
                "P_3": 2 / 3,
                "success_1": 0.0,
                "success_2": 1.0,
            }
        )
    }
