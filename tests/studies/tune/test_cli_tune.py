"""`fairspan tune`, run through the command's own entry on a tiny model."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fairspan.encoding.store import Store
from fairspan.studies.logs import read_log
from tests.builders.commands import Run
from tests.builders.searches import write_articles_task
from tests.builders.verbs import article
from tests.studies.tune.test_tune import MILD, TILES, calibration_of, crafted

Typed = list[str | Path]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents without a language in a folder, and collections."""
    place = tmp_path_factory.mktemp("place")
    for name, count in (("notes", 20), ("few", 19)):
        (place / name).mkdir()
        for number in range(count):
            (place / name / f"a{number:03}.md").write_text(article(number, 12), "utf-8")
    write_articles_task(place / "guard", range(50, 70))
    write_articles_task(place / "small", range(70, 80))
    return place


@pytest.fixture
def usual(save_tiny: Callable[..., Path], place: Path) -> Typed:
    model = save_tiny("bert", "mean")
    return ["tune", model, "--corpus", place / "notes", "--candidates", f"{MILD},{TILES}"]


def computed(folder: Path) -> int:
    return int(read_log(folder).header.timings.texts_computed or 0)


def test_a_folder_of_documents_and_what_to_use(run: Run, usual: Typed, tmp_path: Path) -> None:
    """A dry run leaves nothing, and says to the token what a run embeds."""
    told = json.loads(run(*usual, "--dry-run", "--json").ok.out)
    assert list(tmp_path.iterdir()) == []
    assert [stage["name"] for stage in told["stages"]] == ["plain", MILD, TILES]
    with crafted({MILD: 0.2}):
        done = run(*usual, "--out", "here").ok
    log = read_log(tmp_path / "here")
    assert log.header.timings.tokens_computed == told["tokens"]
    assert log.view.cards[0].sentences[0] in " ".join(done.out.split())
    ending = ["log: here", "calibration: here/calibration.json", "page: here/tune.html"]
    assert done.out.rstrip().splitlines()[-3:] == ending
    assert log.verdicts.select("treatment", "verdict").row(0) == (MILD, "use")
    assert calibration_of(log).temperature == 0.5


def test_json_is_the_result_and_nothing_else(
    run: Run, usual: Typed, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also from the log, with nothing embedded. The page shows no local folder."""
    more = "--metrics mrr --margin 0.02 --sets 20 --query-words 20 --json --out here"
    typed = [*usual, *shlex.split(more), "--guard", place / "guard"]
    with crafted({TILES: 0.2, f"{TILES} on guard-test": 0.0}):
        told = json.loads(run(*typed).ok.out, parse_constant=lambda name: pytest.fail(name))
    assert told["verdicts"][0]["verdict"] == "use"
    assert [row["guards"] for row in told["candidates"]] == [None, "no loss"]
    page = (tmp_path / "here" / "tune.html").read_text("utf-8")
    assert "notes" in page
    assert str(place) not in page
    assert str(usual[1]) not in page
    monkeypatch.setattr(Store, "put", lambda *_: pytest.fail("something was embedded"))
    (tmp_path / "here" / "tune.html").unlink()
    assert json.loads(run(*typed).out) == told
    assert (tmp_path / "here" / "tune.html").read_text("utf-8") == page
    spec = read_log(tmp_path / "here").spec
    wanted = {"sets": 20, "query_words": 20, "metrics": ["mrr"], "margin": 0.02}
    wanted |= {"task": "passages", "candidates": [MILD, TILES], "guards": [str(place / "guard")]}
    assert {name: spec[name] for name in wanted} == wanted


@pytest.mark.slow
def test_a_changed_corpus_is_noticed(run: Run, usual: Typed, place: Path, tmp_path: Path) -> None:
    """In the corpus of a task and in the folder of a guard."""
    for name in ("notes", "guard"):
        shutil.copytree(place / name, tmp_path / name)
    for count, file in enumerate((None, "notes/a000.md", "guard/queries.jsonl")):
        if file is not None:
            text = (tmp_path / file).read_text("utf-8")
            (tmp_path / file).write_text(text.replace("w", "w1 w", 1), "utf-8")
        assert run(*usual, "--corpus", "notes", "--guard", "guard").code == 0
        assert len(list((tmp_path / "fairspan-runs").iterdir())) == 1 + count


def test_one_more_candidate_costs_one_candidate(run: Run, usual: Typed, tmp_path: Path) -> None:
    assert run(*usual, "--out", "two").code == 0
    more = ["--candidates", f"{MILD},{TILES},paper+basket_size=8"]
    assert run(*usual, *more, "--out", "three").code == 0
    assert computed(tmp_path / "two") == 2 * 3 * 20
    assert computed(tmp_path / "three") == 2 * 20


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--candidates tile", "there is no treatment 'tile'"),
        ("--margin 1", "margin must be from 0 to below 1, got 1"),
        ("--sets 7", "asks about 7 documents, and tune needs at least 20"),
        ("--corpus PLACE/few", "asks about 19 documents, and tune needs at least 20"),
        ("--guard passages", "is named twice: guards need documents of their own"),
        ("--guard PLACE/small", "small-test asks about 10 documents, and tune needs"),
        ("--guard nowhere", "there is no task 'nowhere'"),
        ("--parts", "Unknown option"),
    ],
)
def test_a_mistake_is_one_line(
    run: Run, usual: Typed, place: Path, options: str, said: str
) -> None:
    """The last option counts, so that each is added to a command that works."""
    run(*usual, *shlex.split(options.replace("PLACE", str(place)))).is_one_line(said)
