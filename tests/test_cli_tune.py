"""`fairspan tune`, run through the command's own entry on a tiny model: results, mistakes, and runs
that go on."""

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
from fairspan.encoding.store import Store
from fairspan.errors import UnsupportedModel
from fairspan.studies.logs import read_log
from tests.commands import Run
from tests.test_tune import _brief, calibration_of, crafted, write_asked, write_texts  # noqa: F401

Typed = list[str | Path]
STRONG, TILES, MORE = "tempscale+temperature=0.5", "tiles-8", "paper+basket_size=8"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents without a language in folders and in a file, and collections."""
    place = tmp_path_factory.mktemp("place")
    write_texts(place / "notes", [12] * 20)
    write_texts(place / "few", [12] * 19)
    write_texts(place / "segments", [12] * 80, "en").joinpath("en.jsonl").rename(
        place / "lines.jsonl"
    )
    for seed, (name, count) in enumerate({"beir": 20, "small": 10}.items(), 1):
        write_asked(place / name, count, seed)
    return place


@pytest.fixture
def usual(save_tiny: Callable[..., Path], place: Path) -> Typed:
    model, candidates = save_tiny("bert", "mean"), f"{STRONG},{TILES}"
    return ["tune", model, "--corpus", place / "notes", "--candidates", candidates]


def computed(folder: Path) -> int:
    return int(read_log(folder).header.timings.texts_computed)


def test_a_folder_of_documents_and_what_to_use(run: Run, usual: Typed, tmp_path: Path) -> None:
    """A dry run leaves nothing, and says at most what a run embeds; it cannot know the queries."""
    done = run(*usual, "--dry-run", "--json").ok
    said = json.loads(done.out)
    assert list(tmp_path.iterdir()) == []
    assert [one["name"] for one in said["rows"]] == ["plain", STRONG, TILES, "averaged chunks"]
    assert "20 documents: enough to see a gain of 0.0" in said["scope"]
    with crafted({STRONG: 0.2}):
        done = run(*usual, "--out", "here")
    assert done.code == 0, done.err
    log = read_log(tmp_path / "here")
    assert 0 < log.header.timings.tokens_computed < said["tokens"]
    assert log.view.cards[0].sentences[0] in " ".join(done.out.split())
    ending = ["log: here", "calibration: here/calibration.json", "page: here/tune.html"]
    assert done.out.rstrip().splitlines()[-3:] == ending
    assert log.verdicts.select("treatment", "verdict").row(0) == (STRONG, "use")
    assert calibration_of(log).temperature == 0.5
    assert set(log.rows["language"]) == {"und"}


@pytest.mark.parametrize(("options", "documents"), [("", 80), ("--parts", 20 * 4)])
def test_lines_without_a_language(
    run: Run, usual: Typed, place: Path, options: str, documents: int
) -> None:
    done = run(
        *usual, "--corpus", place / "lines.jsonl", "--dry-run", "--json", *shlex.split(options)
    ).ok
    assert f"{documents} documents: enough" in json.loads(done.out)["scope"]


def test_json_is_the_result_and_nothing_else(
    run: Run, usual: Typed, place: Path, tmp_path: Path
) -> None:
    """Also from the log, without a model, and with every option. The page shows no local folder."""
    pytest.importorskip("matplotlib")
    more = "--metric mrr --margin 0.02 --seed 3 --sets 20 --languages en --strict --json --out here"
    typed = [*usual, *shlex.split(more), "--guard", f"beir:{place / 'beir'}"]
    done = run(*typed, "--picture", "p.svg").ok
    said = json.loads(done.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert said["verdicts"][0]["verdict"] in ("use", "probably", "keep")
    assert [one["task"] for one in said["guards"]] == ["beir"]
    assert (tmp_path / "p.svg").stat().st_size > 1000
    page = (tmp_path / "here" / "tune.html").read_text("utf-8")
    assert "notes" in page
    assert str(place) not in page
    assert str(usual[1]) not in page
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "fairspan.runs.subject.load_with_limit", lambda *_: pytest.fail("a model was loaded")
        )
        assert json.loads(run(*typed).out) == said
    wanted = {"languages": ["en"], "sets": 20, "metric": "mrr", "margin": 0.02, "seed": 3}
    wanted |= {"strict": True, "parts": False, "tasks": ["passages"], "candidates": [STRONG, TILES]}
    spec = read_log(tmp_path / "here").spec
    assert {name: spec[name] for name in wanted} == wanted


@pytest.mark.slow
def test_a_changed_corpus_is_noticed(run: Run, usual: Typed, place: Path, tmp_path: Path) -> None:
    """In the corpus of a task and in the folder of a guard."""
    for name in ("notes", "beir"):
        shutil.copytree(place / name, tmp_path / name)
    for count, file in enumerate((None, "notes/a000.md", "beir/queries.jsonl")):
        if file is not None:
            (tmp_path / file).write_text(
                (tmp_path / file).read_text("utf-8").replace("w", "w1 w", 1)
            )
        assert run(*usual, "--corpus", "notes", "--guard", "beir").code == 0
        assert len(list((tmp_path / "fairspan-runs").iterdir())) == 1 + count


def test_one_more_candidate_costs_one_candidate(run: Run, usual: Typed, tmp_path: Path) -> None:
    with crafted({TILES: 0.2}):
        assert run(*usual, "--out", "two").code == 0
        assert run(*usual, "--candidates", f"{STRONG},{TILES},{MORE}", "--out", "three").code == 0
    two, three = (read_log(tmp_path / name).rows.drop("run") for name in ("two", "three"))
    assert 0 < computed(tmp_path / "three") < computed(tmp_path / "two") / 2
    assert two.equals(three.filter(pl.col("treatment") != MORE))


def test_what_was_stopped_goes_on_and_ends_the_same(
    run: Run, usual: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped while a candidate is embedded; forecasts have a store of their own."""
    assert run(*usual, "--out", "whole", "--store", "whole.db").code == 0
    plain, rows = Store.put, tmp_path / "here" / "rows.parquet"

    def put(self: Store, vectors: Any) -> None:
        if rows.exists():
            raise KeyboardInterrupt
        plain(self, vectors)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", put)
        stopped = run(*usual, "--out", "here")
    assert stopped.code == 130
    assert "Traceback" not in stopped.err
    part = read_log(tmp_path / "here")
    assert part.status == "interrupted"
    assert part.verdicts["sentence"][0].startswith("This tuning has not finished")
    assert run(*usual, "--out", "here").code == 0
    whole, again = (read_log(tmp_path / name) for name in ("whole", "here"))
    assert (again.status, again.view.cards) == ("complete", whole.view.cards)
    assert again.rows.drop("run").equals(whole.rows.drop("run"))
    assert 0 < computed(tmp_path / "here") < computed(tmp_path / "whole")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--candidates tile", "there is no treatment 'tile'"),
        *((f"--margin {value}", "margin must be between 0 and 1") for value in (0, 1)),
        ("--sets 7", "notes has 7 documents"),
        ("--corpus PLACE/few", "few has 19 documents"),
        ("--seed -1", "seed must be a whole number of at least 0, got -1"),
        ("--guard passages:PLACE/notes", "is named twice: tasks and guards need documents of"),
        ("--guard PLACE/small", "small has 10 documents"),
        ("--guard nowhere", "there is no task 'nowhere'"),
    ],
)
def test_a_mistake_is_one_line(
    run: Run, usual: Typed, place: Path, options: str, said: str
) -> None:
    """The last option counts, so that each is added to a command that works."""
    run(*usual, *shlex.split(options.replace("PLACE", str(place)))).is_one_line(said)


def test_a_model_that_is_no_sentence_transformer(place: Path, tmp_path: Path) -> None:
    class Embedder:
        def encode(self, texts: list[str]) -> Any:
            raise AssertionError("nothing was to be embedded")

    with pytest.raises(UnsupportedModel, match="tune needs a SentenceTransformer, got Embedder"):
        fairspan.tune(Embedder(), corpus=str(place / "notes"), out=tmp_path / "out", progress=False)
