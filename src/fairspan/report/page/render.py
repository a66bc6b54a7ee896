"""Filling the templates: everything is escaped, nothing is fetched, and no script runs but the page's own."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fairspan.errors import LogError
from fairspan.runs.log import library_versions

COMMON = ("theme.js",)


def render(template: str, *, scripts: Sequence[str] = (), **context: Any) -> str:
    """A whole page. `scripts` names the files in assets that run in it, besides what every page has."""
    sources = [asset(name) for name in (*COMMON, *scripts)]
    return (
        _environment()
        .get_template(template)
        .render(
            **context,
            policy=_policy(sources),
            scripts=[Markup(source) for source in sources],
            style=Markup(asset("page.css")),
            version=library_versions().get("fairspan", ""),
        )
    )


def require_page(file: Path) -> None:
    """Raise at once if a page could not be written into that file later on."""
    if file.suffix.lower() not in (".html", ".htm"):
        raise LogError(f"a page is an .html file, got {file.name!r}.")


def write_text(page: str, file: Path) -> Path:
    """Write a page, with a reason in one line if that fails."""
    require_page(file)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise LogError(f"{file} cannot be written: {error.strerror}.") from None
    return file


def as_json(value: Any) -> Markup:
    """JSON that is safe inside a script element: no text can end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


@cache
def asset(name: str) -> str:
    """A file of the page's own."""
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("fairspan.report.page", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["as_json"] = as_json
    return environment


def _policy(sources: Sequence[str]) -> str:
    """Only these scripts may run: markup that slipped into a page could not do anything."""
    hashes = " ".join(f"'sha256-{b64encode(sha256(source.encode()).digest()).decode()}'" for source in sources)
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:"
