"""What src imports is declared in pyproject.toml and pinned in constraints.txt."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Distributions that are not called like the module they bring.
DISTRIBUTIONS = {
    "sklearn": "scikit-learn",
    "markdown_it": "markdown-it-py",
    "vl_convert": "vl-convert-python",
}
# Comes with the GPU builds of torch, and only they can use it (fairspan.attention.interface).
WITH_TORCH = {"triton"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions(requirements: list[str]) -> set[str]:
    return {normal(re.split(r"[\s<>=!~;\[]", one, maxsplit=1)[0]) for one in requirements}


def imported() -> dict[str, str]:
    """Third-party modules by a file that imports each, `import_module("…")` included."""
    found: dict[str, str] = {}
    for file in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [str(node.module)]
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                names = [str(one.value) for one in node.args if isinstance(one, ast.Constant)]
            for name in names:
                found.setdefault(name.partition(".")[0], file.name)
    own = {*sys.stdlib_module_names, "fairspan", *WITH_TORCH}
    return {name: file for name, file in found.items() if name not in own}


def test_every_import_is_declared_and_pinned() -> None:
    declared = distributions(PROJECT["dependencies"])
    for extra in PROJECT["optional-dependencies"].values():
        declared |= distributions(extra)
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {normal(line.partition("==")[0]) for line in lines if "==" in line}
    for name, file in imported().items():
        distribution = normal(DISTRIBUTIONS.get(name, name))
        assert distribution in declared, (
            f"{file} imports {name}: declare {distribution} in pyproject.toml"
        )
        assert distribution in pinned, (
            f"{file} imports {name}: pin {distribution} in constraints.txt"
        )


def test_every_dependency_is_imported() -> None:
    used = {normal(DISTRIBUTIONS.get(name, name)) for name in imported()}
    unused = distributions(PROJECT["dependencies"]) - used
    assert not unused, (
        f"nothing in src imports {', '.join(sorted(unused))}: remove it from pyproject.toml"
    )
