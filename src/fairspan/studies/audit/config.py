"""Audits written down in TOML, and those that come with the project."""

import tomllib
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from fairspan.errors import DesignError
from fairspan.studies.audit.options import AuditOptions

_SHIPPED = files("fairspan.studies.audit") / "configs"
_FIELDS = sorted({one.name for one in fields(AuditOptions)} - {"model", "progress"})


def shipped_configs() -> list[str]:
    """The names of the configurations that come with the project."""
    return sorted(file.name.removesuffix(".toml") for file in _SHIPPED.iterdir() if file.name.endswith(".toml"))


def read_config(source: str) -> list[dict[str, Any]]:
    """The keywords of each audit of a file, or of a shipped configuration by its name.

    Top-level keys hold for every audit. Each `[[run]]` table is one family of audits that changes some of them;
    without such a table the file is one family. A family has one audit for each of its models.
    """
    table = _parse(source)
    runs = table.pop("run", [{}])
    if not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs):
        raise DesignError(f"{source}: runs are written as tables, each below a line [[ run ]].")
    found = []
    for run in runs:
        merged = {**table, **run}
        merged.pop("title", None)
        models = merged.pop("models", [None])
        if not isinstance(models, list) or not models or not all(isinstance(m, str | None) for m in models):
            raise DesignError(f"{source}: models must be a list of names, got {models!r}.")
        unknown = [name for name in merged if name not in _FIELDS]
        if unknown:
            raise DesignError(
                f"{source}: an audit has no field {unknown[0]!r}. Fields: models, {', '.join(_FIELDS)}."
            )
        found += [{**merged, "model": model} for model in models]
    return found


def changed_audits(source: str, given: dict[str, Any]) -> list[dict[str, Any]]:
    """The audits of a configuration with what was given in place of what the file says, each once."""
    found: list[dict[str, Any]] = []
    for one in read_config(source):
        # Sets that were given take the place of what the file says of documents.
        own = {name: one[name] for name in one if name != "documents" or not {"sets", "sizes"} & {*given}}
        if "model" not in given or {**own, **given} not in found:
            found.append({**own, **given})
    if "out" in given and len(found) > 1:
        raise DesignError(f"out names one folder, and {source} holds {len(found)} audits: omit it.")
    return found


def _parse(source: str) -> dict[str, Any]:
    path = Path(source)
    try:
        if not path.is_file() and source in shipped_configs():
            text = (_SHIPPED / f"{source}.toml").read_text(encoding="utf-8")
        else:
            text = path.read_text(encoding="utf-8")
        return tomllib.loads(text)
    except FileNotFoundError:
        raise DesignError(
            f"there is no configuration {source!r}: give a TOML file, or one of {', '.join(shipped_configs())}."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DesignError(f"{source} cannot be read: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise DesignError(f"{source} is not TOML: {error}.") from None
