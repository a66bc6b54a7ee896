"""The house: who may import whom, and what importing costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "fairspan"

# One line per floor: a room may import from its own floor's left neighbours and from every floor above this line.
FLOORS = [
    "errors",
    "calibration attention corpus stats report",
    "model design",
    "encoding exporting",
    "retrieval",
    "runs",
    "studies",
    "embedding serving",
    "cli",
]
FLOOR = {room: number for number, floor in enumerate(FLOORS) for room in floor.split()}


def room_of(parts: tuple[str, ...]) -> str:
    """A study is a room of its own."""
    return "/".join(parts[:2]) if parts[0] == "studies" and len(parts) > 2 else parts[0]


def test_no_room_imports_upwards_or_sideways() -> None:
    wrong = []
    for file in sorted(SOURCE.rglob("*.py")):
        room = room_of(file.relative_to(SOURCE).parts)
        if room == "__init__.py":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fairspan."):
                other = room_of((*str(node.module).split(".")[1:], "module"))
                if other != room and FLOOR[other.split("/")[0]] >= FLOOR[room.split("/")[0]]:
                    wrong.append(f"{file.relative_to(SOURCE)} imports {node.module}")
    assert wrong == []


def test_no_two_files_import_each_other() -> None:
    imported = {}
    for file in SOURCE.rglob("*.py"):
        name = ".".join(("fairspan", *file.relative_to(SOURCE).with_suffix("").parts))
        tree = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        imported[name] = {str(node.module) for node in tree if isinstance(node, ast.ImportFrom)}
    pairs = [
        (one, other)
        for one, found in imported.items()
        for other in found
        if one in imported.get(other, ())
    ]
    assert pairs == []


def test_nothing_is_used_that_windows_does_not_have() -> None:
    """The package says that it is independent of the operating system; these have no counterpart on Windows."""
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


def test_importing_is_cheap() -> None:
    """Without torch, and well under the 0.3 s that a command line can spend before anybody notices.

    Seconds of this process alone, whatever else the machine does.
    """
    code = (
        "import sys, time; start = time.process_time(); import fairspan; took = time.process_time() - start; "
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
