"""How values are typed, and what a command then gets."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from cyclopts import CycloptsError

from fairspan.cli import app
from tests.builders.commands import Run


def parsed(line: str) -> dict[str, Any]:
    """The keywords that a command gets; nothing is run."""
    keywords = dict(app.parse_args(shlex.split(line))[1].arguments)
    return keywords | keywords.pop("typed", {})


@pytest.mark.parametrize(
    ("line", "typed"),
    [
        ("audit", {}),
        ("audit m --corpus a --corpus=b", {"model": "m", "corpus": "b"}),
        ("audit --sizes 3,4 --sizes 5", {"sizes": [5]}),
        ("audit --sets 3:167,4:42", {"sets": {3: 167, 4: 42}}),
        ("audit --sets 12", {"sets": 12}),
        ("audit --mixed 'de:en, all'", {"mixed": ["de:en", "all"]}),
        (
            "audit --treatments 'plain,paper+layers=[1,3],fair'",
            {"treatments": ["plain", "paper+layers=[1,3]", "fair"]},
        ),
        ("audit --prompt -x --fresh --fresh", {"prompt": "-x", "fresh": True}),
        ("audit --margin -1 --max_seq_length 3", {"margin": -1.0, "max_seq_length": 3}),
        ("audit --endpoint e --model m --json", {"endpoint": "e", "endpoint_model": "m"}),
        ("evaluate m t --vectors 1,all", {"model": "m", "task": "t", "vectors": ["1", "all"]}),
        ("evaluate --query-words 15 --query-prompt w", {"query_words": 15, "query_prompt": "w"}),
        ("collapse --natural --lengths 10,40", {"natural": True, "lengths": [10, 40]}),
        ("tune --guard a --guard b,c", {"guards": ["a", "b,c"]}),
        ("inspect m - --prompt=-", {"model": "m", "file": "-", "prompt": "-"}),
        ("calibrate m o --tile-size 64", {"model": "m", "out": Path("o"), "tile_size": 64}),
        ("calibrate m o --tile-size window", {"model": "m", "out": Path("o")}),
        ("report a --title ''", {"run": Path("a"), "title": ""}),
    ],
)
def test_values_are_read(line: str, typed: dict[str, Any]) -> None:
    """The last word counts, and commas in brackets belong to a value."""
    assert parsed(line).items() >= typed.items()


@pytest.mark.parametrize(
    "line",
    [
        "audit --name x",
        "audit --progress",
        "audit --attention-documents 3",
        "audit --no-fresh",
        "audit --corp x",
        "evaluate --task t",
        "evaluate passages --indexes whole",
        "collapse --verbose",
        "tune --picture x.png",
        "completion --shell zsh",
        "export m o --side both",
    ],
)
def test_what_only_python_takes_is_refused(line: str) -> None:
    with pytest.raises(CycloptsError):
        parsed(line)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("audit --sizes=", "--sizes is empty: give it a value, or omit it"),
        ("audit --sizes 3.5", "--sizes takes whole numbers such as 3,4, got '3.5'"),
        ("collapse --lengths ,", "--lengths takes whole numbers such as 3,4, got ','"),
        ("audit --sets many", "--sets takes a number, or pairs such as 3:167,4:42, got 'many'"),
        ("audit --corpus ''", "--corpus is empty: give it a value, or omit it"),
        ("audit ' '", "MODEL is empty: give it a value, or omit it"),
    ],
)
def test_a_wrong_value_is_one_line(run: Run, line: str, said: str) -> None:
    run(*shlex.split(line)).is_one_line(said)
