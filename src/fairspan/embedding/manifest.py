"""`fairspan-embed.json`: what a folder of vectors was made from, and whether it is complete."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fairspan.calibration.calibration import PRESETS, Calibration
from fairspan.calibration.treatment import as_treatment
from fairspan.corpus.source import Source
from fairspan.embedding.options import EmbedOptions
from fairspan.embedding.shards import ShardSummary, has_shards
from fairspan.errors import DesignError, FairspanError
from fairspan.report.files import write_whole
from fairspan.runs.folder import writing
from fairspan.runs.header import now
from fairspan.runs.versions import library_versions

MANIFEST = "fairspan-embed.json"
FORMAT = 4
_COUNTS = ("rows", "rejected", "skipped", "truncated", "tokens")
_REMEDY = "choose another folder, or remove this one"


def read_manifest(folder: Path, options: EmbedOptions) -> dict[str, Any] | None:
    """The manifest of a folder, if it is of these options; None if the folder is empty."""
    file = folder / MANIFEST
    try:
        if not file.exists():
            _refuse_foreign(folder)
            return None
        manifest: Any = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FairspanError(f"{file} cannot be read ({error}): {_REMEDY}.") from None
    written = manifest.get("format") if isinstance(manifest, dict) else None
    if written != FORMAT:
        wrong = f"{file} has format {written!r}, and this fairspan reads format {FORMAT}"
        raise FairspanError(f"{wrong}: {_REMEDY}.")
    for name in ("options", "encoder"):
        if not isinstance(manifest.get(name), dict):
            wrong = f"{file} is damaged: its {name} is {_shown(manifest.get(name))}"
            raise FairspanError(f"{wrong}. {_REMEDY.capitalize()}.")
    for name, value in options.of_folder().items():
        before = manifest["options"].get(name)
        if before != value:
            raise FairspanError(
                f"{folder} was made with another {name}: {_shown(before, name)} there, and "
                f"{_shown(value, name)} now. Repeat the command that began it, or choose another "
                "folder."
            )
    return {"status": "incomplete", "summary": None, **manifest}


def _refuse_foreign(folder: Path) -> None:
    """Raise if there is something other than an empty folder."""
    if folder.exists() and not folder.is_dir():
        raise FairspanError(f"{folder} cannot be written: it is not a folder.")
    others = [file.name for file in folder.glob("*") if not file.name.startswith(".")]
    if others and has_shards(folder):
        raise FairspanError(
            f"{folder} holds vectors, but its {MANIFEST}, which says what they were made from, is "
            "missing: put it back, or choose another folder."
        )
    if others:
        raise FairspanError(
            f"{folder} is not empty and was not made by embed (it holds {min(others)}): choose "
            "another folder."
        )


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest of a folder, as a whole or not at all."""
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    data = text.encode("utf-8", "backslashreplace")
    with writing(folder):
        write_whole(folder / MANIFEST, lambda file: file.write_bytes(data))


def new_manifest(
    model: str, options: EmbedOptions, source: Source, encoder: Mapping[str, Any]
) -> dict[str, Any]:
    """The manifest of a folder that is begun."""
    return {
        "format": FORMAT,
        "status": "incomplete",
        "model": model,
        "encoder": dict(encoder),
        "options": options.of_folder(),
        "input": {"name": source.name, **source.identity},
        "versions": library_versions(),
        "started": now(),
        "finished": None,
        "summary": None,
        "notes": [*source.notes],
    }


def calibrations_of(entries: Iterable[Mapping[str, Any]]) -> list[Calibration]:
    """Those that a manifest has of a model's modules; the plain one if it has none."""
    tables = [{**entry} for entry in entries]
    for table in tables:
        table.pop("untiled_length", None)
    return [Calibration.from_dict(table) for table in tables] or [PRESETS["plain"]]


def total_of(summaries: Iterable[ShardSummary]) -> dict[str, Any]:
    """Rows, tokens and seconds of the whole folder, over all the calls that made it."""
    shards = list(summaries)
    total = {name: sum(getattr(shard, name) for shard in shards) for name in _COUNTS}
    seconds = math.fsum(shard.seconds for shard in shards)  # in any order
    return {**total, "shards": len(shards), "seconds": round(seconds, 3)}


def refuse_other_model(
    folder: Path, manifest: Mapping[str, Any], encoder: Mapping[str, Any]
) -> None:
    """Raise if a folder was made by a model that gives other vectors."""
    for name, value in encoder.items():
        before = manifest["encoder"].get(name)
        if before != value:
            raise FairspanError(
                f"{folder} holds vectors of another model: its {name} is {_shown(before, name)} "
                f"there, {_shown(value, name)} now. Choose another folder, or remove this one."
            )


def _shown(value: Any, name: str = "") -> str:
    """The value of that name on a line, and a calibration by its own name."""
    if name == "calibration" and value is None:
        return "the default"
    with suppress(DesignError):
        if name == "calibrations":
            return " and ".join(as_treatment(item).name for item in calibrations_of(value))
        if isinstance(value, Mapping):
            return as_treatment(Calibration.from_dict(value)).name
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:80]}…"
