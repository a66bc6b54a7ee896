"""Audits written down in TOML, and those that come with the project."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from fairspan.encoding.endpoint import Endpoint
from fairspan.errors import DesignError

_SHIPPED = files("fairspan.studies.audit") / "configs"
_LOADING = ("window", "device", "dtype", "trust_remote_code")


@dataclass(frozen=True, slots=True)
class PlannedAudit:
    """One model with what is to be measured of it."""

    model: Endpoint | str | None
    loading: Mapping[str, Any]
    fields: Mapping[str, Any]


def shipped_configs() -> list[str]:
    """The names of the configurations that come with the project."""
    return sorted(file.name.removesuffix(".toml") for file in _SHIPPED.iterdir() if file.name.endswith(".toml"))


def read_config(source: str) -> list[PlannedAudit]:
    """The audits of a file, or of a shipped configuration by its name.

    Top-level keys hold for every audit. Each `[[run]]` table is one family of audits that changes some of them;
    without such a table the file is one family. A family has one audit for each of its models.
    """
    table = _parse(source)
    runs = table.pop("run", [{}])
    if not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs):
        raise DesignError(f"{source}: runs are written as tables, each below a line [[ run ]].")
    planned = []
    for run in runs:
        merged = {**table, **run}
        merged.pop("title", None)
        models = merged.pop("models", [None])
        if not isinstance(models, list) or not models or not all(isinstance(m, str | None) for m in models):
            raise DesignError(f"{source}: models must be a list of names, got {models!r}.")
        loading = {name: merged.pop(name) for name in _LOADING if name in merged}
        planned += [PlannedAudit(model, loading, merged) for model in models]
    return planned


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
