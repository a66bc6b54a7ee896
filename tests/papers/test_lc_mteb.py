"""Tasks of mteb under every treatment: scores, means, and what is scored after an interruption."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import polars as pl
import pytest

import fairspan
import lc_mteb
from baselines import last_two, whiten
from tests.builders.commands import Said
from tests.builders.tiny import words
from tests.papers.conftest import Script, refused

TEXTS = [words(4 + number % 9, seed=number) for number in range(60)]
TREATMENTS = ["plain", "tempscale+temperature=0.3", "last2avg", "whitening"]
# The paper's names of a search and of sentence pairs, and a name that it does not have.
TYPE_OF = {"SciFact": "BeirRetr.", "STS12": "STS", "Other": "STS"}


def data_of(name: str) -> dict[str, Any]:
    """The data of a tiny task."""
    Dataset = pytest.importorskip("datasets").Dataset  # noqa: N806
    if name == "SciFact":
        corpus = [{"id": f"d{number}", "text": text} for number, text in enumerate(TEXTS[:40])]
        queries = [{"id": f"q{number}", "text": text} for number, text in enumerate(TEXTS[40:])]
        relevant = {f"q{number}": {f"d{number}": 1, f"d{number + 9}": 1} for number in range(20)}
        tables = {"corpus": Dataset.from_list(corpus), "queries": Dataset.from_list(queries)}
        return {"test": {**tables, "relevant_docs": relevant, "top_ranked": None}}
    shift = 0 if name == "STS12" else 1
    pairs = {"sentence1": TEXTS[shift:30], "sentence2": TEXTS[30 : 60 - shift]}
    scores = [(7 * number) % 6 for number in range(30 - shift)]
    return {"test": Dataset.from_dict({**pairs, "score": scores})}


def tiny_task(mteb: ModuleType, name: str, calls: list[str]) -> Any:
    """A task under the name of a real one; `calls` gets its name whenever it is scored."""
    kind = "Retrieval" if name == "SciFact" else "STS"
    dataset = {"path": f"nowhere/{name}", "revision": "1"}
    main_score = {"Retrieval": "ndcg_at_10", "STS": "cosine_spearman"}[kind]

    class Tiny(getattr(mteb.abstasks, f"AbsTask{kind}")):  # type: ignore[misc]
        metadata = mteb.TaskMetadata(
            name=name,
            type=kind,
            description="A few random words.",
            dataset=dataset,
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score=main_score,
        )
        min_score, max_score = 0, 5

        def load_data(self, **_: Any) -> None:
            self.dataset = {"default": data_of(name)}
            self.data_loaded = True

        def evaluate(self, *values: Any, **options: Any) -> Any:
            calls.append(name)
            return super().evaluate(*values, **options)

    return Tiny()


@pytest.fixture
def calls(mteb: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The tasks that were scored. mteb gets tiny tasks by name, and unknown ones as before."""
    scored: list[str] = []
    find = mteb.get_task
    expected = {"languages": ["eng"], "exclusive_language_filter": True, "eval_splits": None}

    def get_task(name: str, **limits: Any) -> Any:
        assert limits == expected
        return tiny_task(mteb, name, scored) if name in TYPE_OF else find(name, **limits)

    monkeypatch.setattr(mteb, "get_task", get_task)
    with patch.dict(mteb.models.model_implementations.MODEL_REGISTRY):
        yield scored


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Texts that whitening is fitted on: pieces of 80 words and of fewer."""
    file = tmp_path / "texts" / "en.txt"
    file.parent.mkdir()
    file.write_text(words(9999, seed=5), encoding="utf-8")
    return file


@pytest.fixture
def score(script: Script, model: Path, corpus: Path, tmp_path: Path) -> Callable[..., Said]:
    """Runs the script on a tiny model, with these tasks and options."""
    usual = {"treatments": ",".join(TREATMENTS), "corpus": corpus, "out": tmp_path / "out"}

    def run(tasks: str, **changes: Any) -> Said:
        options = {**usual, **changes}
        typed = [word for name, value in options.items() for word in (f"--{name}", value)]
        return script(lc_mteb, model, tasks, *typed)

    return run


def scores_in(folder: Path) -> dict[tuple[str, str], float]:
    tasks = pl.read_csv(folder / "tasks.csv")
    return {row[:2]: row[2] for row in tasks.select("task", "treatment", "score").rows()}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_scores_are_those_of_mteb(
    mteb: ModuleType,
    score: Callable[..., Said],
    calls: list[str],
    model: Path,
    corpus: Path,
    tmp_path: Path,
) -> None:
    """Of models that mteb is given as SentenceTransformers; means and changes by hand."""
    said = score("SciFact,STS12,Other").ok
    plain = fairspan.load(model)
    treated = [
        plain,
        fairspan.calibrate(plain, TREATMENTS[1]),
        last_two(plain),
        whiten(plain, lc_mteb.passages(str(corpus))),
    ]
    scores = scores_in(tmp_path / "out")
    by_hand = [("STS12", *pair) for pair in zip(TREATMENTS, treated, strict=True)]
    by_hand += [("SciFact", TREATMENTS[1], treated[1]), ("Other", "whitening", treated[3])]
    for name, treatment, made in by_hand:
        task = tiny_task(mteb, name, [])
        result = mteb.evaluate(made, task, cache=None, show_progress_bar=False)
        wanted = result.task_results[0].get_score()
        assert scores[name, treatment] == pytest.approx(wanted, abs=1e-5)
    assert len({score for (name, _), score in scores.items() if name == "STS12"}) == 4
    types = pl.read_csv(tmp_path / "out" / "types.csv")
    assert types["type"].unique(maintain_order=True).to_list() == ["BeirRetr.", "STS", "Avg."]
    assert types["tasks"].unique(maintain_order=True).to_list() == [1, 2, 3]
    before = types.filter(treatment="plain")["score"].to_numpy()
    for treatment in TREATMENTS:
        rows = types.filter(treatment=treatment)
        search = scores["SciFact", treatment]
        pairs = (scores["STS12", treatment] + scores["Other", treatment]) / 2
        wanted = [search, pairs, (search + pairs) / 2]
        assert rows["score"].to_list() == pytest.approx(wanted)
        assert rows["relative_change"].to_numpy() == pytest.approx((wanted - before) / abs(before))
    assert "BeirRetr." in said.out
    assert (tmp_path / "out" / "types.png").stat().st_size > 1000


def test_only_what_is_missing_is_scored(
    mteb: ModuleType, score: Callable[..., Said], calls: list[str], tmp_path: Path
) -> None:
    """A run that breaks off in its second task has the first, under two names."""
    score = partial(score, treatments="plain,whitening")

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no more\nspace")

    with patch.object(mteb.abstasks.AbsTaskSTS, "evaluate", broken):
        refused(score("SciFact,STS12"), "mteb could not score STS12: no more space")
    assert calls == ["SciFact"] * 2 + ["STS12"]
    del calls[:]
    assert score("SciFact,STS12").ok
    assert calls == ["STS12"] * 2
    first = scores_in(tmp_path / "out")
    assert score("SciFact,STS12").ok
    assert len(calls) == 2
    # mteb keeps six places.
    assert scores_in(tmp_path / "out") == pytest.approx(first, abs=1e-6)
    names = {file.parent.parent.name for file in tmp_path.glob("out/results/*/*/SciFact.json")}
    assert len(names) == 2
    other = tmp_path / "texts" / "other.txt"
    other.write_text(words(9999, seed=6), encoding="utf-8")
    assert score("STS12", corpus=other).ok
    assert len(calls) == 3, "whitening on other texts is another model"


def test_bad_input_is_one_line(score: Callable[..., Said], calls: list[str]) -> None:
    for tasks, options, reason in (
        ("NoTask", {}, "mteb could not score NoTask: "),
        ("STS12", {"treatments": "tempscal"}, "there is no preset 'tempscal'"),
        ("STS12", {"corpus": "no such folder"}, "no such folder"),
    ):
        refused(score(tasks, **options), reason)
    assert not calls


def test_the_papers_tasks_are_there(mteb: ModuleType) -> None:
    """As many of each type as Table 1 says."""
    counts = {name: len(tasks.split()) for name, tasks in lc_mteb.TYPES.items()}
    paper = {"Class.": 8, "Clust.": 11, "Summ.": 1, "STS": 10, "BeirRetr.": 2}
    assert counts == paper | {"Rerank.": 4, "LongEmbdRetr.": 4}
    for name in lc_mteb.TYPE_OF:
        assert mteb.get_task(name).metadata.name == name
