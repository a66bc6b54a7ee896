"""The pages of measured models are what the files of facts make."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from benchmarks import measured


def test_pages_are_what_the_facts_make() -> None:
    for page, text in measured.pages().items():
        assert page.read_text("utf-8") == text, "run `python -m benchmarks.measured --page`"


@pytest.mark.parametrize("file", sorted(measured.FACTS.glob("*.json")), ids=lambda file: file.stem)
def test_facts_name_versions_and_machine_and_no_place(file: Path) -> None:
    facts = json.loads(file.read_text("utf-8"))
    for study in (*facts["tasks"].values(), *([facts["audit"]] if "audit" in facts else ())):
        assert study["machine"]
        assert {"fairspan", "torch", "transformers"} <= study["versions"].keys()
    assert not re.search(r'[" ](/|\w:\\)', json.dumps(facts))


def test_tables_follow_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [name, *_] = measured.CURVES
    facts = json.loads((measured.FACTS / f"{name}.json").read_text("utf-8"))
    results = facts["tasks"]["qmsum"]["results"]
    results["long, whole"]["estimate"] = 0.7654
    facts["note"] = ""
    facts["tasks"] = dict.fromkeys(measured.TASKS, facts["tasks"]["qmsum"])
    (tmp_path / "model.json").write_text(json.dumps(facts), "utf-8")
    monkeypatch.setattr(measured, "FACTS", tmp_path)
    for made in (measured.search_table(), measured.gain_table(), measured.vectors_table()):
        head, _, *rows = made.splitlines()
        assert all(".765" in row for row in rows if "| plain |" not in row)
        assert {row.count("|") for row in rows} == {head.count("|")}
    text = "a\n\n<!-- x -->\n\n| old |\n\nb\n"
    assert measured.with_tables(text, {"x": "| new |\n"}) == text.replace("old", "new")
