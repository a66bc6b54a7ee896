"""`fairspan tune`, run through the command's own entry on a tiny model: results, mistakes, and runs that go on."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import fairspan
from fairspan import Calibration
from fairspan.encoding.store import Store
from fairspan.errors import CorpusError, FairspanError, UnsupportedModel
from fairspan.studies.logs import read_log
from fairspan.studies.tune import run as tune_run
from fairspan.studies.tune.summary import decide
from tests.commands import Run
from tests.test_tune import crafted, write_beir, write_corpus

Typed = list[str | Path]
STRONG, TILES, MORE = "tempscale+temperature=0.5", "tiles+tile_size=8", "paper+basket_size=8"
PAGES = 16


@pytest.fixture(autouse=True)
def _brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forecasts and candidates are not timed long."""
    monkeypatch.setattr("fairspan.runs.forecast._TRIAL_SECONDS", 0.01)
    monkeypatch.setattr(tune_run, "relative_time", lambda *given, **others: 1.0)


@pytest.fixture(scope="module")
def model(save_tiny: Callable[..., Path]) -> Path:
    return save_tiny("bert", "mean")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Articles for sixteen pages of two, and collections of other documents."""
    place = tmp_path_factory.mktemp("place")
    write_corpus(place / "articles", 2 * PAGES)
    for seed, (name, judged) in enumerate({"beir": None, "one": 1, "none": 0}.items(), 1):
        qrels = write_beir(place / name, 10, seed) / "qrels" / "test.tsv"
        if judged is not None:
            lines = [f"q{number}\td0\t{judged}" for number in range(10)]
            qrels.write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]) + "\n", encoding="utf-8")
    return place


@pytest.fixture
def usual(model: Path, place: Path) -> Typed:
    pages = ["--corpus", place / "articles", "--languages", "en", "--size", "2", "--sets", f"{PAGES}"]
    return ["tune", model, "pages", *pages, "--candidates", f"{STRONG},{TILES}"]


def counted(folder: Path) -> int:
    return int(read_log(folder).header["timings"]["texts_computed"])


# --- results


def test_a_dry_run_says_what_a_run_embeds_and_a_run_what_to_use(run: Run, usual: Typed, tmp_path: Path) -> None:
    """To the token: both candidates change queries and documents, and one of them is tested."""
    done = run(*usual, "--dry-run", "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert list(tmp_path.iterdir()) == []
    assert [one["clusters"] for one in said["rows"]] == [PAGES // 2, PAGES // 2, PAGES // 2]
    assert said["seconds"] == pytest.approx(sum(one["seconds"] for one in said["rows"]))
    with crafted({TILES: 0.2}):
        done = run(*usual, "--out", "here")
    assert done.code == 0, done.err
    log = read_log(tmp_path / "here")
    assert len(decide(log.rows, log.header).tested) == 1, "the premise"
    assert log.header["timings"]["tokens_computed"] == pytest.approx(said["tokens"], abs=1)
    assert log.view.cards[0].sentences[0] in " ".join(done.out.split())
    ending = ["log: here", "calibration: here/calibration.json", "page: here/tune.html"]
    assert done.out.rstrip().splitlines()[-3:] == ending
    assert [own["clusters"] for own in log.header["tasks"][0]["parts"].values()] == [8, 4, 4]
    # Four clusters cannot decide, so that the plain model's calibration is left there.
    assert log.verdicts["verdict"][0] == "inconclusive"
    assert not Calibration.from_json((tmp_path / "here" / "calibration.json").read_text("utf-8")).acts


def test_json_is_the_result_and_nothing_else(run: Run, usual: Typed, place: Path, tmp_path: Path) -> None:
    """Also from the log, without a model. The page shows no local folder, and the picture is beside the result."""
    pytest.importorskip("matplotlib")
    typed = [*usual, "--out", "here", "--json", "--guard", f"beir:{place / 'beir'}"]
    done = run(*typed, "--picture", "p.svg")
    assert done.code == 0, done.err
    said = json.loads(done.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert said["verdicts"][0]["verdict"] == "inconclusive"
    assert {one["task"] for one in said["report"]} == {"pages of articles", "beir"}
    assert (tmp_path / "p.svg").stat().st_size > 1000
    page = (tmp_path / "here" / "tune.html").read_text("utf-8")
    assert "pages of articles" in page
    assert str(place) not in page
    assert str(usual[1]) not in page
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairspan.runs.subject.load_with_limit", lambda *_: pytest.fail("a model was loaded"))
        assert json.loads(run(*typed).out) == said


def test_every_option_reaches_the_log(run: Run, usual: Typed, place: Path, tmp_path: Path) -> None:
    done = run(
        *usual, "--guard", place / "beir", *shlex.split("--metric mrr --fairness position --margin 0.02 --seed 3")
    )
    assert done.code == 0, done.err
    (folder,) = (tmp_path / "fairspan-runs").iterdir()
    spec = read_log(folder).spec
    wanted = {"languages": ["en"], "size": 2, "sets": PAGES, "metric": "mrr", "fairness": "position", "margin": 0.02}
    wanted |= {"seed": 3, "tasks": ["pages"], "candidates": [STRONG, TILES]}
    assert {name: spec[name] for name in wanted} == wanted
    assert [one["name"] for one in spec["treatments"]] == ["plain", STRONG, TILES]


@pytest.mark.slow
def test_a_changed_corpus_is_noticed(run: Run, usual: Typed, place: Path, tmp_path: Path) -> None:
    """In the corpus of a task and in the folder of a guard."""
    for name in ("articles", "beir"):
        shutil.copytree(place / name, tmp_path / name)
    typed = [*usual, "--corpus", "articles", "--guard", "beir"]
    for count, file in enumerate((None, "articles/en.jsonl", "beir/queries.jsonl")):
        if file is not None:
            lines = (tmp_path / file).read_text("utf-8").splitlines()
            (tmp_path / file).write_text("\n".join([lines[0].replace('"text": "', '"text": "w1 '), *lines[1:]]))
        assert run(*typed).code == 0
        assert len(list((tmp_path / "fairspan-runs").iterdir())) == 1 + count


# --- runs that go on


def test_one_more_candidate_costs_one_candidate(run: Run, usual: Typed, tmp_path: Path) -> None:
    assert run(*usual, "--out", "two").code == 0
    assert run(*usual, "--candidates", f"{STRONG},{TILES},{MORE}", "--out", "three").code == 0
    two, three = (read_log(tmp_path / name) for name in ("two", "three"))
    looked_at = {decide(log.rows, log.header).looked_at for log in (two, three)}
    assert len(looked_at) == 1, "the premise: nothing else is searched"
    assert 0 < counted(tmp_path / "three") < counted(tmp_path / "two") / 2
    assert two.rows.drop("run").equals(three.rows.filter(pl.col("treatment") != MORE).drop("run"))


@pytest.mark.parametrize("how", ["interrupted", "failed"])
def test_what_was_stopped_goes_on_and_ends_the_same(
    run: Run, usual: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    assert run(*usual, "--out", "whole", "--store", "whole.db").code == 0
    plain, count = Store.put, [0]

    def put(self: Store, vectors: Any) -> None:
        count[0] += 1
        if count[0] == 5:
            raise KeyboardInterrupt if how == "interrupted" else FairspanError("the disk is full.")
        plain(self, vectors)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", put)
        stopped = run(*usual, "--out", "here")
    assert stopped.code == (130 if how == "interrupted" else 2)
    assert "Traceback" not in stopped.err
    part = read_log(tmp_path / "here")
    assert part.status == how
    assert part.verdicts["sentence"][0].startswith("This tuning has not finished")
    assert run(*usual, "--out", "here").code == 0
    whole, again = (read_log(tmp_path / name) for name in ("whole", "here"))
    assert (again.status, again.view.cards) == ("complete", whole.view.cards)
    assert again.rows.drop("run").equals(whole.rows.drop("run"))
    assert 0 < counted(tmp_path / "here") < counted(tmp_path / "whole")
    before = {file.name: file.read_bytes() for file in (tmp_path / "here").iterdir()}
    run(*usual, "--out", "here", "--seed", "1").is_one_line("choose another folder with out")
    assert {file.name: file.read_bytes() for file in (tmp_path / "here").iterdir()} == before


# --- mistakes


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--candidates tile", "there is no treatment 'tile'"),
        *((f"--margin {value}", "margin must be between 0 and 1") for value in ("0", "1", "nan")),
        ("--metric good", "there is no metric 'good': choose from ndcg@k, recall@k, mrr"),
        ("--fairness age", "fairness must be one of position, language, length, got 'age'"),
        ("--fairness language", "fairness=language compares groups of queries, and all queries and documents are"),
        ("--sets 7", "7 clusters of queries that share no document, and 8 are needed to divide it into tune, guard"),
        ("--size 33", "the corpus has 32 segments in en, and a document of 33 needs 33"),
        ("--seed -1", "seed must be a whole number of at least 0, got -1"),
        ("--guard pages:PLACE/articles", "is named twice: tasks and guards need documents of their own"),
        ("--guard PLACE/one", "one cannot be divided: one-test has 1 clusters"),
        ("--guard PLACE/none", "none-test has no queries"),
        ("--guard nowhere", "there is no task 'nowhere'"),
        ("--guard pages:nowhere.jsonl", "there is no file or folder 'nowhere.jsonl'"),
        ("--languages xx", "has no language 'xx'"),
        ("--out PLACE/articles/en.jsonl", "en.jsonl is no folder that you may write into"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(
    run: Run, usual: Typed, place: Path, options: str, said: str
) -> None:
    """The last option counts, so that each is added to a command that works."""
    run(*usual, *shlex.split(options.replace("PLACE", str(place)))).is_one_line(said)


def test_groups_that_are_not_there(run: Run, model: Path, place: Path) -> None:
    done = run("tune", model, place / "beir", "--fairness", "position")
    done.is_one_line("where the evidence is in its document is not known")
    with pytest.raises(CorpusError, match="all queries and documents are in one language"):
        fairspan.tune(str(model), str(place / "beir"), language="en", fairness="language", progress=False)


def test_a_model_that_is_no_sentence_transformer(run: Run, usual: Typed, place: Path, tmp_path: Path) -> None:
    run("tune", place / "beir", *usual[2:]).is_one_line("it has neither modules.json nor config.json")

    class Embedder:
        def encode(self, texts: list[str]) -> Any:
            raise AssertionError("nothing was to be embedded")

    with pytest.raises(UnsupportedModel, match="tune needs a SentenceTransformer, got Embedder"):
        fairspan.tune(Embedder(), corpus=str(place / "articles"), out=tmp_path / "out", progress=False)
