"""`fairspan-embed.json`: what a folder of vectors was made from, and how far it is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fairspan.corpus.source import Source
from fairspan.embedding.options import EmbedOptions
from fairspan.embedding.shards import Record
from fairspan.errors import FairspanError
from fairspan.report.files import write_whole
from fairspan.report.text import counted
from fairspan.runs.folder import writing
from fairspan.runs.log import library_versions, now

MANIFEST = "fairspan-embed.json"
FORMAT = 3


def read_manifest(folder: Path, asked: EmbedOptions, source: Source) -> dict[str, Any] | None:
    """What a folder says of itself; None if there is none, or an empty one. The model is not loaded for this.

    Raises:
        FairspanError: if the folder holds something else, or was made with other options or from another input.
    """
    file = folder / MANIFEST
    try:
        if not file.exists():
            if folder.exists() and not folder.is_dir():
                raise FairspanError(f"{folder} cannot be written: it is not a folder.")
            strange = next((one for one in folder.glob("*") if not one.name.startswith(".")), None)
            if strange is not None:
                raise FairspanError(
                    f"{folder} is not empty and was not made by embed (it holds {strange.name}): choose another "
                    "folder."
                )
            return None
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FairspanError(
            f"{file} cannot be read ({error}): choose another folder, or remove this one."
        ) from None
    written = found.get("format") if isinstance(found, dict) else None
    if written != FORMAT or not all(
        isinstance(found.get(name), dict) for name in ("options", "input", "encoder")
    ):
        raise FairspanError(
            f"{file} has format {written!r}, and this fairspan reads format {FORMAT}."
        )
    _refuse_other(folder, found, asked, source)
    return dict(found)


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    with writing(folder):
        write_whole(
            folder / MANIFEST, lambda file: file.write_text(text, "utf-8", "backslashreplace")
        )


def new_manifest(
    model: str, asked: EmbedOptions, source: Source, encoder: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "status": "incomplete",
        "model": model,
        "encoder": dict(encoder),
        "options": asked.of_folder(),
        "input": {"name": source.name, **source.identity},
        "versions": library_versions(),
        "started": now(),
        "finished": None,
        "summary": None,
    }


def summary_of(records: Iterable[Record]) -> dict[str, Any]:
    """Rows, tokens and seconds of the whole folder, over all the calls that made it."""
    every = list(records)
    counts = ("rows", "rejected", "skipped", "truncated", "tokens")
    known = {name: sum(getattr(one, name) for one in every) for name in counts}
    return {**known, "shards": len(every), "seconds": round(sum(one.seconds for one in every), 3)}


def _refuse_other(
    folder: Path, manifest: Mapping[str, Any], asked: EmbedOptions, source: Source
) -> None:
    for name, value in asked.of_folder().items():
        was = manifest["options"].get(name)
        if was != value:
            raise FairspanError(
                f"{folder} was made with another {name}: {_shown(was)} there, and {_shown(value)} now. Repeat "
                "the command that began it, or choose another folder."
            )
    was = {name: value for name, value in manifest["input"].items() if name != "name"}
    if was != source.identity:
        raise FairspanError(
            f"{folder} was started with another input, or {source.name} was changed since ({_size(was)} then, "
            f"{_size(source.identity)} now): choose another folder, or remove this one to start over."
        )


def _size(identity: Mapping[str, Any]) -> str:
    shown = {
        name: value for name, value in identity.items() if value is not None and name != "state"
    }
    counts = {
        name: counted(value, name.removesuffix("s"))
        for name, value in shown.items()
        if type(value) is int
    }
    return ", ".join(counts.get(name, f"{name} {value}") for name, value in shown.items())


def refuse_other_model(
    folder: Path, manifest: Mapping[str, Any], encoder: Mapping[str, Any]
) -> None:
    """Raise if a folder was made by a model that gives other vectors."""
    for name, value in encoder.items():
        was = manifest["encoder"].get(name)
        if was != value:
            raise FairspanError(
                f"{folder} holds vectors of another model: its {name} is {_shown(was)} there, {_shown(value)} now. "
                "Choose another folder, or remove this one."
            )


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:80]}…"
