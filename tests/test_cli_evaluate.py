"""`fairspan evaluate`, run through the command's own entry, and tasks of mteb from end to end."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.errors import UnsupportedModel
from fairspan.runs.log import RunLog
from fairspan.runs.runner import RunOptions
from fairspan.runs.subject import open_subject
from fairspan.studies.evaluate.findings import advice_of
from fairspan.studies.evaluate.run import evaluate
from fairspan.studies.evaluate.run_mteb import evaluate_mteb
from fairspan.studies.evaluate.spec import make_evaluation
from fairspan.studies.evaluate.summary import summarize_search
from fairspan.studies.logs import read_log
from tests.commands import Run
from tests.test_evaluate import B8, Collection, in_beir, ranked, text_of, unit, worth, write_lines
from tests.test_mteb import DOCUMENTS, QUERIES, RELEVANT, mteb, search, sts_task
from tests.tiny import tiny_model, words

__all__ = ["mteb", "search"]

SEGMENTS = 12
TREATMENTS = f"none,{B8}"
ONLY = "+sides=document"


@pytest.fixture(scope="module")
def model(save_tiny: Callable[..., Path]) -> Path:
    return save_tiny("bert", "cls")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve titled articles of four sentences in two languages."""
    folder = tmp_path_factory.mktemp("corpus") / "articles"
    folder.mkdir()
    for shift, language in enumerate(("en", "it")):
        rows = [
            {"id": f"a{n:02}", "text": text_of(100 * shift + n), "title": words(3, 50 * shift + n)}
            for n in range(SEGMENTS)
        ]
        write_lines(folder / f"{language}.jsonl", rows)
    return folder


@pytest.fixture(scope="module")
def beir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    documents = {f"d{n}": text_of(n) for n in range(8)}
    queries = {f"q{n}": words(6, 70 + n) for n in range(8)}
    collection = Collection(documents, queries, {f"q{n}": {f"d{n}": 1} for n in range(8)})
    return Path(in_beir(tmp_path_factory.mktemp("beir") / "tiny", collection))


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four questions about each of five documents."""
    folder = tmp_path_factory.mktemp("questions") / "asked"
    folder.mkdir()
    documents = {f"d{n}": text_of(30 + n) for n in range(5)}
    write_lines(folder / "documents.jsonl", [{"id": id, "text": text} for id, text in documents.items()])
    asked = [
        {"id": f"{id}-{k}", "query": words(5, 10 * n + k), "document": id, "start": k * (len(text) - 1) // 4}
        for n, (id, text) in enumerate(documents.items())
        for k in range(5)
    ]
    write_lines(folder / "queries.jsonl", asked)
    return folder


@pytest.fixture
def usual(model: Path, corpus: Path) -> list[str | Path]:
    """Pages of three, four sets, one metric."""
    settings = ["--size", "3", "--sets", "4", "--treatments", TREATMENTS, "--metrics", "ndcg@10,mrr"]
    return ["evaluate", model, "pages", "--corpus", corpus, *settings]


# --- results


def test_an_evaluation_tells_its_advice_and_where_the_log_lies(
    run: Run, usual: list[str | Path], tmp_path: Path
) -> None:
    done = run(*usual, "--out", "here")
    assert done.code == 0, done.err
    log = read_log(tmp_path / "here")
    assert log.status == "complete"
    assert log.rows.filter(pl.col("measure") != "rank").height == 3 * 2 * 3 * 12
    (advice,) = advice_of(summarize_search(log))
    assert advice.treatment == B8
    assert advice.sentence in " ".join(done.out.split())
    assert "ndcg@10 by segment with the evidence" in done.out
    assert done.out.rstrip().endswith("log: here")
    assert "loading" not in done.out
    assert "reading the task" in done.err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["here", "vectors.db"]


def test_a_dry_run_tells_what_a_run_embeds_and_writes_nothing(
    run: Run, usual: list[str | Path], questions: Path, model: Path, tmp_path: Path
) -> None:
    """To the token: documents only has the documents of both sides and the queries of none, so that it adds none."""
    done = run(*usual, "--indexes", "whole,late-max", "--dry-run", "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert list(tmp_path.iterdir()) == []
    shown = run(*usual, "--indexes", "whole,late-max", "--dry-run")
    assert f"{said['queries']} queries in 4 clusters, {said['documents']} documents: {said['tokens']:,}" in shown.out
    assert run(*usual, "--indexes", "whole,late-max", "--out", "here").code == 0
    log = read_log(tmp_path / "here")
    assert said["tokens"] == log.header["timings"]["tokens_computed"]
    assert [one["treatment"] for one in said["arms"]] == ["none", B8, B8 + ONLY]
    assert [one["tokens"] == 0 for one in said["arms"]] == [False, False, True]
    assert all((one["seconds"] > 0) == (one["tokens"] > 0) for one in said["arms"])
    assert (said["clusters"], said["documents"]) == (4, log.header["task"]["documents"])
    # What a window cuts is told for each treatment.
    given = ["--window", "12", "--too-long", "cut", "--treatments", "none,tiles+tile_size=8", "--dry-run", "--json"]
    done = run("evaluate", model, questions, *given)
    assert done.code == 0, done.err
    assert [one["cut"] for one in json.loads(done.out)["arms"]] == [5, 5, 5]
    assert {one["window"] for one in json.loads(done.out)["arms"]} == {12}


def test_json_is_the_summary_and_nothing_else(run: Run, usual: list[str | Path], tmp_path: Path) -> None:
    done = run(*usual, "--out", "here", "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    log = read_log(tmp_path / "here")
    assert {**said, "folder": ""} == {**json.loads(json.dumps(log.to_dict())), "folder": ""}
    assert said["folder"] == "here"
    assert said["task"] == log.header["task"]
    assert {(one["treatment"], one["metric"]) for one in said["quality"]} == {
        (name, metric) for name in ("none", B8, B8 + ONLY) for metric in ("ndcg@10", "mrr")
    }


def test_every_option_reaches_the_spec(run: Run, usual: list[str | Path], tmp_path: Path) -> None:
    more = "--languages en --mixed it:en --size 2 --sets 2 --editions 1 --distractors 1 --query title --seed 3"
    more += " --query-tokens 9 --query-language it --min-tokens 3 --max-tokens 99 --too-long error --margin 0.02"
    more += " --prompt w1 --query-prompt w2 --indexes whole,chunk-max --cross --chunk-tokens 20 --no-documents-only"
    done = run(*usual, *shlex.split(more), "--out", "here", "--metrics", "recall@2")
    assert done.code == 0, done.err
    log = read_log(tmp_path / "here")
    spec, design = log.spec, log.spec["design"]
    assert (spec["languages"], spec["mixed"], spec["metrics"]) == (["en"], ["it:en"], ["recall@2"])
    assert spec["queries"] == {"kind": "title", "tokens": 9, "language": "it", "editions": 1, "distractors": 1}
    assert (design["sizes"], design["sets"], design["seed"]) == ([2], 2, 3)
    assert (design["min_tokens"], design["max_tokens"]) == (3, 99)
    assert (spec["too_long"], spec["margin"], spec["prompt"], spec["query_prompt"]) == ("error", 0.02, "w1", "w2")
    assert (spec["indexes"], spec["cross"], spec["chunk_tokens"]) == (["whole", "chunk-max"], True, 20)
    assert (spec["documents_only"], log.treatments) == (False, ["none", B8])
    assert log.header["task"]["documents"] == 2 * 3


def test_a_beir_folder(run: Run, model: Path, beir: Path, tmp_path: Path) -> None:
    """With its prefix or as a folder: the same task, and no positions."""
    typed = ["--treatments", TREATMENTS, "--metrics", "ndcg@10"]
    done = run("evaluate", model, f"beir:{beir}", *typed, "--out", "a", "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert said["task"]["positions"] is None
    assert "positions" not in said
    assert run("evaluate", model, beir, *typed, "--out", "b").code == 0
    first, second = (read_log(tmp_path / name) for name in ("a", "b"))
    assert first.rows.drop("run").equals(second.rows.drop("run"))
    assert second.header["timings"]["texts_computed"] == 0


def test_questions_whose_answers_are_known(run: Run, model: Path, questions: Path, tmp_path: Path) -> None:
    typed = ["--treatments", TREATMENTS, "--indexes", "whole,late-max", "--chunk-tokens", "14", "--metrics", "mrr"]
    done = run("evaluate", model, questions, *typed, "--out", "here")
    assert done.code == 0, done.err
    assert "mrr by fifth with the evidence" in done.out
    assert "mrr by tokens before the evidence" in done.out
    assert "What an index costs" in done.out
    log = read_log(tmp_path / "here")
    assert sorted(log.rows["position"].unique()) == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_a_run_that_was_shown_can_be_compared(run: Run, usual: list[str | Path], tmp_path: Path) -> None:
    for seed in ("a", "b"):
        assert run(*usual, "--out", seed, "--store", f"{seed}.db").code == 0
    inside = run("compare", "a", "--json")
    assert inside.code == 0, inside.err
    changes = json.loads(inside.out)["search-changes"]
    assert {one["second_treatment"] for one in changes} == {B8, f"{B8}{ONLY}"}
    assert {one["metric"] for one in changes} == {"ndcg@10", "mrr"}, "and no ranks"
    between = json.loads(run("compare", "a", "b", "--json").out)["search-changes"]
    assert {one["change_estimate"] for one in between} == {0.0}
    assert "none → none" in run("compare", "a", "b").out


# --- pictures


@pytest.mark.parametrize("name", ["positions.png", "positions.svg", "positions.pdf"])
@pytest.mark.slow
def test_a_picture_is_drawn_beside_the_results(run: Run, usual: list[str | Path], tmp_path: Path, name: str) -> None:
    pytest.importorskip("matplotlib")
    done = run(*usual, "--picture", name, "--json")
    assert done.code == 0, done.err
    json.loads(done.out)
    assert f"picture: {name}" in done.err
    assert (tmp_path / name).stat().st_size > 1000


def test_a_picture_that_cannot_be_drawn_is_refused_before_anything_is_embedded(
    run: Run, usual: list[str | Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run(*usual, "--picture", "p.jpg", "--out", "here")
    assert done.code == 2
    assert "a picture is one of .png, .svg, .pdf, got 'p.jpg'" in done.last
    monkeypatch.setattr("fairspan.report.style.find_spec", lambda name: None)
    done = run(*usual, "--picture", "p.png", "--out", "here")
    assert done.code == 2
    assert "a picture needs matplotlib: pip install 'fairspan[report]'" in done.last
    assert not (tmp_path / "here").exists()


# --- mistakes


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--metrics", "ndcg"], "there is no metric 'ndcg': choose from ndcg@k, recall@k, mrr"),
        (["--metrics", ","], "metrics must name at least one"),
        (["--metrics", "mrr,mrr"], "metrics names 'mrr' twice"),
        (["--indexes", "whole,chunks"], "indexes must be among whole, chunk-mean, chunk-max, late-mean, late-max"),
        (["--treatments", "none,none"], "the treatment 'none' is named twice"),
        (["--treatments", "paper+baskets=words"], "baskets must be one of tokens, segments, got 'words'"),
        (["--size", "1"], "sizes must be a whole number of at least 2, got 1"),
        (["--size", "13"], "the corpus has 12 segments in en, and a document of 13 needs 13"),
        (["--size", "7"], "only one page of 7 can be made without using a segment twice"),
        (["--sets", "1"], "sets must be a whole number of at least 2, got 1"),
        (["--editions", "4"], "4 editions were asked for, and sets of 3 segments have 3 latin orders"),
        (["--editions", "0"], "--editions must be a whole number of at least 1, got 0"),
        (["--distractors", "3"], "3 more documents of 3 segments were asked for, and the 0 segments that are left"),
        (["--query", "body"], "--query must be one of held-out, first-sentence, title, got 'body'"),
        (["--query-tokens", "3"], "--query-tokens must be a whole number of at least 8, got 3"),
        (["--query-language", "fr"], "has no language 'fr'"),
        (["--languages", "fr"], "has no language 'fr'. Languages there: "),
        (["--mixed", "it-en"], "lead:later, such as de:en, or 'all', got 'it-en'"),
        (
            ["--indexes", "chunk-max", "--chunk-tokens", "511"],
            "--chunk-tokens must be at least 1 and at most 510, which",
        ),
        (["--chunk-tokens", "0"], "--chunk-tokens must be a whole number of at least 1, got 0"),
        (["--too-long", "redraw"], "--too-long must be among leave-out, shorten, cut, error, got 'redraw'"),
        (
            ["--opening", "50"],
            "for 0 of the 12 segments of articles: 12 have fewer than 8 tokens left to ask",
        ),
        (["--opening", "0"], "opening must be a whole number of at least 1, got 0"),
        (["--min-tokens", "90"], "0 of 12 segments keep the length limits in en"),
        (["--window", "20"], "no 3 segments fit into the model's 20 tokens"),
        (["--margin", "1"], "margin must be from 0 to below 1, got 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line_and_exit_code_two(
    run: Run, usual: list[str | Path], options: list[str], said: str
) -> None:
    """The last option counts, so that each is added to a command that works."""
    run(*usual, *options).is_one_line(said)


@pytest.mark.parametrize(
    ("task", "options", "said"),
    [
        (
            "nowhere",
            [],
            "there is no task 'nowhere': it is 'pages', 'passages', the folder or file of a collection",
        ),
        ("", [], "there is an empty word in the command"),
        (
            "beir:nowhere",
            ["--sets", "5"],
            "beir:nowhere brings its own documents and queries, so --sets would do nothing",
        ),
        ("beir:nowhere", ["--language", "en"], "a BEIR folder has everything in one place, so --language would do"),
        ("beir:nowhere", ["--languages", "en"], "so --languages would do nothing: omit it, or choose one with --l"),
        ("pages", ["--split", "dev"], "pages are built from a corpus, so --split would do nothing: omit it"),
        ("pages", ["--fit-corpus", "sample"], "no treatment is fitted, so --fit-corpus would do nothing"),
        ("beir:nowhere", [], "there is no folder 'nowhere'"),
        ("empty", [], "is no task with evidence"),
        ("beir", ["--split", "dev"], "has no qrels/dev.tsv. Splits there: test"),
        ("beir", ["--treatments", "none,paper+baskets=segments"], "of 8 documents the segments are not known"),
        (
            "beir",
            ["--window", "12", "--too-long", "error"],
            "8 of 8 documents are longer than the 12 tokens that the",
        ),
        ("questions", ["--documents", "empty"], "brings its own texts"),
        ("questions", ["--window", "6"], "no query is left: every document that answers one is longer than the 6"),
        (
            "questions",
            ["--indexes", "late-max", "--chunk-tokens", "600"],
            "--chunk-tokens must be at least 1 and at most",
        ),
        ("mteb:NFCorpu", ["--indexes", "chunk-max"], "mteb searches whole documents: omit chunk-max"),
        ("mteb:NFCorpu", ["--treatments", "paper+baskets=segments"], "mteb does not support segments: omit paper+"),
        ("mteb:NFCorpu", ["--prompt", "w1"], "mteb takes the prompts that the model has"),
    ],
)
def test_a_mistake_about_a_task_is_one_line(
    run: Run, model: Path, beir: Path, questions: Path, tmp_path: Path, task: str, options: list[str], said: str
) -> None:
    (tmp_path / "empty").mkdir()
    known = {"beir": beir, "questions": questions}
    done = run("evaluate", model, known.get(task, task), "--treatments", "none", "--metrics", "mrr", *options)
    done.is_one_line(said)


def test_without_mteb_its_tasks_are_one_line(run: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mteb", None)
    run("evaluate", model, "mteb:SciFact").is_one_line("pip install 'fairspan[mteb]'")


def test_an_unknown_task_of_mteb_is_one_line(run: Run, model: Path, mteb: ModuleType) -> None:
    run("evaluate", model, "mteb:NFCorpu").is_one_line("mteb has no task 'NFCorpu': did you mean 'NFCorpus'?")


# --- help


def test_help_names_the_choices(run: Run) -> None:
    said = " ".join(run("evaluate", "--help").out.replace("│", " ").split())
    for words_ in (
        "whole, chunk-mean, chunk-max, late-mean, late-max",
        "leave-out, shorten, cut or error",
        "mteb:NAME",
    ):
        assert words_ in said
    assert "evaluate" in run("--help").out


# --- mteb

pytestmark = [
    # mteb warns of its own default for an argument of its own.
    pytest.mark.filterwarnings("ignore:The fill_missing parameter is deprecated:DeprecationWarning"),
    # mteb calls a method that sentence-transformers has renamed.
    pytest.mark.filterwarnings("ignore:The `get_sentence_embedding_dimension` method:FutureWarning"),
]
B4 = "paper+basket_size=4"
METRICS = ("ndcg@10", "mrr", "recall@3")


@pytest.fixture
def small(tmp_path: Path) -> SentenceTransformer:
    return tiny_model(tmp_path / "model", "bert", "mean")


def measured(model: SentenceTransformer, task: Any, folder: Path, **options: Any) -> RunLog:
    settings: dict[str, Any] = {"treatments": ["none", B4], "metrics": METRICS, **options}
    return evaluate_mteb(
        open_subject(model, name="m"),
        make_evaluation("mteb:Tiny", **settings),
        RunOptions(out=folder / "run"),
        task=task,
    )


def values(log: RunLog, treatment: str, metric: str) -> dict[str, float]:
    own = log.rows.filter((pl.col("treatment") == treatment) & (pl.col("measure") == metric))
    return dict(own.select("query", "value").rows())


def test_a_search_of_mteb_by_hand(small: SentenceTransformer, search: Callable[..., Any], tmp_path: Path) -> None:
    """Every row under both treatments and on documents only; mteb's own score agrees, so that no note is needed."""
    log = measured(small, search(), tmp_path)
    fair = fairspan.calibrate(small, basket_size=4)
    models = {"none": (small, small), B4: (fair, fair), B4 + ONLY: (small, fair)}
    assert log.treatments == list(models)
    assert log.rows.height == 3 * 3 * 5
    for name, (for_queries, for_documents) in models.items():
        documents = {id: [unit(for_documents.encode_document(text))] for id, text in DOCUMENTS.items()}
        for metric in METRICS:
            found = values(log, name, metric)
            assert set(found) == {f"test/default/{query}" for query in QUERIES}
            for query, text in QUERIES.items():
                possible = ranked(unit(for_queries.encode_query(text)), documents)
                worths = [worth(metric, ranking, RELEVANT[query]) for ranking in possible]
                assert any(found[f"test/default/{query}"] == pytest.approx(one) for one in worths)
    assert log.notes == []
    assert (log.status, log.header["task"]["kind"], log.header["task"]["queries"]) == ("complete", "search", 5)
    assert log.header["task"]["mteb"]["type"] == "Retrieval"
    assert [advice.treatment for advice in advice_of(summarize_search(log))] == [B4]
    assert len({tuple(values(log, name, "ndcg@10").values()) for name in models}) == 3


def test_a_search_of_mteb_is_shown(
    run: Run, model: Path, search: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the command line, with a local task in place of the one that is named."""
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("fairspan.studies.evaluate.run_mteb.find_task", lambda name, **options: search())
    done = run(
        "evaluate", model, "mteb:TinySearch", "--treatments", f"none,{B4}", "--out", "here", "--picture", "p.png"
    )
    assert done.code == 0, done.err
    (advice,) = advice_of(summarize_search(read_log(tmp_path / "here")))
    assert advice.sentence in " ".join(done.out.split())
    assert (tmp_path / "p.png").exists()
    again = run("evaluate", model, "mteb:TinySearch", "--treatments", f"none,{B4}", "--out", "here", "--json")
    assert json.loads(again.out)["task"]["names"] == ["TinySearch"]


def test_a_complete_run_of_mteb_returns_at_once(
    small: SentenceTransformer, search: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = measured(small, search(), tmp_path)
    monkeypatch.setattr(SentenceTransformer, "encode", lambda *_, **__: pytest.fail("a text was embedded"))
    again = measured(small, search(), tmp_path)
    assert again.rows.equals(first.rows)
    monkeypatch.undo()
    fresh = evaluate_mteb(
        open_subject(small, name="m"),
        make_evaluation("mteb:Tiny", treatments=["none", B4], metrics=METRICS),
        RunOptions(out=tmp_path / "run", fresh=True),
        task=search(),
    )
    assert fresh.rows.equals(first.rows)


def test_several_subsets_are_told_apart(
    small: SentenceTransformer, search: Callable[..., Any], tmp_path: Path
) -> None:
    """The same queries in each: other rows, other clusters, each with its language."""
    log = measured(small, search({"en": "eng-Latn", "de": "deu-Latn"}), tmp_path, treatments=["none"])
    assert log.rows.height == 2 * 3 * 5
    assert log.rows["set"].n_unique() == 10
    by_subset = {row[0].split("/")[1]: row[1] for row in log.rows.select("query", "language").rows()}
    assert by_subset == {"en": "eng-Latn", "de": "deu-Latn"}
    assert log.header["task"]["queries"] == 10
    assert log.notes == []


@pytest.mark.parametrize("what", ["window", "prompts", "similarity"])
def test_all_that_decides_belongs_to_a_run_of_mteb(
    small: SentenceTransformer, search: Callable[..., Any], tmp_path: Path, what: str
) -> None:
    first = measured(small, search(), tmp_path, treatments=["none"])
    match what:
        case "window":
            small.max_seq_length = 8
        case "prompts":
            small.prompts = {"query": "w1 w2 w3 ", "document": ""}
        case "similarity":
            small.similarity_fn_name = "dot"
    second = evaluate_mteb(
        open_subject(small, name="m"),
        make_evaluation("mteb:Tiny", treatments=["none"], metrics=METRICS),
        RunOptions(out=tmp_path / "other"),
        task=search(),
    )
    assert not second.rows["value"].equals(first.rows["value"]), "the premise"
    assert second.run != first.run


def test_a_query_without_a_relevant_document(
    small: SentenceTransformer, search: Callable[..., Any], tmp_path: Path
) -> None:
    """It is worth 0, as to mteb, or it is left out with a word; the other queries have their values."""
    relevant = {**RELEVANT, "q4": {"d01": 0, "d02": 0}}
    log = measured(small, search(relevant=relevant), tmp_path, treatments=["none"])
    assert {f"test/default/q{n}" for n in range(4)} <= set(values(log, "none", "ndcg@10"))


PAIRS = [(words(20, seed), words(20, seed + 50)) for seed in range(12)]


def by_hand(model: SentenceTransformer, scores: Sequence[float]) -> float:
    first, second = (model.encode([pair[side] for pair in PAIRS]).astype(np.float64) for side in (0, 1))
    cosines = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    return float(spearmanr(cosines, scores)[0])


def cosines_ranked(model: SentenceTransformer) -> list[float]:
    """Scores that the plain model gets right."""
    first, second = (model.encode([pair[side] for pair in PAIRS]).astype(np.float64) for side in (0, 1))
    cosines = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    return [float(rank) for rank in np.argsort(np.argsort(cosines))]


def test_a_task_that_is_no_search(mteb: ModuleType, small: SentenceTransformer, tmp_path: Path) -> None:
    """Its main score under every treatment, in one row each."""
    scores = cosines_ranked(small)
    log = measured(small, sts_task(mteb, PAIRS, scores), tmp_path)
    fair = fairspan.calibrate(small, basket_size=4)
    expected = {"none": by_hand(small, scores), B4: by_hand(fair, scores), B4 + ONLY: by_hand(fair, scores)}
    assert expected["none"] > 0.99 > expected[B4] > 0
    found = dict(log.rows.select("treatment", "value").rows())
    # mteb saves six places.
    assert found == pytest.approx(expected, abs=6e-7)
    assert set(log.rows["measure"]) == {"cosine_spearman"}
    assert (log.header["task"]["kind"], log.header["task"]["queries"]) == ("scores", 0)
    assert log.notes == []


def test_a_score_is_shown_without_an_interval(mteb: ModuleType, small: SentenceTransformer, tmp_path: Path) -> None:
    scores = cosines_ranked(small)
    summary = summarize_search(measured(small, sts_task(mteb, PAIRS, scores), tmp_path))
    (first, *_) = summary.results
    assert first.effects.overall.estimate == pytest.approx(by_hand(small, scores), abs=6e-7)
    assert np.isnan(first.effects.overall.low)
    assert advice_of(summary) == ()
    change = summary.results[1].change
    assert change is not None
    assert change.overall.estimate < 0


def test_a_score_below_zero_is_shown(mteb: ModuleType, small: SentenceTransformer, tmp_path: Path) -> None:
    """A rank correlation may be one; the randomisation of queries is not for it."""
    scores = [-score for score in cosines_ranked(small)]
    log = measured(small, sts_task(mteb, PAIRS, scores), tmp_path)
    assert log.rows["value"].min() < 0, "the premise"
    assert summarize_search(log).results[0].effects.overall.estimate == pytest.approx(-1, abs=0.01)


def test_an_object_is_refused_by_mteb() -> None:
    class Encodes:
        def encode(self, sentences: list[str], /) -> Any:
            return [[1.0]] * len(sentences)

    with pytest.raises(UnsupportedModel, match="mteb needs a SentenceTransformer, got Encodes"):
        evaluate(Encodes(), "mteb:SciFact")
