"""`fairspan evaluate`, run through the command's own entry."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fairspan.studies.logs import read_log
from tests.builders.commands import Run
from tests.builders.searches import write_beir
from tests.builders.tiny import words
from tests.builders.verbs import article
from tests.corpus.test_corpus import write_folder

Typed = list[str | Path]
TILES = "tiles-8"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Articles in two languages, and a collection with two splits."""
    place = tmp_path_factory.mktemp("place")
    texts = {
        language: {f"a{n}": article(10 * shift + n, 12) for n in range(6)}
        for shift, language in enumerate(("en", "it"))
    }
    write_folder(place / "articles", texts)
    documents = [{"id": f"d{n}", "text": article(50 + n, 8)} for n in range(8)]
    queries = [{"id": f"q{n}", "text": words(6, 70 + n), "document": f"d{n}"} for n in range(8)]
    write_beir(place / "asked", documents, queries)
    judged = (place / "asked" / "qrels" / "test.tsv").read_text("utf-8").splitlines()
    (place / "asked" / "qrels" / "dev.tsv").write_text("\n".join(judged[:5]), "utf-8")
    return place


@pytest.fixture
def usual(model: Path, place: Path) -> Typed:
    settings = f"--treatments plain,{TILES} --metrics ndcg@10,mrr"
    return ["evaluate", model, "--corpus", place / "articles", *settings.split()]


def test_every_option_reaches_the_spec(run: Run, usual: Typed, tmp_path: Path) -> None:
    more = "--languages it --sets 5 --query-words 15 --seed 3 --margin 0.02 --vectors 1,2,all"
    more += " --prompt w1 --query-prompt w2 --metrics recall@2"
    assert run(*usual, *more.split(), "--out", "here").code == 0
    spec = read_log(tmp_path / "here").spec
    wanted = {"languages": ["it"], "sets": 5, "query_words": 15, "seed": 3, "margin": 0.02}
    wanted |= {"prompt": "w1", "query_prompt": "w2", "metrics": ["recall@2"]}
    wanted |= {"vectors": ["1", "2", "all"]}
    assert {name: spec[name] for name in wanted} == wanted


def test_a_collection_by_its_folder_and_by_a_split(
    run: Run, model: Path, place: Path, tmp_path: Path
) -> None:
    """With a prefix or without: the same task, and no fifths."""
    folder = place / "asked"
    names = {"a": f"beir:{folder}", "b": folder, "c": folder / "qrels" / "dev.tsv"}
    typed = ["--treatments", "plain", "--metrics", "ndcg@10", "--json", "--out"]
    said = [json.loads(run("evaluate", model, names[out], *typed, out).ok.out) for out in names]
    assert [log["task"]["queries"] for log in said] == [8, 8, 5]
    assert all("positions" not in log for log in said)
    first, second = (read_log(tmp_path / out) for out in ("a", "b"))
    assert first.rows.equals(second.rows)
    assert second.header.timings.texts_computed == 0


@pytest.mark.parametrize(
    ("task", "options", "said"),
    [
        ("", "", "TASK is empty: give it a value, or omit it"),
        ("beir:nowhere", "", "there is no task 'beir:nowhere'"),
        ("pages", "", "there is no task 'pages': it is 'passages', the folder of a collection"),
        ("asked/qrels/train.tsv", "", "there is no task"),
        ("asked", "--treatments fair+tiles=segments", "of 8 documents the segments are not"),
        ("asked", "--vectors few", "vectors must be whole numbers from 1 on, or all, got few"),
        ("asked", "--query-words 15", "query_words is for passages: omit it for"),
        ("passages", "--indexes whole", "Unknown option"),
    ],
)
def test_a_mistake_is_one_line(
    run: Run, model: Path, place: Path, task: str, options: str, said: str
) -> None:
    named = place / task if task.startswith("asked") else task
    run("evaluate", model, named, "--metrics", "mrr", *options.split()).is_one_line(said)


@pytest.fixture
def model(save_tiny: Callable[..., Path]) -> Path:
    return save_tiny("bert", "mean")


@pytest.mark.parametrize("more", ["--vectors 1,2,all", "--max-seq-length 24"])
def test_what_is_forecast_and_what_is_shown(
    run: Run, usual: Typed, more: str, tmp_path: Path
) -> None:
    """Tokens as they are embedded then, and a line of every index."""
    typed = [*usual, *more.split()]
    told = json.loads(run(*typed, "--dry-run", "--json").ok.out)
    done = run(*typed, "--out", "here").ok
    assert told["tokens"] == read_log(tmp_path / "here").header.timings.tokens_computed
    cut = any("12 of 12 documents were cut at 24" in note for note in told["notes"])
    assert cut == ("24" in more)
    if cut:
        lines = [line.strip() for line in done.out.splitlines()]
        for arm in ("plain", TILES, "keywords", "plain and keywords", f"{TILES} and keywords"):
            assert any(line.startswith(arm) for line in lines), arm
