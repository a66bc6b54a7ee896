"""docs/schema.json describes what `--json` prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairspan.runs.log import FORMAT
from fairspan.studies.logs import read_log
from tests.output_schema import FILE, write
from tests.test_logs import audited, searched

SCHEMA = json.loads(FILE.read_text(encoding="utf-8"))
KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """As much of JSON Schema as the file uses."""
    if "const" in schema:
        return bool(value == schema["const"])
    kinds = schema.get("type", list(KINDS))
    if not isinstance(
        value, tuple(kind for name in ([kinds] if isinstance(kinds, str) else kinds) for kind in KINDS[name])
    ):
        return False
    if isinstance(value, list):
        return all(fits(one, schema.get("items", {})) for one in value)
    if isinstance(value, dict):
        known = schema.get("properties", {})
        return set(schema.get("required", ())) <= set(value) and all(
            fits(value[name], known[name]) for name in value if name in known
        )
    return True


@pytest.mark.slow
def test_the_file_is_what_small_runs_of_every_verb_print() -> None:
    """A change of it is a change of the format: an addition, or a reason for a new number."""
    assert FILE.read_text(encoding="utf-8") == write()


def test_the_file_has_the_number_of_the_format() -> None:
    assert {one["properties"]["format"]["const"] for one in SCHEMA["$defs"].values()} == {FORMAT}


def test_other_runs_fit(tmp_path: Path) -> None:
    for log in (audited(tmp_path / "a"), searched(tmp_path / "e")):
        told = json.loads(json.dumps(read_log(log.folder).to_dict(), allow_nan=False))
        described = SCHEMA["$defs"][log.verb]
        assert fits(told, described)
        for broken in ({**told, "verb": "other"}, {**told, "verdicts": [{}]}, {**told, "means": 3, "quality": 3}):
            assert not fits(broken, described)
