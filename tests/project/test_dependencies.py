"""What src imports is declared in pyproject.toml and pinned in constraints.txt."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache

from tests.project.test_house import ROOT, SOURCE, nodes

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Distributions that are not called like the module they bring.
DISTRIBUTIONS = {
    "sklearn": "scikit-learn",
    "markdown_it": "markdown-it-py",
    "vl_convert": "vl-convert-python",
}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions(requirements: list[str]) -> set[str]:
    return {normal(re.split(r"[\s<>=!~;\[]", one, maxsplit=1)[0]) for one in requirements}


@cache
def imported() -> dict[str, str]:
    """Distributions by a file that imports each, `import_module("…")` included."""
    files: dict[str, str] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        for node in nodes(file):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [str(node.module)]
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                names = [str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)]
            for name in {name.partition(".")[0] for name in names} - IGNORED:
                files.setdefault(normal(DISTRIBUTIONS.get(name, name)), file.name)
    return files


# triton comes with the GPU builds of torch, and only they can use it.
IGNORED = {*sys.stdlib_module_names, "fairspan", "triton"}


def test_every_import_is_declared_and_pinned() -> None:
    declared = distributions(PROJECT["dependencies"])
    for extra in PROJECT["optional-dependencies"].values():
        declared |= distributions(extra)
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {normal(line.partition("==")[0]) for line in lines if "==" in line}
    for place, names in (("pyproject.toml", declared), ("constraints.txt", pinned)):
        missing = {name: file for name, file in imported().items() if name not in names}
        assert not missing, f"not in {place}"


def test_every_dependency_is_imported() -> None:
    assert distributions(PROJECT["dependencies"]) <= imported().keys(), "remove from pyproject.toml"
