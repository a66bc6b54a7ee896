"""The files of the room: none imports another that leads back to it, under TYPE_CHECKING either."""

from __future__ import annotations

import ast
from pathlib import Path

ROOM = Path(__file__).parents[2] / "src" / "fairspan" / "runs"


def test_no_circle_of_files() -> None:
    """Files whose imports are all gone are taken away, until none is left."""
    left = {}
    for file in ROOM.glob("*.py"):
        nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        imports = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        inside = {name for name in imports if name.startswith("fairspan.runs.")}
        left[f"fairspan.runs.{file.stem}"] = inside
    while free := [name for name, imports in left.items() if not imports & left.keys()]:
        for name in free:
            del left[name]
    assert not left, f"a circle of {', '.join(sorted(left))}"
