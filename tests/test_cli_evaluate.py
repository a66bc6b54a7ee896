"""`fairspan evaluate`, run through the command's own entry, and tasks of mteb from end to end."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fairspan.studies.logs import read_log
from tests.commands import Run
from tests.searches import write_beir
from tests.test_corpus import write
from tests.test_evaluate import B8, Collection, in_beir, text_of
from tests.test_mteb import mteb, search
from tests.tiny import words

Words = list[str | Path]

__all__ = ["mteb", "search"]

SEGMENTS = 12
TREATMENTS = f"plain,{B8}"
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
        write(folder / f"{language}.jsonl", rows)
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
    documents = {f"d{n}": text_of(30 + n) for n in range(5)}
    asked = [
        {
            "id": f"{id}-{k}",
            "text": words(5, 10 * n + k),
            "document": id,
            "start": k * (len(text) - 1) // 4,
        }
        for n, (id, text) in enumerate(documents.items())
        for k in range(5)
    ]
    passages = [{"id": id, "text": text} for id, text in documents.items()]
    return Path(write_beir(tmp_path_factory.mktemp("questions") / "asked", passages, asked))


@pytest.fixture
def usual(model: Path, corpus: Path) -> Words:
    """Pages of four, two sets, two metrics."""
    settings = ["--sets", "2", "--treatments", TREATMENTS, "--metrics", "ndcg@10,mrr"]
    return ["evaluate", model, "pages", "--corpus", corpus, *settings]


def test_an_evaluation_tells_its_advice_and_where_the_log_lies(
    run: Run, usual: Words, tmp_path: Path
) -> None:
    done = run(*usual, "--out", "here").ok
    log = read_log(tmp_path / "here")
    assert log.status == "complete"
    assert log.rows.filter(pl.col("measure") != "rank").height == 3 * 2 * 4 * 8
    ((name, sentence),) = log.verdicts.select("treatment", "sentence").rows()
    assert name == B8
    assert sentence in " ".join(done.out.split())
    assert "ndcg@10 by segment with the evidence" in done.out
    assert done.out.rstrip().endswith("log: here")
    assert "loading" not in done.out
    assert done.err.startswith("loading ")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["here", "vectors.db"]
    told = run(*usual, "--out", "here", "--json").out
    said = json.loads(told, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert {**said, "folder": ""} == {**json.loads(json.dumps(log.to_dict())), "folder": ""}
    assert said["folder"] == "here"
    assert said["task"] == log.header.to_json()["task"]
    assert {(one["treatment"], one["metric"]) for one in said["quality"]} == {
        (name, metric) for name in ("plain", B8, B8 + ONLY) for metric in ("ndcg@10", "mrr")
    }


def test_a_dry_run_tells_what_a_run_embeds_and_writes_nothing(
    run: Run, usual: Words, questions: Path, model: Path, tmp_path: Path
) -> None:
    """To the token: documents only has the documents of both sides and the queries of plain, so
    that it adds none."""
    done = run(*usual, "--indexes", "whole,late-max", "--dry-run", "--json").ok
    said = json.loads(done.out)
    assert list(tmp_path.iterdir()) == []
    assert run(*usual, "--indexes", "whole,late-max", "--out", "here").code == 0
    log = read_log(tmp_path / "here")
    assert said["tokens"] == log.header.timings.tokens_computed
    assert [one["name"] for one in said["rows"]] == ["plain", B8, B8 + ONLY]
    assert [one["tokens"] == 0 for one in said["rows"]] == [False, False, True]
    assert said["scope"] == "8 queries in 2 clusters among 8 documents × 3 treatments"
    # What a window cuts is told for each treatment.
    cut = "--max-seq-length 12 --too-long cut --treatments plain,tiles-8"
    done = run("evaluate", model, questions, *cut.split(), "--dry-run", "--json").ok
    assert {(one["reads"], one["cut"]) for one in json.loads(done.out)["rows"]} == {(12, 5)}


def test_every_option_reaches_the_spec(run: Run, usual: Words, tmp_path: Path) -> None:
    more = "--languages it --sets 2 --seed 3 --too-long error --margin 0.02 --opening 9"
    more += " --prompt w1 --query-prompt w2 --indexes whole,chunk-max --chunk-tokens window"
    more += " --metrics recall@2"
    assert run(*usual, *shlex.split(more), "--out", "here").code == 0
    spec = read_log(tmp_path / "here").spec
    expected = {"languages": ["it"], "sets": 2, "seed": 3, "too_long": "error", "margin": 0.02}
    expected |= {"opening": 9, "prompt": "w1", "query_prompt": "w2", "metrics": ["recall@2"]}
    expected |= {"indexes": ["whole", "chunk-max"], "chunk_tokens": "window"}
    assert {name: spec[name] for name in expected} == expected


def test_a_beir_folder(run: Run, model: Path, beir: Path, tmp_path: Path) -> None:
    """With its prefix or as a folder: the same task, and no positions."""
    typed = ["--treatments", TREATMENTS, "--metrics", "ndcg@10"]
    done = run("evaluate", model, f"beir:{beir}", *typed, "--out", "a", "--json").ok
    said = json.loads(done.out)
    assert said["task"]["positions"] is None
    assert "positions" not in said
    assert run("evaluate", model, beir, *typed, "--out", "b").code == 0
    first, second = (read_log(tmp_path / name) for name in ("a", "b"))
    assert first.rows.drop("run").equals(second.rows.drop("run"))
    assert second.header.timings.texts_computed == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--indexes chunk-max --chunk-tokens 511", "this model have 1 to 510 tokens"),
        ("--opening 50", "for 0 of the 12 segments of articles: 12 have fewer than 8 tokens left"),
        ("--max-seq-length 20", "and the model reads 20"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(
    run: Run, usual: Words, options: str, said: str
) -> None:
    """The last option counts, so that each is added to a command that works."""
    run(*usual, *options.split()).is_one_line(said)


@pytest.mark.parametrize(
    ("task", "options", "said"),
    [
        ("", "", "there is an empty word in the command"),
        ("beir:nowhere", "--sets 5", "sets is for passages, pages: omit it for beir:nowhere"),
        ("mteb:NFCorpus", "--languages en,de", "several languages: omit it for mteb:NFCorpus"),
        ("pages", "--split dev", "split is for a collection, a collection in several languages, a"),
        ("beir:nowhere", "", "there is no task 'beir:nowhere'"),
        ("empty", "", "is not a task: it has no qrels folder"),
        ("beir", "--split dev", "has no qrels/dev.tsv. Splits there: test"),
        (
            "beir",
            "--treatments paper+baskets=segments",
            "of 8 documents the segments are not known",
        ),
        ("beir", "--max-seq-length 12 --too-long error", "8 of 8 documents are longer than the 12"),
        ("questions", "--max-seq-length 6", "no query is left: every document that answers one is"),
        ("questions", "--indexes late-max --chunk-tokens 600", "this model have 1 to"),
    ],
)
def test_a_mistake_about_a_task_is_one_line(
    run: Run, model: Path, beir: Path, questions: Path, task: str, options: str, said: str
) -> None:
    Path("empty").mkdir()
    known = {"beir": beir, "questions": questions}
    usual = "--treatments plain --metrics mrr"
    typed = ["evaluate", model, known.get(task, task), *usual.split(), *options.split()]
    run(*typed).is_one_line(said)


def test_a_search_of_mteb_is_shown(
    run: Run,
    model: Path,
    search: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On the command line, with a local task in place of the one that is named."""
    monkeypatch.setattr(
        "fairspan.retrieval.mteb_reading.find_task", lambda name, **options: search()
    )
    done = run("evaluate", model, "mteb:TinySearch", "--treatments", TREATMENTS, "--out", "here").ok
    assert "5 queries" in done.out
    assert read_log(tmp_path / "here").header.searched.documents == 14
