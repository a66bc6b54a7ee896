"""The scripts of papers/ as modules, and what they run on: mteb, a model in a folder."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from tests.builders.commands import Said

PAPERS = Path(__file__).parents[2] / "papers"
sys.path.insert(0, str(PAPERS))

Script = Callable[..., Said]


@pytest.fixture(scope="session")
def mteb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """mteb, which makes the folder of its default cache when it is imported."""
    if find_spec("mteb") is None:
        pytest.skip("needs mteb: pip install 'fairspan[mteb]'")
    datasets = pytest.importorskip("datasets")
    from fairspan.retrieval.mteb_reading import mteb_library

    datasets.disable_progress_bars()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MTEB_CACHE", str(tmp_path_factory.mktemp("mteb")))
        library = mteb_library()
    yield library
    datasets.enable_progress_bars()


@pytest.fixture
def script(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Script:
    """Runs a script in this process."""
    from scripting import run

    def call(module: ModuleType, *typed: str | Path) -> Said:
        monkeypatch.setattr(sys, "argv", [f"papers/{module.__name__}.py"])
        capsys.readouterr()
        code = 0
        try:
            run(module.app, list(map(str, typed)))
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Said(code, *capsys.readouterr())

    return call


def written_commands(name: str) -> list[Sequence[str]]:
    """What is typed after a script in its docstring and in docs/papers.md."""
    start = f"    python papers/{name} "
    pages = (PAPERS / name, PAPERS.parent / "docs" / "papers.md")
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    return [shlex.split(line.removeprefix(start)) for line in lines if line.startswith(start)]
