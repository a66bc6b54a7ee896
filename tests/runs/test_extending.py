"""The example of a new study in docs/extending.md."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer

from tests.project.test_docs import ROOT, run_page

PAGE = ROOT / "docs" / "extending.md"


def test_the_example_of_a_study_is_measured_found_again_and_forecast(
    make_tiny: Callable[..., SentenceTransformer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: dict[str, Any] = run_page(PAGE, make_tiny("bert", "mean"), tmp_path, monkeypatch)
    options = names["AlikeOptions"]("all-MiniLM-L6-v2", texts=("w1 w2", "w3"), progress=False)
    forecast = names["STUDY"].forecast(options)
    assert [(stage.name, stage.texts) for stage in forecast.stages] == [
        ("plain", 2),
        ("tempscale", 2),
    ]
    page_file = names["log"].save_page(tmp_path / "page.html")
    assert "How similar texts are" in page_file.read_text(encoding="utf-8")
