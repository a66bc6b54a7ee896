"""The house: who may import whom, what importing costs, and code that reads once."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "fairspan"

# One line per floor: a room may import from every floor above it. The top package, with the
# version and the public names, is above them all but for the command line.
FLOORS = [
    "errors",
    "calibration attention corpus stats report",
    "model design",
    "encoding exporting",
    "retrieval",
    "runs",
    "studies/audit studies/collapse studies/evaluate studies/inspect",
    "studies/tune",
    "studies",
    "embedding serving",
    "fairspan",
    "cli",
]
# Thousands of characters that a room may have, with its assets. One that needs more takes it from
# another.
ROOM = {
    "attention": 116,
    "calibration": 35,
    "cli": 64,
    "corpus": 57,
    "design": 31,
    "embedding": 57,
    "encoding": 97,
    "exporting": 27,
    "model": 124,
    "report": 77,
    "retrieval": 73,
    "runs": 82,
    "serving": 48,
    "stats": 43,
    "studies": 250,
}
FLOOR = {room: number for number, floor in enumerate(FLOORS) for room in floor.split()}


@cache
def nodes(file: Path) -> list[ast.AST]:
    """Every node of a file, which several tests go over."""
    return list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))


def room_of(parts: tuple[str, ...]) -> str:
    """A study is a room of its own."""
    return "/".join(parts[:2]) if parts[0] == "studies" and len(parts) > 2 else parts[0]


def floor_of(room: str) -> int:
    """A study has a floor of its own where it builds on another one."""
    return FLOOR[room if room in FLOOR else room.split("/")[0]]


def test_no_room_imports_upwards_or_sideways() -> None:
    wrong = []
    for file in sorted(SOURCE.rglob("*.py")):
        room = room_of(file.relative_to(SOURCE).parts)
        if room == "__init__.py":
            continue
        for node in nodes(file):
            if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "fairspan":
                other = room_of((*str(node.module).split(".")[1:], "fairspan"))
                if other != room and floor_of(other) >= floor_of(room):
                    wrong.append(f"{file.relative_to(SOURCE)} imports {node.module}")
    assert wrong == []


def test_no_room_outgrows_its_budget() -> None:
    """Counted in characters, which squeezing cannot please, with assets but without samples."""
    sizes = dict.fromkeys(ROOM, 0)
    for file in SOURCE.rglob("*.*"):
        room = file.relative_to(SOURCE).parts[0]
        if room in sizes and file.suffix in (".py", ".html", ".css", ".js"):
            sizes[room] += len(file.read_text(encoding="utf-8"))
    assert {room: size for room, size in sizes.items() if size > 1000 * ROOM[room]} == {}


def test_pictures_are_the_only_binary_files() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True)
    if listed.returncode:
        pytest.skip("needs a git checkout")
    files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    binary = [file for file in files if file.is_file() and b"\0" in file.read_bytes()]
    assert {file.suffix for file in binary} <= {".png"}, binary


def test_no_two_files_import_each_other() -> None:
    imported = {}
    for file in SOURCE.rglob("*.py"):
        name = ".".join(("fairspan", *file.relative_to(SOURCE).with_suffix("").parts))
        imports = (node for node in nodes(file) if isinstance(node, ast.ImportFrom))
        imported[name] = {str(node.module) for node in imports}
    pairs = [
        (one, other)
        for one, found in imported.items()
        for other in found
        if one in imported.get(other, ())
    ]
    assert pairs == []


EMPTY_WORDS = {"one", "found", "own", "given", "known", "said", "each"}


def definitions() -> Iterator[tuple[str, ast.AST]]:
    """Every node of the source with the place that a message names."""
    for file in sorted(SOURCE.rglob("*.py")):
        name = str(file.relative_to(SOURCE))
        for node in nodes(file):
            yield f"{name}:{getattr(node, 'lineno', 0)}", node


def test_a_statement_assigns_one_target() -> None:
    """Unpacking one value is allowed: ruff has no rule for this."""
    single = ast.Call | ast.Await | ast.Name | ast.Attribute | ast.Subscript
    wrong = [
        place
        for place, node in definitions()
        if isinstance(node, ast.Assign)
        and (
            len(node.targets) > 1
            or (
                isinstance(node.targets[0], ast.Tuple | ast.List)
                and not isinstance(node.value, single)
            )
        )
    ]
    assert wrong == []


def test_no_conditional_expression_is_inside_another() -> None:
    wrong = [
        place
        for place, node in definitions()
        if isinstance(node, ast.IfExp)
        and any(isinstance(part, ast.IfExp) for part in (node.test, node.body, node.orelse))
    ]
    assert wrong == []


def test_names_say_what_they_hold() -> None:
    wrong = []
    for place, node in definitions():
        name = node.arg if isinstance(node, ast.arg) else None
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        if name in EMPTY_WORDS:
            wrong.append(f"{place} {name}")
    assert wrong == []


def test_longer_functions_say_what_they_return() -> None:
    """A function of more than eight lines has a docstring."""
    wrong = [
        f"{place} {node.name}"
        for place, node in definitions()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= 8
        and ast.get_docstring(node) is None
    ]
    assert wrong == []


def test_nothing_is_used_that_windows_does_not_have() -> None:
    """The package promises to run on any operating system."""
    words = [
        "os.sysconf",
        "os.fork",
        "os.geteuid",
        "sched_getaffinity",
        "import fcntl",
        "import resource",
        "SIGKILL",
    ]
    sources = {path.name: path.read_text("utf-8") for path in SOURCE.rglob("*.py")}
    assert [(name, word) for name, text in sources.items() for word in words if word in text] == []


def test_no_message_of_the_library_names_an_option_of_the_command_line() -> None:
    """In backticks it is a command that a study advises. What a server says is for its clients, and
    names the options that it was started with."""
    option = re.compile(r"(?<![\w`-])--[a-z]{3}|in Python,")
    lines = [
        f"{file.name}: {line.strip()}"
        for file in SOURCE.rglob("*.py")
        if file.relative_to(SOURCE).parts[0] not in ("cli", "serving", "errors.py")
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    assert not list(filter(option.search, lines))


def test_importing_is_cheap() -> None:
    """Without torch, and well under the 0.3 s that a command line can spend before anybody notices.

    Seconds of this process alone, whatever else the machine does.
    """
    code = (
        "import sys, time; start = time.process_time(); import fairspan; "
        "took = time.process_time() - start; "
        "heavy = {'torch', 'transformers', 'sentence_transformers'} & set(sys.modules); "
        "assert not heavy, heavy; assert took < 0.3, took"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_is_there() -> None:
    import fairspan

    assert all(getattr(fairspan, name) is not None for name in fairspan.__all__)
    assert dir(fairspan) == sorted(fairspan.__all__)
    with pytest.raises(AttributeError, match="no attribute 'calibrait'"):
        _ = fairspan.calibrait
