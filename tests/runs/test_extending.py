"""The example of a new study in docs/extending.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer

from tests.test_docs import prints, without_prints

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


def test_the_example_of_a_study_is_measured_found_again_and_forecast(
    make_tiny: Callable[..., SentenceTransformer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its blocks are one program, as on the page."""
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    section = page[page.index("## A study") : page.index("## A design")]
    blocks = "\n".join(re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL))
    names: dict[str, Any] = {"model": make_tiny("bert", "mean"), "prints": prints}
    exec(compile(without_prints(blocks), str(PAGE), "exec"), names)
    options = names["AlikeOptions"](names["model"], texts=("w1 w2", "w3"), progress=False)
    forecast = names["STUDY"].forecast(options)
    assert [(stage.name, stage.texts) for stage in forecast.stages] == [
        ("plain", 2),
        ("tempscale", 2),
    ]
    page_file = names["log"].save_page(tmp_path / "page.html")
    assert "How alike texts are" in page_file.read_text(encoding="utf-8")
