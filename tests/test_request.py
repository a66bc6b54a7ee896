"""A complete run is answered from its log: without a model as long as nothing that it was made from has changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer

from fairspan import RunLog
from fairspan.cli.showing import LINE_SECONDS, TerminalProgress
from fairspan.runs import request as requests
from fairspan.runs.request import request_of
from fairspan.studies.audit.spec import make_spec
from tests.commands import ROOT
from tests.verbs import TUNE, VERBS, Verb, write_articles

Make = Callable[..., SentenceTransformer]


@pytest.fixture(scope="module")
def place(make_tiny: Make, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("place")
    make_tiny("bert", "mean").save_pretrained(str(place / "model"), create_model_card=False)
    write_articles(place / "corpus")
    return place


@pytest.fixture(scope="module", params=[*VERBS, TUNE], ids=lambda verb: verb.name)
def verb(request: pytest.FixtureRequest) -> Verb:
    found: Verb = request.param
    return found


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
    return verb.measure("model", **{"corpus": "corpus", **verb.asked, "progress": False, **changes})


def touch(file: Path) -> None:
    os.utime(file, ns=(1, 1))


def test_the_same_call_loads_nothing(verb: Verb, here: Path, loads: list[str]) -> None:
    first = measured(verb)
    assert loads == ["model"]
    again = measured(verb)
    assert loads == ["model"]
    assert again.rows.equals(first.rows)
    assert again.header == json.loads(json.dumps(first.header))
    assert again.folder == first.folder
    assert [card.sentences for card in again.view.cards] == [card.sentences for card in first.view.cards]
    # A touched file is looked into once: its content is the same, so that the run is. Then the log answers again.
    for file in ("model/model.safetensors", "corpus/en.jsonl"):
        touch(here / file)
        loads.clear()
        again = measured(verb)
        assert loads == ["model"]
        assert again.header["started"] == first.header["started"]
        assert measured(verb).folder == first.folder
        assert loads == ["model"]


def test_changed_weights_and_texts_are_measured(here: Path, loads: list[str]) -> None:
    verb = VERBS[0]
    first = measured(verb)
    lines = (here / "corpus" / "en.jsonl").read_text("utf-8").splitlines()
    record = json.loads(lines[0])
    lines[0] = json.dumps({**record, "text": "w1 " + record["text"]})
    (here / "corpus" / "en.jsonl").write_text("\n".join(lines), "utf-8")
    second = measured(verb)
    model = SentenceTransformer(str(here / "model"), device="cpu")
    next(model.parameters()).data.mul_(1.5)
    model.save_pretrained(str(here / "model"), create_model_card=False)
    third = measured(verb)
    assert len({first.run, second.run, third.run}) == 3
    assert loads == ["model"] * 3


def test_other_settings_versions_and_fresh_are_not_answered(
    here: Path, loads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    verb = VERBS[0]
    measured(verb)
    measured(verb, sets=5)
    measured(verb, fresh=True)
    assert loads == ["model"] * 3
    monkeypatch.setattr(requests, "__version__", "9.9.9")
    measured(verb)
    assert loads == ["model"] * 4


def test_what_cannot_be_known_without_reading(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = make_spec(corpus="corpus")
    assert request_of("audit", spec, "model") == request_of("audit", spec, "model", window=None, name=None)
    assert request_of("audit", spec, "model") != request_of("audit", spec, "model", window=64)
    assert request_of("audit", spec, "model", trust_remote_code=True) is None
    assert request_of("audit", spec, object()) is None
    assert request_of("audit", make_spec(corpus="somebody/dataset"), "model") is None
    assert request_of("audit", spec, "somebody/model") is None
    (here / "model" / "adapter_config.json").write_text("{}", "utf-8")
    assert request_of("audit", spec, "model") is None


def test_a_model_of_the_hub_is_known_by_its_snapshot(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(here / "hub"))
    repository, spec = here / "hub" / "models--sentence-transformers--some", make_spec(corpus="corpus")
    (repository / "refs").mkdir(parents=True)
    found = []
    for commit in ("a" * 40, "b" * 40):
        (repository / "snapshots" / commit).mkdir(parents=True)
        (repository / "snapshots" / commit / "config.json").write_text("{}", "utf-8")
        (repository / "refs" / "main").write_text(commit, "utf-8")
        found.append(request_of("audit", spec, "some"))
    assert None not in found
    assert found[0] != found[1]


_COMMANDS = """
import json, sys
from fairspan.cli import main
for typed in json.load(sys.stdin):
    sys.argv = ["fairspan", *typed]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, typed
    heavy = {"torch", "transformers", "sentence_transformers"} & set(sys.modules)
    print("heavy:", sorted(heavy), file=sys.stderr, flush=True)
    print(end="\\0", flush=True)
"""


def test_the_commands_answer_without_torch(here: Path) -> None:
    """In a process of its own, after the same calls in this one."""
    verbs = [*VERBS, TUNE]
    logs = [measured(verb) for verb in verbs]
    typed = json.dumps([[*verb.typed(), "--json"] for verb in verbs])
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", _COMMANDS]
    ended = subprocess.run(command, cwd=here, env=environment, input=typed.encode(), capture_output=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.decode().splitlines() == ["checking the command …", "heavy: []"] * len(verbs)
    for told, log in zip(map(json.loads, ended.stdout.split(b"\0")[:-1]), logs, strict=True):
        assert (told["run"], told["status"]) == (log.run, "complete")


# Progress where there is no terminal


def test_a_line_says_what_remains(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A resumed run: half comes from the store at once, then 1,000 tokens take 30 s, and the speed is that of now."""
    clock = [100.0]
    monkeypatch.setattr("fairspan.cli.showing.time.monotonic", lambda: clock[0])
    progress = TerminalProgress()
    progress.stage("loading m")
    assert progress.line(clock[0]) == "loading m …"
    progress.start(20_000)
    progress.stage("paper")
    assert progress.line(clock[0] + LINE_SECONDS) == "paper: 0 of 20,000 tokens …"
    progress.advance(10_000)
    for number in range(2, 8):
        progress.advance(1_000)
        said = progress.line(clock[0] + number * LINE_SECONDS)
    assert said == "paper: 16,000 of 20,000 tokens, about 2 min left …", "4,000 tokens, 1,000 in 30 s"
    progress.stop()


def test_a_second_count_takes_the_place_of_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    """A tuning counts what it tunes on, and then what it confirms with."""
    progress = TerminalProgress()
    for total in (10, 20):
        progress.start(total)
        progress.advance(5)
    assert [(task.total, task.completed) for task in progress._bar.tasks] == [(20, 5)]
    progress.stop()


def test_lines_come_until_the_end(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    progress = TerminalProgress()
    monkeypatch.setattr(progress._over, "wait", lambda seconds: waited.append(seconds) or len(waited) > 2)
    progress.stage("reading")
    progress.print_lines()
    assert waited == [LINE_SECONDS] * 3
    assert capsys.readouterr().err.splitlines() == ["reading …"] * 3
