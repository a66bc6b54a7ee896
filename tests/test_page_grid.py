"""The page of the paper's whole grid: 104 families of documents, 1.9 million simulated rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.report import page_cost, write_grid

pytestmark = pytest.mark.slow


def test_a_whole_grid_makes_a_page_in_time_and_memory(tmp_path: Path) -> None:
    """Under 20 s of CPU (which other processes do not change, unlike the clock), 1 GiB and 5 MB."""
    run = write_grid(tmp_path / "run")
    cost = page_cost(run, tmp_path / "page.html")
    assert cost.cpu_seconds < 20
    assert cost.gibibytes < 1
    assert cost.megabytes < 5
    page = (tmp_path / "page.html").read_text("utf-8")
    # One per family, and for each of the four sizes one per language of en, de, hi and zh, which lead each other.
    assert page.count('<figure class="panel"') == 104 + 4 * 4
    assert "1,895,868 raw rows do not fit into the page" in page
