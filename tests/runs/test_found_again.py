"""What a finished run is found by: everything that decides its rows, and nothing else."""

from __future__ import annotations

import copy
import json
import os
import shutil
from dataclasses import fields
from importlib import import_module
from importlib.metadata import Distribution, version
from pathlib import Path
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan import RunLog
from fairspan.errors import DesignError
from fairspan.model.fingerprint import fingerprint
from fairspan.runs.identity import run_name
from fairspan.runs.options import DISPLAY_ONLY, StudyOptions
from fairspan.runs.progress import Silent
from fairspan.studies.audit.options import AuditOptions
from fairspan.studies.collapse.options import CollapseOptions
from fairspan.studies.evaluate.options import EvaluateOptions
from fairspan.studies.tune.options import TuneOptions
from tests.builders.saying import said_by
from tests.builders.verbs import VERBS, Verb


@pytest.fixture
def here(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of model and corpus, with its own runs and store."""
    shutil.copytree(place, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("FAIRSPAN_STORE", str(tmp_path / "store.sqlite"))
    return tmp_path / "here"


def measured(**changes: Any) -> RunLog:
    """The smallest audit."""
    asked = {"corpus": "corpus", **VERBS[0].asked, "progress": False, **changes}
    return fairspan.audit("model", **asked)


def name_of(verb: Verb, **changes: Any) -> str:
    """The name that its run would have; nothing is embedded."""
    kind = next(kind for kind in OPTIONS if kind.verb == verb.name)
    study = import_module(f"fairspan.studies.{verb.name}.run").STUDY
    options = kind(model="model", **{"corpus": "corpus", **verb.asked, **changes})
    return run_name(study.read(options, Silent()))


OPTIONS = [AuditOptions, CollapseOptions, EvaluateOptions, TuneOptions]
VALUES = {"treatments": ["paper"], "candidates": ["paper"]}


def test_the_same_call_embeds_nothing_and_hashes_the_weights_once(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the files were touched: their content is the same. Other verbs: test_runner.py."""
    first = measured()
    hashed = list[object]()

    def counted(model: SentenceTransformer) -> str:
        hashed.append(model)
        return fingerprint(model)

    def never(*_: object, **__: object) -> None:
        pytest.fail("nothing was to be embedded")

    monkeypatch.setattr("fairspan.runs.subject.fingerprint", counted)
    monkeypatch.setattr(SentenceTransformer, "forward", never)
    os.utime(here / "corpus" / "en.jsonl", ns=(1, 1))
    again = measured()
    assert len(hashed) == 1
    assert (again.folder, again.header.to_json()) == (first.folder, first.header.to_json())
    assert again.rows.equals(first.rows)


def test_another_analysis_finds_the_finished_run(here: Path) -> None:
    """In both ways: asked again of the study, and of its log without a model."""
    analysis = {"margin": 0.3, "inference": "z"}
    first, again = measured(), measured(**analysis)
    assert (again.folder, again.header.to_json()) == (first.folder, first.header.to_json())
    assert first.spec["margin"] != again.spec["margin"] == 0.3
    shutil.rmtree(here / "model")
    read = fairspan.read_log(first.folder, **analysis)
    assert read.spec == again.spec
    assert read.verdicts.equals(again.verdicts)
    assert not read.verdicts.equals(first.verdicts), "the premise: the margin is wide"
    assert fairspan.read_log(first.folder).verdicts.equals(first.verdicts)
    said = said_by(fairspan.read_log, first.folder, temperature=2, kind=DesignError)
    assert said == "temperature is no option of this analysis: it has margin, inference."
    assert "margin must be between 0 and 1" in said_by(fairspan.read_log, first.folder, margin=3)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_changed_weights_texts_and_settings_have_another_name(verb: Verb, here: Path) -> None:
    names = [name_of(verb), name_of(verb, seed=1), name_of(verb, fresh=True)]
    corpus = here / "corpus" / "en.jsonl"
    corpus.write_text(corpus.read_text("utf-8").replace('"text": "', '"text": "w1 '), "utf-8")
    names.append(name_of(verb))
    model = SentenceTransformer(str(here / "model"), device="cpu")
    next(model.parameters()).data.mul_(1.5)
    model.save_pretrained(str(here / "model"), create_model_card=False)
    names.append(name_of(verb))
    assert len(set(names)) == 4, "the fresh one is the first"


@pytest.mark.parametrize("kind", OPTIONS, ids=lambda kind: kind.verb)
def test_every_option_decides_or_analyses_or_is_for_display(kind: type[StudyOptions]) -> None:
    """Values are set past the checks, since not all options go together."""
    plain = kind().decisive
    for option in fields(kind):
        changed = copy.copy(kind())
        for name in ("compared", "all_treatments"):
            changed.__dict__.pop(name, None)
        object.__setattr__(changed, option.name, VALUES.get(option.name, "another"))
        decides = changed.decisive != plain
        analyses = option.name in {field.name for field in fields(kind.analysed)}
        assert decides == (option.name not in {*DISPLAY_ONLY, "model"} and not analyses), (
            option.name
        )


def test_run_and_vectors_belong_to_minor_versions(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A patch release finds what was measured; another minor version embeds again."""
    asked = {"treatments": ["plain"], "measures": ["representation"]}
    first = measured(**asked)
    plain = Distribution.version.fget  # type: ignore[attr-defined]
    major, minor, *_ = version("transformers").split(".")
    changed = {"transformers": f"{major}.{minor}.99"}

    def of_version(self: Distribution) -> str:
        return changed.get(self.name) or plain(self)

    monkeypatch.setattr(Distribution, "version", property(of_version))
    assert measured(**asked).header.started == first.header.started
    names = {first.run}
    for library in ("torch", "transformers", "sentence-transformers"):
        changed = {library: f"{major}.{int(minor) + 1}.0"}
        names.add(name_of(VERBS[0], **asked))
    assert len(names) == 4
    assert measured(**asked).header.timings.texts_from_store == 0


def test_the_window_of_every_treatment_is_in_the_name(here: Path) -> None:
    """In tiles any length is read: only what the plain model reads tells the runs apart."""
    file = next((here / "model").rglob("sentence_bert_config.json"))
    settings = json.loads(file.read_text("utf-8"))
    names = []
    for length in (400, 300):
        file.write_text(json.dumps({**settings, "max_seq_length": length}), "utf-8")
        asked = ["plain", "tiles-8"], ["tiles-128+short_texts=leave"]
        names += [name_of(VERBS[0], treatments=treatments) for treatments in asked]
    assert len(set(names)) == len(names) == 4
