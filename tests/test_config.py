"""Audits in TOML: files, the options of an audit, and the configurations that are shipped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairspan.calibration.treatment import as_treatment
from fairspan.corpus.corpus import parse_languages
from fairspan.design.plan import language_plans, languages_of
from fairspan.errors import DesignError
from fairspan.studies.audit.config import changed_audits, read_config, shipped_configs
from fairspan.studies.audit.options import AuditOptions
from tests.saying import said_by

Written = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def read(text: str) -> list[dict[str, Any]]:
        file = tmp_path / "audits.toml"
        file.write_text(text, encoding="utf-8")
        return read_config(str(file))

    return read


# --- files


def test_a_file_without_runs_is_one_audit_a_model(written: Written) -> None:
    found = written('title = "T"\nmodels = ["a", "b"]\nsizes = [3]\nmax_seq_length = 64\ndtype = "float32"\n')
    assert found == [{"model": model, "max_seq_length": 64, "dtype": "float32", "sizes": [3]} for model in ("a", "b")]


def test_runs_change_what_stands_above_them(written: Written) -> None:
    found = written(
        """
        models = ["a"]
        sizes = [3, 4]
        seed = 5
        device = "cpu"
        treatments = ["plain"]

        [documents]
        "3" = 60

        [[run]]
        title = "the first"

        [[run]]
        models = ["b", "c"]
        sizes = [3]
        max_seq_length = 32
        device = "cuda"
        [[run.treatments]]
        name = "mine"
        preset = "retrieval"
        basket_size = 64
        """
    )
    assert [audit["model"] for audit in found] == ["a", "b", "c"]
    common = {"seed": 5, "documents": {"3": 60}}
    assert found[0] == {"model": "a", "sizes": [3, 4], "device": "cpu", "treatments": ["plain"], **common}
    options = AuditOptions(**found[2])
    assert (options.device, options.max_seq_length) == ("cuda", 32)
    assert (options.sizes, options.seed, options.documents) == ((3,), 5, {3: 60})
    [mine] = options.measured
    assert (mine.name, mine.calibration.basket_size, mine.calibration.strength) == ("mine", 64, 0.5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sizes = [3,", "is not TOML"),
        ("run = [3]", "each below a line [[ run ]]"),
        ('[run]\nmodels = ["a"]', "each below a line [[ run ]]"),
        ('models = "a"', "models must be a list of names, got 'a'"),
        ("models = []", "models must be a list of names, got []"),
        ("models = [3]", "models must be a list of names"),
        ("sizess = [3]", "an audit has no field 'sizess'. Fields: models, attention_documents, "),
        ("progress = true", "no field 'progress'"),
    ],
)
def test_bad_files_are_one_line_with_their_name(written: Written, text: str, said: str) -> None:
    line = said_by(written, text, kind=DesignError)
    assert said in line
    assert "audits.toml" in line


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in said_by(read_config, str(tmp_path / "a.toml"))
    assert "cannot be read" in said_by(read_config, str(tmp_path))
    said = said_by(read_config, "irff", kind=DesignError)
    assert "there is no configuration 'irff': give a TOML file, or one of irf, irf-laptop" in said


def test_a_file_comes_before_a_shipped_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder does not: `fairspan audit --out irf` makes one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "irf").mkdir()
    assert len(read_config("irf")) == 6
    (tmp_path / "irf").rmdir()
    (tmp_path / "irf").write_text("sizes = [2]", encoding="utf-8")
    assert read_config("irf") == [{"model": None, "sizes": [2]}]


def test_one_folder_cannot_hold_two_audits() -> None:
    said = said_by(changed_audits, "irf", {"out": "here"}, kind=DesignError)
    assert said == "out names one folder, and irf holds 6 audits: omit it."


# --- options


def test_options_from_plain_values() -> None:
    asked: dict[str, Any] = {"languages": ["en", "de"], "mixed": ["de:en"], "sizes": [3], "design": "williams"}
    options = AuditOptions(**asked, treatments=["none", "64-last"], seed=3)
    assert (options.design, options.sizes, options.seed) == ("williams", (3,), 3)
    assert options.measured == (as_treatment("plain"), as_treatment("64-last"))
    kept = json.loads(json.dumps(options.asked))
    assert {name: kept[name] for name in asked} == asked
    assert [one["name"] for one in kept["treatments"]] == ["plain", "64-last"]
    assert AuditOptions(mixed=["all"]).mixed == AuditOptions(mixed="all").mixed == "all"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"measures": []}, "measures must name at least one of representation, retention, attention"),
        ({"measures": ["representation", "beauty"]}, "representation, retention, attention, got 'beauty'"),
        ({"measures": "representation"}, "measures must be a list"),
        ({"inference": "t"}, "auto, cr1, z, cr2, two-way, got 't'"),
        ({"treatments": []}, "at least one treatment, for example plain"),
        ({"treatments": ["none", "paper", "plain"]}, "the treatment 'plain' is named twice"),
        ({"treatments": "plain"}, "treatments"),
        ({"margin": 1}, "margin must be between 0 and 1, got 1"),
        ({"margin": "wide"}, "got 'wide'"),
        ({"margin": float("nan")}, "got nan"),
        ({"sizes": [1]}, "sizes"),
        ({"sizes": 4}, "sizes must be a list, such as [3, 4], got 4"),
        ({"design": "greek"}, "no design 'greek'"),
        ({"languages": "en"}, "languages must be a list, such as ['en'], got 'en'"),
        ({"corpus": 5}, "corpus must be a name or a path, got 5"),
        ({"prompt": 5}, "prompt must be text, got 5"),
        ({"attention_documents": 0}, "attention_documents must be a whole number of at least 1, got 0"),
        ({"mixed": [5]}, "mixed must be text such as 'en' and 'de:en', got 5"),
        ({"partial": "no"}, "partial must be true or false, got 'no'"),
        ({"documents": 1000}, "documents must be numbers by size, such as {4: 1008}, got 1000"),
        ({"fit_corpus": "sample"}, "no treatment is fitted, so fit_corpus would do nothing"),
    ],
)
def test_options_that_cannot_be_are_one_line(fields: dict[str, Any], said: str) -> None:
    assert said in said_by(AuditOptions, **fields)


# --- what is shipped


@pytest.mark.parametrize("name", ["irf", "irf-laptop"])
def test_shipped_configurations_are_valid(name: str) -> None:
    """Their plans are in languages that can be asked for; only "plain" does nothing; options may be typed beside."""
    assert name in shipped_configs()
    for audit in read_config(name):
        options = AuditOptions(**audit)
        plans = language_plans(options.languages or (), options.mixed)
        parse_languages(languages_of(plans))
        assert len(plans) == len({str(plan) for plan in plans})
        for treatment in options.measured:
            assert treatment.calibration.acts == (treatment.name != "plain")
    for audit in changed_audits(name, {"sizes": [3], "sets": 2}):
        assert AuditOptions(**audit).sets_of(3) == 2
