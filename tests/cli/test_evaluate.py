"""`fairspan evaluate`, run through the command's own entry."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fairspan.studies.logs import read_log
from tests.builders.commands import Run
from tests.builders.searches import write_articles_task
from tests.builders.verbs import article
from tests.corpus.test_corpus import write_folder

TILES = "tiles-8"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Articles in two languages, and a collection of eight documents of 70 words."""
    place = tmp_path_factory.mktemp("place")
    texts = {
        language: {f"a{n}": article(10 * shift + n, 12) for n in range(6)}
        for shift, language in enumerate(("en", "it"))
    }
    write_folder(place / "articles", texts)
    write_articles_task(place / "asked", range(8))
    return place


@pytest.mark.parametrize(
    "typed", ["--corpus articles --vectors 1,2,all", "asked --max-seq-length 24"]
)
def test_what_is_forecast_and_what_is_shown(
    run: Run, save_tiny: Callable[..., Path], place: Path, tmp_path: Path, typed: str
) -> None:
    """Tokens as they are embedded then, and a line of every index."""
    words = [place / word if word in ("articles", "asked") else word for word in typed.split()]
    words += ["--treatments", f"plain,{TILES}", "--metrics", "ndcg@10,mrr"]
    asked = ["evaluate", save_tiny("bert", "mean"), *words]
    told = json.loads(run(*asked, "--dry-run", "--json").ok.out)
    done = run(*asked, "--out", "here").ok
    assert told["tokens"] == read_log(tmp_path / "here").header.timings.tokens_computed
    cut = any("8 of 8 documents were cut at 24" in note for note in told["notes"])
    assert cut == ("24" in typed)
    if cut:
        lines = [line.strip() for line in done.out.splitlines()]
        for arm in ("plain", TILES, "keywords", "plain and keywords", f"{TILES} and keywords"):
            assert any(line.startswith(arm) for line in lines), arm
        by_segments = run(*asked, "--treatments", "fair+tiles=segments")
        by_segments.is_one_line("the segments of 8 documents are not known")
