"""The house: who may import whom, and what importing costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "fairspan"

# Each room, and the rooms it may import from. Rooms are packages, or modules directly under fairspan.
ALLOWED = {
    "errors": set(),
    "temperature": {"errors"},
    "calibration": {"errors", "temperature"},
    "schedules": {"errors", "temperature"},
    "attention": {"errors"},
    "calibrated": {"errors", "temperature", "calibration", "attention"},
    "treatment": {"errors", "calibration"},
    "corpus": {"errors"},
    "design": {"errors", "corpus"},
    "encoding": {"errors", "temperature", "calibration", "attention", "calibrated"},
    "baselines": {"errors", "attention", "calibrated"},
    "measures": {"errors", "design", "encoding", "retrieval"},
    "retrieval": {"errors", "corpus", "design", "encoding"},
    "stats": {"errors"},
    "log": {"errors"},
    "published": {"errors"},
    "inspection": set(),
    "report": {"errors", "inspection", "collapse_spec", "log", "schedules", "stats", "published", "treatment"},
    "progress": set(),
    "spec": {"errors", "design", "treatment"},
    "evaluation": {"errors", "design", "retrieval", "temperature", "treatment"},
    "config": {"errors"},
    # The verbs, which are the only wiring.
    "fit_part": {"errors", "baselines", "corpus", "design", "encoding", "retrieval", "treatment"},
    "bases": {"errors", "baselines", "encoding", "fit_part", "treatment"},
    "running": {"errors", "fairspan", "calibrated", "encoding", "log"},
    "prepared": {"errors", "calibration", "corpus", "design", "encoding", "progress", "running", "spec", "treatment"}
    | {"bases", "fit_part"},
    "forecast": {"encoding", "prepared"},
    "auditing": {"errors", "design", "encoding", "measures", "log", "prepared", "progress", "running", "spec"}
    | {"bases", "treatment"},
    "tasks": {
        "bases",
        "errors",
        "design",
        "encoding",
        "evaluation",
        "fit_part",
        "prepared",
        "progress",
        "retrieval",
        "running",
        "treatment",
    },
    "evaluating": {"errors", "encoding", "evaluation", "log", "measures", "prepared", "progress", "retrieval"}
    | {"bases", "running", "tasks", "treatment", "evaluating_mteb"},
    "evaluating_mteb": {"errors", "calibrated", "encoding", "evaluation", "log", "measures", "progress"}
    | {"bases", "fit_part", "retrieval", "running"},
    "collapse_spec": {"errors", "temperature", "treatment"},
    "lens": {"errors", "calibrated", "corpus", "design", "encoding", "inspection"},
    "inspecting": {"errors", "bases", "calibrated", "calibration", "corpus", "encoding", "fit_part", "inspection"}
    | {"lens", "measures", "progress", "running", "spec", "treatment"},
    "collapse_prepared": {"errors", "bases", "collapse_spec", "corpus", "design", "encoding", "fit_part", "measures"}
    | {"progress", "running"},
    "collapse_results": {"collapse_spec", "design", "measures", "schedules", "stats", "treatment"},
    "collapsing": {"errors", "bases", "collapse_prepared", "collapse_results", "collapse_spec", "design", "encoding"}
    | {"log", "measures", "progress", "running", "treatment"},
    "cli": {"errors", "fairspan", "calibration", "calibrated", "corpus", "encoding", "config", "spec"}
    | {"auditing", "prepared", "forecast", "log", "report", "published", "evaluating", "evaluation", "tasks"}
    | {"collapsing", "collapse_spec", "inspecting"},
    "fairspan": {"errors", "temperature", "calibration", "calibrated", "corpus", "design", "log", "auditing"}
    | {"evaluating", "collapsing", "inspecting", "inspection"},
}


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def imports(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fairspan":
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names if alias.name.split(".")[0] == "fairspan"}
    return names


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.py")), ids=lambda file: str(file.relative_to(SOURCE)))
def test_data_flows_one_way(file: Path) -> None:
    """A room imports only from the rooms before it."""
    inside = file.relative_to(SOURCE).with_suffix("").parts
    room = "fairspan" if inside == ("__init__",) else inside[0]
    for module in imports(file):
        other = room_of(module)
        assert other == room or other in ALLOWED[room], f"{room} imports {module}"


def test_importing_is_cheap() -> None:
    """Without torch, and well under the 0.3 s that a command line can spend before anybody notices."""
    code = (
        "import sys, time; start = time.perf_counter(); import fairspan; took = time.perf_counter() - start; "
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
