"""The key of a run: a complete log answers without a model until something has changed."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from importlib.metadata import Distribution, version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer

from fairspan import RunLog
from fairspan.runs.identity import key_of
from fairspan.runs.options import DISPLAY_ONLY, StudyOptions
from fairspan.studies.audit.options import AuditOptions
from fairspan.studies.collapse.options import CollapseOptions
from fairspan.studies.evaluate.options import EvaluateOptions, SearchOptions
from fairspan.studies.tune.options import TuneOptions
from tests.commands import ROOT
from tests.searches import write_beir
from tests.verbs import TUNE, VERBS, Verb


@pytest.fixture
def here(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of model and corpus, with its own runs and store."""
    shutil.copytree(place, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("FAIRSPAN_STORE", str(tmp_path / "store.sqlite"))
    return tmp_path / "here"


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that are loaded from now on."""
    from fairspan.runs import subject

    found, plain = list[str](), subject.load_with_limit

    def load(name: str | None, loading: Any) -> tuple[SentenceTransformer, int | None]:
        found.append(str(name))
        return plain(name, loading)

    monkeypatch.setattr(subject, "load_with_limit", load)
    return found


def measured(verb: Verb, **changes: Any) -> RunLog:
    asked = {"corpus": "corpus", **verb.asked, "progress": False, **changes}
    return verb.measure("model", **asked)


SLOW = [pytest.param(one, marks=pytest.mark.slow) for one in (*VERBS[1:], TUNE)]


@pytest.mark.parametrize("verb", [VERBS[0], *SLOW], ids=lambda verb: verb.name)
def test_the_same_call_loads_nothing(verb: Verb, here: Path, loads: list[str]) -> None:
    first = measured(verb)
    again = measured(verb)
    assert loads == ["model"]
    assert (again.folder, again.header.to_json()) == (first.folder, first.header.to_json())
    assert again.rows.equals(first.rows)
    # A touched file is looked into: its content is the same, so that the run is.
    os.utime(here / "corpus" / "en.jsonl", ns=(1, 1))
    assert measured(verb).header.started == first.header.started
    assert loads == ["model"] * 2


@pytest.mark.slow
def test_changed_weights_texts_settings_and_fresh_are_measured(
    here: Path, loads: list[str]
) -> None:
    verb = VERBS[-1]
    runs = [measured(verb).run, measured(verb, seed=1).run, measured(verb, fresh=True).run]
    corpus = here / "corpus" / "en.jsonl"
    corpus.write_text(corpus.read_text("utf-8").replace('"text": "', '"text": "w1 ', 1), "utf-8")
    runs.append(measured(verb).run)
    model = SentenceTransformer(str(here / "model"), device="cpu")
    next(model.parameters()).data.mul_(1.5)
    model.save_pretrained(str(here / "model"), create_model_card=False)
    runs.append(measured(verb).run)
    assert len(set(runs)) == 4, "the fresh one is the first"
    assert loads == ["model"] * 5


def test_what_decides_a_key_and_what_cannot_be_known(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = CollapseOptions("model", corpus="corpus")
    same = [options, replace(options, out="elsewhere", store="s", batch_tokens=8, progress=False)]
    others = [
        replace(options, **one)
        for one in ({"max_seq_length": 64}, {"seed": 1}, {"name": "m"}, {"dtype": "float16"})
    ]
    assert len({key_of(one) for one in same}) == 1
    assert len({key_of(one) for one in [options, *others]}) == 5
    unknown = [
        {"trust_remote_code": True},
        {"model": object()},
        {"corpus": "somebody/dataset"},
        {"model": "a/model"},
    ]
    assert [key_of(replace(options, **one)) for one in unknown] == [None] * 4
    assert key_of(replace(options, model=SimpleNamespace(identity="an object's own"))) is not None
    before = key_of(options)
    with of_version(monkeypatch, "fairspan", "9.9.9"):
        assert key_of(options) not in (None, before)
    for place in ("", "0_Transformer"):
        adapter = here / "model" / place / "adapter_config.json"
        adapter.parent.mkdir(exist_ok=True)
        adapter.write_text("{}", "utf-8")
        assert key_of(options) is None, "an adapter's weights are elsewhere"
        adapter.unlink()


@contextmanager
def of_version(monkeypatch: pytest.MonkeyPatch, library: str, number: str) -> Iterator[None]:
    """As if a library had another version."""
    plain = Distribution.version.fget  # type: ignore[attr-defined]

    def version(self: Distribution) -> str:
        return number if self.name == library else plain(self)

    with monkeypatch.context() as patch:
        patch.setattr(Distribution, "version", property(version))
        yield


def collection(folder: Path) -> Path:
    """Two splits of judgements, and a corpus."""
    documents = [{"id": f"d{number}", "text": f"w{number} w1"} for number in range(3)]
    queries = [{"id": f"q{n}", "text": f"w{n}", "document": f"d{n}"} for n in range(3)]
    write_beir(folder, documents, queries)
    shutil.copy(folder / "qrels" / "test.tsv", folder / "qrels" / "dev.tsv")
    return folder


@pytest.mark.parametrize("kind", [EvaluateOptions, TuneOptions], ids=lambda kind: kind.verb)
def test_a_search_depends_on_the_files_of_its_collection(
    here: Path, kind: type[SearchOptions]
) -> None:
    """Also if it is named by one of its splits."""
    folder = collection(here / "asked")
    named = [str(folder), f"beir:{folder}", str(folder / "qrels" / "dev.tsv")]
    keys = {name: key_of(kind("model", name)) for name in named}
    assert None not in keys.values()
    assert len(set(keys.values())) == len(named)
    for file in ("corpus.jsonl", "queries.jsonl", "qrels/dev.tsv"):
        (folder / file).write_text((folder / file).read_text("utf-8") + "\n", "utf-8")
        changed = {name: key_of(kind("model", name)) for name in named}
        assert not {*changed.values()} & {*keys.values()}, file
        keys = changed


def test_a_guard_decides_a_key_by_its_files(here: Path) -> None:
    folder = collection(here / "asked")
    options = TuneOptions("model", corpus="corpus", guards=[str(folder)])
    before = key_of(options)
    (folder / "queries.jsonl").write_text("", "utf-8")
    assert None not in (before, key_of(options))
    assert key_of(options) != before


@pytest.mark.parametrize("asked", [{"task": "mteb:SciFact"}, {"guards": "mteb:SciFact"}])
def test_a_task_of_mteb_has_no_key(here: Path, asked: dict[str, Any]) -> None:
    """No file says whether its data have changed, so that it is read again."""
    kind = TuneOptions if "guards" in asked else EvaluateOptions
    assert key_of(kind("model")) is not None, "the premise"
    assert key_of(kind("model", **asked)) is None


OPTIONS = [AuditOptions, CollapseOptions, EvaluateOptions, TuneOptions]
VALUES = {"treatments": ["paper"], "candidates": ["paper"]}


@pytest.mark.parametrize("kind", OPTIONS, ids=lambda kind: kind.verb)
def test_every_option_decides_or_is_for_display(kind: type[StudyOptions]) -> None:
    """Values are set past the checks, since not all options go together."""
    plain = kind().decisive
    for option in fields(kind):
        changed = copy.copy(kind())
        for name in ("compared", "all_treatments"):
            changed.__dict__.pop(name, None)
        object.__setattr__(changed, option.name, VALUES.get(option.name, "another"))
        decides = changed.decisive != plain
        assert decides == (option.name not in {*DISPLAY_ONLY, "model"}), option.name


def test_run_and_vectors_belong_to_minor_versions(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A patch release finds what was measured; another minor version embeds again."""
    verb = VERBS[0]
    first = measured(verb)
    major, minor, *_ = version("transformers").split(".")
    with of_version(monkeypatch, "transformers", f"{major}.{minor}.99"):
        assert measured(verb).header.started == first.header.started
    for library in ("torch", "transformers", "sentence-transformers"):
        with of_version(monkeypatch, library, f"{major}.{int(minor) + 1}.0"):
            other = measured(verb)
        assert other.run != first.run
        assert other.header.timings.texts_from_store == 0


def test_the_window_of_every_treatment_is_in_the_name(here: Path) -> None:
    """In tiles any length is read: only what the plain model reads tells the runs apart."""
    file = next((here / "model").rglob("sentence_bert_config.json"))
    settings = json.loads(file.read_text("utf-8"))
    evaluate, tune = VERBS[1], TUNE
    own = {"treatments": ["none", "tiles-8"], "sets": 12}
    runs = []
    for length in (64, 32):
        file.write_text(json.dumps({**settings, "max_seq_length": length}), "utf-8")
        runs += [
            measured(evaluate, **own).run,
            measured(tune, sets=20, candidates=["tiles-64"]).run,
            measured(VERBS[0], treatments=["tiles-128+short_texts=leave"]).run,
        ]
    assert len(set(runs)) == len(runs)


def test_a_model_of_the_hub_is_known_by_its_snapshot(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(here / "hub"))
    repository, found = here / "hub" / "models--sentence-transformers--some", []
    (repository / "refs").mkdir(parents=True)
    for commit in ("a" * 40, "b" * 40):
        (repository / "snapshots" / commit).mkdir(parents=True)
        (repository / "snapshots" / commit / "config.json").write_text("{}", "utf-8")
        (repository / "refs" / "main").write_text(commit, "utf-8")
        found.append(key_of(CollapseOptions("some", corpus="corpus")))
    assert None not in found
    assert found[0] != found[1]


_COMMAND = """
import sys
from fairspan.cli import main
try:
    main()
except SystemExit as ended:
    assert not ended.code
heavy = {"torch", "transformers", "sentence_transformers"} & set(sys.modules)
print("heavy:", sorted(heavy), file=sys.stderr)
"""


@pytest.mark.parametrize("verb", [VERBS[0], *SLOW], ids=lambda verb: verb.name)
def test_a_command_answers_without_torch(verb: Verb, here: Path) -> None:
    """In a process of its own, after the same call in this one."""
    log = measured(verb)
    command = [sys.executable, "-c", _COMMAND, *verb.typed(), "--json"]
    ended = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, capture_output=True
    )
    assert ended.stderr.decode().splitlines()[-1] == "heavy: []"
    told = json.loads(ended.stdout)
    assert (told["run"], told["status"]) == (log.run, "complete")
