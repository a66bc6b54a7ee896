"""What mteb runs: a calibrated model by its name, and a search by position, without a network."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fairspan
from fairspan.errors import CorpusError, UnsupportedModel
from fairspan.retrieval.mteb_running import mteb_model, mteb_task
from tests.builders.mteb_tasks import (
    DOCUMENTS,
    QUERIES,
    RELEVANT,
    mteb,
    of_mteb,
    registry,
    scored_by_mteb,
    search,
    table,
)
from tests.builders.saying import said_by
from tests.builders.searches import write_beir
from tests.builders.tiny import save_tiny, tiny_model

__all__ = ["mteb", "registry", "search"]

ROWS, ASKED = (
    [{"id": id, "text": text} for id, text in texts.items()] for texts in (DOCUMENTS, QUERIES)
)


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
    assert long.similarity_fn_name.value == "cosine"
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


def test_each_side_is_embedded_as_its_own(
    mteb: ModuleType, registry: dict[str, Any], tmp_path: Path
) -> None:
    from torch.utils.data import DataLoader

    wrapper, folder = mteb.SentenceTransformerEncoderWrapper, save_tiny(tmp_path / "model", "bert")
    prompts = {"model_prompts": {"query": "w1 ", "document": "w2 "}}
    described = {"loader": wrapper, "loader_kwargs": prompts, "training_datasets": {"NQ"}}
    registry["model"] = mteb.models.ModelMeta.create_empty(described)
    meta = mteb_model(str(folder), "paper", basket_size=4, sides="document")
    assert meta.training_datasets == {"NQ"}
    encoder, plain, texts = meta.load_model(), fairspan.load(folder), list(DOCUMENTS.values())
    given = DataLoader(table(DOCUMENTS), batch_size=4)
    where = {"task_metadata": mteb.get_task("NFCorpus").metadata}
    where |= {"hf_split": "test", "hf_subset": "default"}
    found = {
        one: encoder.encode(given, **where, prompt_type=mteb.types.PromptType(one))
        for one in ("query", "document")
    }
    fair = fairspan.calibrate(plain, "paper", basket_size=4)
    documents = fair.encode_document(texts, prompt="w2 ")
    np.testing.assert_allclose(found["query"], plain.encode_query(texts, prompt="w1 "), atol=1e-5)
    np.testing.assert_allclose(found["document"], documents, atol=1e-5)
    assert np.abs(documents - plain.encode_document(texts, prompt="w2 ")).max() > 0.01
    registry["model"] = registry["model"].model_copy(update={"loader": len})
    said = said_by(mteb_model, str(folder), kind=UnsupportedModel)
    assert said.startswith("mteb runs model by code of its own: give a SentenceTransformer")


@scored_by_mteb
@of_mteb
def test_results_are_not_taken_for_those_of_the_plain_model(
    mteb: ModuleType, registry: dict[str, Any], search: Callable[..., Any], tmp_path: Path
) -> None:
    """Each is asked for twice: the second time, mteb reads what it filed, with six places."""
    plain = tiny_model(tmp_path / "model", "bert", "mean")
    cache = mteb.ResultCache(tmp_path / "results")

    def score(model: Any) -> float:
        twice = [
            mteb.evaluate(model, search(), cache=cache, co2_tracker=False, show_progress_bar=False)
            for _ in range(2)
        ]
        first, filed = (one.task_results[0].scores["test"][0]["mrr_at_10"] for one in twice)
        assert filed == pytest.approx(first, abs=1e-6)
        return float(first)

    expected = score(plain)
    assert score(mteb_model(plain, "plain")) == pytest.approx(expected, abs=1e-6)
    fair = fairspan.calibrate(plain, basket_size=4)
    assert abs(score(mteb_model(fair)) - expected) > 0.01, "the calibration shows"
    assert len(list(tmp_path.glob("results/*/*/*/TinySearch.json"))) == 3


@scored_by_mteb
def test_scores_by_position_are_those_of_evaluate(registry: dict[str, Any], tmp_path: Path) -> None:
    """On a folder where four of five queries say in which fifth their answer is, by the example."""
    task, folder = tmp_path / "task", save_tiny(tmp_path / "model", "bert")
    in_fifths = [{**one, "fifth": int(one["id"][1:]) - 1} for one in ASKED]
    write_beir(task, ROWS, in_fifths, RELEVANT)
    treatments = ("plain", "tempscale")
    options = {"treatments": treatments, "out": tmp_path / "run", "progress": False}
    log = fairspan.evaluate(str(folder), str(task), **options)
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "with_mteb.py"))
    found = example["compare"](str(folder), treatments, task=str(task))
    assert found["local/model (plain)"] != found["local/model (tempscale)"]
    for treatment in treatments:
        theirs = found[f"local/model ({treatment})"]
        ours = log.rows.filter(treatment=treatment, measure="ndcg@10", index="whole")
        assert ours["value"].mean() == pytest.approx(theirs.pop("main_score"), abs=1e-5)
        by_fifth = dict(ours.select("fifth", "value").drop_nulls().iter_rows())
        wanted = {f"ndcg_at_10_position_{place}": by_fifth[place] for place in (1, 2, 3, 4)}
        # mteb rounds to five digits.
        assert theirs == pytest.approx(wanted, abs=1e-5)


def test_what_mteb_cannot_score_by_position(mteb: ModuleType, tmp_path: Path) -> None:
    bare = write_beir(tmp_path / "bare", ROWS, ASKED, RELEVANT)
    said = f"queries of {bare} do not say where their answers are."
    assert said_by(mteb_task, bare, kind=CorpusError) == said
    placed = [{**one, "fifth": 0} for one in ASKED]
    half = {query: {id: gain / 4 for id, gain in of.items()} for query, of in RELEVANT.items()}
    halves = write_beir(tmp_path / "halves", ROWS, placed, half)
    said = f"mteb takes gains that are whole numbers, and {halves} has others."
    assert said_by(mteb_task, halves, kind=CorpusError) == said


def test_passages_of_the_embedded_essays(mteb: ModuleType) -> None:
    """Each fifth of a document has one, but for two documents that lack one of a fifth."""
    task = mteb_task()
    assert task.metadata.name == "FederalistPassageRetrieval.v2", (
        "other passages: new _REVISION, and .v3 in the name"
    )
    assert task.metadata.is_filled()
    task.load_data()
    data = task.dataset["default"]["test"]
    counts = np.bincount(data["queries"]["position"])
    assert (len(data["corpus"]), counts.tolist()) == (85, [0, 85, 84, 85, 84, 85])
    assert mteb_task(sets=9).metadata.name.startswith("PositionRetrieval-")
