"""Searches of mteb, read query by query, without a network."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fairspan
from fairspan.errors import CorpusError, MissingExtra
from fairspan.retrieval import mteb_reading
from fairspan.retrieval.mteb_reading import find_task, read_mteb
from tests.builders.mteb_tasks import (
    DOCUMENTS,
    QUERIES,
    RELEVANT,
    mteb,
    named,
    of_mteb,
    scored_by_mteb,
    search,
)
from tests.builders.saying import said_by
from tests.builders.tiny import tiny_model

__all__ = ["mteb", "named", "search"]


def test_a_task_is_read_query_by_query(
    search: Callable[..., Any], named: Callable[[Any], None]
) -> None:
    """Titles stand before texts; q9 has no answer, and what is judged and not there counts for
    nothing."""
    judged = {**RELEVANT, "q0": {"d00": 3, "gone": 1}, "q9": {"d01": 0}}
    named(search(queries={**QUERIES, "q9": "w1"}, relevant=judged, title=["T", *[""] * 13]))
    task = read_mteb("TinySearch")
    assert {query.id: query.text for query in task.queries} == QUERIES
    titled = {**DOCUMENTS, "d00": f"T {DOCUMENTS['d00']}"}
    assert {document.id: document.text for document in task.documents} == titled
    assert task.relevant["q0"] == {"d00": 3.0}
    assert task.relevant["q1"] == {"d01": 2.0, "d06": 1.0, "d13": 0.0}
    assert task.left_out == {}
    assert task.notes == ("1 queries that nothing answers were left out",)


@scored_by_mteb
@of_mteb
def test_scores_are_those_of_mteb_itself(
    mteb: ModuleType, search: Callable[..., Any], named: Callable[[Any], None], tmp_path: Path
) -> None:
    """mteb runs a calibrated model as docs/evaluate.md says; `evaluate` finds the same, where
    queries are documents, as in ArguAna, the next document answers each, and a query does not find
    itself. mteb rounds to five places."""
    ids = list(DOCUMENTS)
    queries = {id: DOCUMENTS[id] for id in ids[:6]}
    relevant = {id: {ids[place + 1]: 1} for place, id in enumerate(queries)}
    for identical in (False, True):
        task = search(queries=queries, relevant=relevant, identical=identical)
        named(task)
        assert len(read_mteb("TinySearch").left_out) == 6 * identical
    model = tiny_model(tmp_path / "model", "bert", "mean")
    fair = fairspan.calibrate(model, "paper", basket_size=4)
    log = fairspan.evaluate(
        model,
        "mteb:TinySearch",
        treatments=["plain", "paper+basket_size=4"],
        metrics=["ndcg@10", "recall@3"],
        out=tmp_path / "run",
        progress=False,
    )
    for treatment, searcher in zip(log.treatments, (model, fair), strict=True):
        result = mteb.evaluate(searcher, task, cache=None, co2_tracker=False)
        theirs = result.task_results[0].scores["test"][0]
        for metric, name in (("ndcg@10", "ndcg_at_10"), ("recall@3", "recall_at_3")):
            ours = log.rows.filter(treatment=treatment, measure=metric, index="whole")["value"]
            assert len(ours) == 6
            assert ours.mean() == pytest.approx(theirs[name], abs=1e-5)


def test_one_subset_is_read(search: Callable[..., Any], named: Callable[[Any], None]) -> None:
    named(search({"de": "deu-Latn", "fr": "fra-Latn"}))
    said = said_by(read_mteb, "TinySearch", kind=CorpusError)
    assert said.startswith("TinySearch has 2 subsets (de, fr, …): choose a language")
    named(search({"de": "deu-Latn"}))
    assert len(read_mteb("TinySearch").queries) == 5


@pytest.mark.parametrize(
    ("name", "language", "message"),
    [
        ("NFCorpu", None, "mteb has no task 'NFCorpu': did you mean 'NFCorpus'?"),
        ("no such task!", None, "mteb has no task 'no such task!': mteb.get_tasks() lists them."),
        ("NFCorpus", "deu", "NFCorpus cannot be limited to the language deu: No subsets"),
        ("CQADupstackRetrieval", None, "CQADupstackRetrieval is an aggregate on text, and"),
        ("CIFAR10", None, "CIFAR10 is ImageClassification on image, and evaluate"),
        ("STS22", None, "STS22 is STS on text, and evaluate takes one search of texts: score it"),
        ("AskUbuntuDupQuestions", None, "AskUbuntuDupQuestions is Reranking on text"),
    ],
)
def test_what_is_no_search_of_mteb(
    mteb: ModuleType, name: str, language: str | None, message: str
) -> None:
    assert said_by(find_task, name, language).startswith(message)
    assert find_task("MIRACLRetrieval", "deu").hf_subsets == ["de"]


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
    assert said_by(read_mteb, "TinySearch") == said


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mteb", None)
    said = "a task of mteb needs mteb: pip install 'fairspan[mteb]'."
    assert said_by(find_task, "NFCorpus", kind=MissingExtra) == said

    def half_installed(name: str) -> ModuleType:
        raise ModuleNotFoundError("No module named 'rich'", name="rich")

    monkeypatch.setattr(mteb_reading, "import_module", half_installed)
    said = "needs rich, which mteb imports: pip install 'fairspan[mteb]'"
    assert said in said_by(find_task, "NFCorpus", kind=MissingExtra)


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
