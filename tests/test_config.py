"""Audits in TOML, the specs they become, and the shipped configurations."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairspan.calibration.calibration import Calibration
from fairspan.calibration.treatment import as_treatment
from fairspan.corpus.corpus import parse_languages
from fairspan.design.design import Design
from fairspan.design.plan import language_plans, languages_of
from fairspan.errors import DesignError, FairspanError
from fairspan.studies.audit.config import PlannedAudit, read_config, shipped_configs
from fairspan.studies.audit.spec import MEASURES, make_spec


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], list[PlannedAudit]]:
    def read(text: str) -> list[PlannedAudit]:
        file = tmp_path / "audits.toml"
        file.write_text(text, encoding="utf-8")
        return read_config(str(file))

    return read


def one_line(action: Callable[[], object], kind: type[FairspanError] = FairspanError) -> str:
    with pytest.raises(kind) as caught:
        action()
    said = str(caught.value)
    assert "\n" not in said
    return said


# --- files


def test_a_file_without_runs_is_one_audit_a_model(written: Callable[[str], list[PlannedAudit]]) -> None:
    found = written('title = "T"\nmodels = ["a", "b"]\nsizes = [3]\nwindow = 64\ndtype = "float32"\n')
    assert found == [PlannedAudit(model, {"window": 64, "dtype": "float32"}, {"sizes": [3]}) for model in ("a", "b")]


def test_an_empty_file_is_the_default_audit(written: Callable[[str], list[PlannedAudit]]) -> None:
    [found] = written("")
    assert found == PlannedAudit(None, {}, {})
    assert make_spec(**found.fields) == make_spec()


def test_runs_change_what_stands_above_them(written: Callable[[str], list[PlannedAudit]]) -> None:
    found = written(
        """
        title = "two families"
        models = ["a"]
        sizes = [3, 4]
        seed = 5
        device = "cpu"
        treatments = ["none"]

        [documents]
        "3" = 60

        [[run]]
        title = "the first"

        [[run]]
        models = ["b", "c"]
        sizes = [3]
        window = 32
        device = "cuda"
        trust_remote_code = true
        [[run.treatments]]
        name = "mine"
        preset = "retrieval"
        basket_size = 64
        """
    )
    assert [audit.model for audit in found] == ["a", "b", "c"]
    assert found[0].loading == {"device": "cpu"}
    assert found[0].fields == {"sizes": [3, 4], "seed": 5, "treatments": ["none"], "documents": {"3": 60}}
    assert found[1].loading == found[2].loading == {"window": 32, "device": "cuda", "trust_remote_code": True}
    spec = make_spec(**found[2].fields)
    assert spec.design == Design(sizes=(3,), seed=5, documents={3: 60})
    assert [(t.name, t.calibration.basket_size, t.calibration.strength) for t in spec.treatments] == [
        ("mine", 64, 0.5)
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sizes = [3,", "is not TOML"),
        ("sizes = 3\nsizes = 4", "is not TOML"),
        ("run = 3", "each below a line [[ run ]]"),
        ("run = [3]", "each below a line [[ run ]]"),
        ('[run]\nmodels = ["a"]', "each below a line [[ run ]]"),
        ('models = "a"', "models must be a list of names, got 'a'"),
        ("models = []", "models must be a list of names, got []"),
        ("models = [3]", "models must be a list of names"),
    ],
)
def test_bad_files_are_one_line_with_their_name(
    written: Callable[[str], list[PlannedAudit]], text: str, said: str
) -> None:
    line = one_line(lambda: written(text), DesignError)
    assert said in line
    assert "audits.toml" in line


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in one_line(lambda: read_config(str(tmp_path / "a.toml")))
    assert "cannot be read" in one_line(lambda: read_config(str(tmp_path)))


def test_a_file_that_is_not_there_names_the_shipped_ones() -> None:
    said = one_line(lambda: read_config("irff"), DesignError)
    assert "there is no configuration 'irff'" in said
    assert "irf, irf-laptop" in said


def test_a_folder_does_not_hide_a_shipped_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`fairspan audit --out irf` makes such a folder."""
    (tmp_path / "irf").mkdir()
    monkeypatch.chdir(tmp_path)
    assert read_config("irf")


def test_a_file_comes_before_a_shipped_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "irf").write_text("sizes = [2]", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert read_config("irf") == [PlannedAudit(None, {}, {"sizes": [2]})]


# --- specs


def test_unknown_keys_are_one_line_with_the_known_ones(written: Callable[[str], list[PlannedAudit]]) -> None:
    [found] = written("sizess = [3]")
    said = one_line(lambda: make_spec(**found.fields))
    assert "no field 'sizess'" in said
    assert "sizes" in said
    assert "corpus" in said


def test_a_spec_from_plain_values() -> None:
    spec = make_spec(
        languages=["en", "de"], mixed=["de:en"], sizes=[3], design="williams", treatments=["none", "64-last"], seed=3
    )
    assert spec.design == Design("williams", (3,), seed=3)
    assert (spec.languages, spec.mixed) == (("en", "de"), ("de:en",))
    assert spec.treatments == (as_treatment("none"), as_treatment("64-last"))
    assert make_spec(design=Design(sets=7)).design.sets == 7
    assert json.loads(json.dumps(spec.to_dict()))["treatments"][1]["name"] == "64-last"
    assert Design.from_dict(spec.to_dict()["design"]) == spec.design


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"measures": []}, "measures must name at least one of representation, retention, attention"),
        ({"measures": ["representation", "beauty"]}, "got 'beauty'"),
        ({"inference": "t"}, "auto, cr1, z, cr2, cr3, wild, two-way, got 't'"),
        ({"treatments": []}, "at least one treatment, for example none"),
        ({"treatments": ["none", "paper", "none"]}, "the treatment 'none' is named twice"),
        ({"treatments": ["papre"]}, "no treatment 'papre'"),
        ({"margin": 0}, "margin must be between 0 and 1, got 0"),
        ({"margin": 1}, "got 1"),
        ({"margin": "wide"}, "got 'wide'"),
        ({"margin": float("nan")}, "got nan"),
        ({"sizes": [1]}, "sizes"),
        ({"design": "greek"}, "no design 'greek'"),
        ({"design": Design(), "sizes": [3]}, "sizes belongs to the design: set it there"),
        ({"orders": "latin"}, "no field 'orders'"),
    ],
)
def test_specs_that_cannot_be_are_one_line(fields: dict[str, Any], said: str) -> None:
    assert said in one_line(lambda: make_spec(**fields))


@pytest.mark.parametrize(
    ("name", "value"), [("languages", "en"), ("treatments", "none"), ("measures", "representation")]
)
def test_one_word_where_a_list_is_expected(name: str, value: str) -> None:
    """An easy slip in TOML and in Python: it may be taken as meant or refused, but not read letter by letter."""
    said = ""
    try:
        spec = make_spec(**{name: value})
    except FairspanError as error:
        said = str(error)
    if said:
        assert "\n" not in said
        assert name in said
        assert repr(value) in said
    else:
        assert spec == make_spec(**{name: [value]})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sizes", 4),
        ("corpus", 5),
        ("prompt", 5),
        ("attention_documents", "few"),
        ("attention_documents", -1),
        ("mixed", [5]),
        ("partial", "no"),
        ("documents", 1000),
    ],
)
def test_a_value_of_the_wrong_kind_is_one_line_that_names_it(name: str, value: Any) -> None:
    said = one_line(lambda: make_spec(**{name: value}))
    assert name in said
    assert str(value) in said or repr(value[0]) in said


# --- what is shipped


@pytest.mark.parametrize("name", ["irf", "irf-laptop"])
def test_shipped_configurations_are_valid(name: str) -> None:
    """Every audit makes a spec; its plans are in languages that can be asked for; only "none" does nothing."""
    assert name in shipped_configs()
    planned = read_config(name)
    assert planned
    for audit in planned:
        assert audit.model is None or isinstance(audit.model, str)
        spec = make_spec(**audit.fields)
        plans = language_plans(spec.languages or (), spec.mixed)
        parse_languages(languages_of(plans))
        assert len(plans) == len({str(plan) for plan in plans})
        assert set(spec.measures) <= set(MEASURES)
        for treatment in spec.treatments:
            assert isinstance(treatment.calibration, Calibration)
            assert treatment.calibration.acts == (treatment.name != "none")
        json.dumps(spec.to_dict())


def test_every_shipped_configuration_is_known() -> None:
    assert {"irf", "irf-laptop"} <= set(shipped_configs())
    for name in shipped_configs():
        assert all(make_spec(**audit.fields) for audit in read_config(name))


@pytest.mark.parametrize("name", ["irf", "irf-laptop"])
def test_options_typed_beside_a_configuration_keep_it_valid(name: str) -> None:
    """`--sizes 3` and `--sets 2` replace what a file says of sizes, sets and documents."""
    for audit in read_config(name):
        fields = {key: value for key, value in audit.fields.items() if key != "documents"}
        assert make_spec(**{**fields, "sizes": [3], "sets": 2}).design.sets_of(3) == 2
