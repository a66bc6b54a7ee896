"""`fairspan collapse`, run through the command's own entry, with a tiny model on disk."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fairspan.studies.logs import read_log
from tests.commands import Run
from tests.tiny import words

DOCUMENTS = 8
TREATMENTS = ["none", "tempscale+temperature=0.5"]


@pytest.fixture(scope="module")
def model(save_tiny: Callable[..., Path]) -> Path:
    return save_tiny("bert", "mean")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight documents of fourteen sentences of five words."""
    folder = tmp_path_factory.mktemp("corpus") / "articles"
    folder.mkdir()
    texts = [" ".join(words(5, 100 * k + place) + "." for place in range(14)) for k in range(DOCUMENTS)]
    lines = [json.dumps({"id": f"a{k}", "text": text}) + "\n" for k, text in enumerate(texts)]
    (folder / "en.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


@pytest.fixture
def usual(model: Path, corpus: Path) -> list[str | Path]:
    """Two lengths and two temperatures."""
    asked = ["--lengths", "10,40", "--temperatures", "1.0,0.5", "--documents", "6", "--spectra", "1", "--no-probe"]
    return ["collapse", model, "--corpus", corpus, *asked]


# --- results


def test_a_study_tells_its_verdicts_and_where_the_log_lies(run: Run, usual: list[str | Path], tmp_path: Path) -> None:
    done = run(*usual, "--out", "here")
    assert done.code == 0, done.err
    log = read_log(tmp_path / "here")
    assert log.status == "complete"
    assert log.treatments == TREATMENTS
    assert log.frame("lengths")["length"].to_list() == [10, 40]
    assert set(log.rows["measure"]) >= {"cosine", "sigma_a", "filter_rate"}
    assert "repeated" not in set(log.rows["measure"])
    printed = " ".join(done.out.split())
    for name, verdict, sentence in log.verdicts.rows():
        assert f"{name} {verdict}: {sentence}" in printed
    for remark in log.view.remarks:
        assert remark in done.out
    assert "6 documents cut to 10, 40 tokens" in done.out
    assert done.out.rstrip().endswith("log: here")
    assert "loading" not in done.out
    assert "reading the corpus" in done.err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["here", "vectors.db"]


def test_json_is_the_summary_and_nothing_else(run: Run, usual: list[str | Path], tmp_path: Path) -> None:
    done = run(*usual, "--out", tmp_path / "here", "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert said == json.loads(json.dumps(read_log(tmp_path / "here").to_dict()))
    assert [verdict["treatment"] for verdict in said["verdicts"]] == TREATMENTS
    assert [one["length"] for one in said["suggestion"]] == [10, 40]


@pytest.mark.slow
def test_the_default_command(run: Run, model: Path, tmp_path: Path) -> None:
    """The sample in English, and lengths, temperatures and spectra that nobody named.

    The tiny vocabulary knows none of its words, so texts of one length are all alike: not a case to fail on.
    """
    done = run("collapse", model, "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    [folder] = (tmp_path / "fairspan-runs").iterdir()
    log = read_log(folder)
    assert log.treatments == ["none", "tempscale+temperature=0.9", "tempscale+temperature=0.8"]
    # A word is a token here, and the 48 texts have about 90.
    assert [one["length"] for one in said["lengths"]] == [25, 50]
    assert {one["measure"] for one in said["spectra"]} >= {"hc_dc", "sigma_a", "theorem_3"}
    assert said["repeated"]
    shown = run("collapse", model)
    assert shown.code == 0, shown.err
    assert "on sample:" in shown.out
    assert "Traceback" not in shown.err


def test_natural_lengths(run: Run, usual: list[str | Path], model: Path, corpus: Path) -> None:
    asked = ["--natural", "--temperatures", "1", "--spectra", "0", "--no-probe"]
    done = run("collapse", model, "--corpus", corpus, *asked, "--json")
    assert done.code == 0, done.err
    assert [one["length"] for one in json.loads(done.out)["lengths"]] == [0]


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_natural_lengths_with_spectra(run: Run, model: Path, corpus: Path, form: list[str]) -> None:
    """Spectra are on by default."""
    done = run("collapse", model, "--corpus", corpus, "--natural", "--temperatures", "1", "--no-probe", *form)
    assert done.code == 0, done.err


def test_a_picture_is_drawn(run: Run, usual: list[str | Path], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = run(*usual, "--picture", "p.png", "--json")
    assert done.code == 0, done.err
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads(done.out)["status"] == "complete"
    assert "picture: p.png" in done.err
    shown = run(*usual, "--picture", "p.svg")
    assert "picture: p.svg" in shown.out
    assert "<svg" in (tmp_path / "p.svg").read_text(encoding="utf-8")


def test_treatments_come_after_the_temperatures(run: Run, usual: list[str | Path]) -> None:
    done = run(*usual, "--treatments", "paper+basket_size=4+layers=[1,3],tempscale+temperature=[[20,0.7]]", "--json")
    assert done.code == 0, done.err
    assert [one["treatment"] for one in json.loads(done.out)["verdicts"]] == [
        *TREATMENTS,
        "paper+basket_size=4+layers=[1,3]",
        "tempscale+temperature=[[20,0.7]]",
    ]


def test_a_dry_run_counts_and_writes_nothing(run: Run, usual: list[str | Path], tmp_path: Path) -> None:
    """Six documents at two lengths, two treatments; two special tokens a text. No log and no store."""
    done = run(*usual, "--dry-run", "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert [arm["treatment"] for arm in said["arms"]] == TREATMENTS
    assert (said["texts"], said["lengths"]) == (12, [10, 40])
    assert said["seconds"] == pytest.approx(sum(arm["seconds"] for arm in said["arms"]))
    assert said["seconds"] > 0
    assert not list(tmp_path.iterdir())
    log = json.loads(run(*usual, "--json", "--out", tmp_path / "here").out)
    means = sum(one["texts"] * one["tokens"] for one in log["lengths"])
    assert said["tokens"] == pytest.approx(2 * (means + 2 * 12))
    shown = run(*usual, "--dry-run")
    assert "12 texts of up to 40 tokens × 2 treatments" in " ".join(shown.out.split())
    assert re.search(r"about \d+ s on this machine", shown.out)


# --- mistakes


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--temperatures", "0"], "temperature must be a number above 0 and at most 1, got 0.0"),
        (["--temperatures", "1.5"], "temperature must be a number above 0 and at most 1, got 1.5"),
        (["--temperatures", "nan"], "temperature must be a number above 0 and at most 1, got nan"),
        (["--temperatures", "warm"], "--temperatures takes numbers such as 1.0,0.9,0.8, got 'warm'"),
        (["--temperatures", "1.0,1"], "twice"),
        (["--temperatures", ","], "name at least one treatment"),
        (["--lengths", "0,10"], "lengths must be numbers of tokens"),
        (["--lengths", "ten"], "--lengths takes whole numbers such as 3,4,5, got 'ten'"),
        (["--lengths", "10.5"], "got '10.5'"),
        (["--lengths", "-10"], "got '-10'"),
        (["--lengths", ","], "got ','"),
        (["--lengths", "10,600"], "texts of 600 tokens do not fit: the model reads 512, of which 510 are text"),
        (["--lengths", "10,300"], "none of 8 documents in 'en' has a sentence border within 20% of every length"),
        (["--natural"], "natural lengths are the documents' own"),
        (["--treatments", "none"], "'none' is named twice"),
        (["--margin", "0"], "margin must be between 0 and 1, got 0"),
        (["--documents", "2"], "documents must be a whole number of at least 3, got 2"),
        (["--spectra", "-1"], "spectra must be a whole number of at least 0, got -1"),
        (["--layers", "first"], "layers must be last, last_half or all, got 'first'"),
        (["--start", "middle"], "start must be one of random, beginning, got 'middle'"),
        (["--tolerance", "2"], "tolerance is a share of the length from 0 to below 1, got 2"),
        (["--language", "it"], "has no language 'it'"),
        (["--window", "20"], "texts of 40 tokens do not fit: the model reads 20, of which 18 are text"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line_and_exit_code_two(
    run: Run, usual: list[str | Path], options: list[str], said: str
) -> None:
    """The last option counts, so that each is added to a command that works. Progress may come before the line."""
    run(*usual, *options).is_one_line(said)


def test_advice_about_a_language_names_an_option_that_is_there(
    run: Run, usual: list[str | Path], corpus: Path, tmp_path: Path
) -> None:
    """A file whose lines do not say their language."""
    (tmp_path / "one.jsonl").write_text((corpus / "en.jsonl").read_text(encoding="utf-8"), encoding="utf-8")
    done = run(*usual, "--corpus", "one.jsonl")
    assert done.code == 2
    assert run(*usual, "--corpus", "one.jsonl", "--language", "en").code == 0, "what should have been advised"
    assert "--languages" not in done.last
    assert "--language en" in done.last


def test_advice_about_lengths_is_not_what_was_done(run: Run, model: Path, tmp_path: Path) -> None:
    """Documents of one long sentence have no border to be cut at."""
    lines = [json.dumps({"id": f"a{k}", "text": words(80, k)}) + "\n" for k in range(4)]
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "en.jsonl").write_text("".join(lines), encoding="utf-8")
    done = run("collapse", model, "--corpus", "c")
    assert done.code == 2
    assert "none of 4 documents" in done.last
    assert "leave lengths out" not in done.last


# --- help


def test_help_says_what_is_the_default(run: Run) -> None:
    text = re.sub(r"[│\s]+", " ", run("collapse", "--help").out)
    for said in ("Default: 1.0,0.9,0.8", "Default: 100", "Default: 0.2", "Default: 5", "Default: random"):
        assert said in text
    assert "collapse" in run("--help").out
