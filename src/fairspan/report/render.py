"""Filling templates: everything is escaped, nothing is fetched, and no script runs but the page's own."""

import json
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fairspan.errors import LogError
from fairspan.report.text import number

HERE = "fairspan.report"


def render(
    template: str, *, scripts: Sequence[str] = (), styles: Sequence[str] = (), package: str = HERE, **context: Any
) -> str:
    """A whole page.

    Args:
        template, scripts, styles: names of files in the assets of `package`; every page also has the report's own.
    """
    sources = [asset("theme.js"), *(asset(name, package) for name in scripts)]
    return (
        _environment(package)
        .get_template(template)
        .render(
            **context,
            policy=_policy(sources),
            scripts=[Markup(source) for source in sources],
            style=Markup("\n".join([asset("page.css"), *(asset(name, package) for name in styles)])),
            version=_version(),
        )
    )


def require_page(file: Path) -> None:
    """Raise at once if a page could not be written into that file later on."""
    if file.suffix.lower() not in (".html", ".htm"):
        raise LogError(f"a page is an .html file, got {file.name!r}.")


def as_json(value: Any) -> Markup:
    """JSON that is safe inside a script element: no text can end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


@cache
def asset(name: str, package: str = HERE) -> str:
    """A file of the page's own."""
    return (files(package) / "assets" / name).read_text(encoding="utf-8")


@cache
def _environment(package: str) -> Environment:
    own = PackageLoader(HERE, "assets")
    environment = Environment(
        loader=own if package == HERE else ChoiceLoader([PackageLoader(package, "assets"), own]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"as_json": as_json, "written": number}
    return environment


def _policy(sources: Sequence[str]) -> str:
    """Only these scripts may run: markup that slipped into a page could not do anything."""
    hashes = " ".join(f"'sha256-{b64encode(sha256(source.encode()).digest()).decode()}'" for source in sources)
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:"


def _version() -> str:
    try:
        return version("fairspan")
    except PackageNotFoundError:
        return ""
