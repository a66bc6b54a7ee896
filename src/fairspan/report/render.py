"""Templates: everything is escaped, nothing is fetched, and only the page's own scripts run."""

import json
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fairspan.errors import FairspanError
from fairspan.report.table import tone_of
from fairspan.report.text import number

HERE = "fairspan.report"


def render(
    template: str,
    *,
    scripts: Sequence[str] = (),
    styles: Sequence[str] = (),
    packages: tuple[str, ...] = (),
    sources: Sequence[str] = (),
    connects: bool = False,
    **context: Any,
) -> str:
    """A whole page.

    Args:
        template, scripts, styles: files in the assets of `packages`, or of the report. Every page
            also has the report's own script and style.
        sources: further scripts as text.
        connects: whether its scripts ask the server that it came from.
    """
    texts = [*_sources(scripts, packages), *sources]
    return render_part(
        template,
        packages,
        **context,
        policy=_policy(texts, connects=connects),
        scripts=[Markup(source) for source in texts],
        style=Markup("\n".join(asset(name, packages) for name in ("page.css", *styles))),
        version=version("fairspan"),
    )


def render_part(template: str, packages: tuple[str, ...] = (), **context: Any) -> str:
    """A piece of a page, which a script puts into its place."""
    return _environment(packages).get_template(template).render(**context)


def policy(
    scripts: Sequence[str] = (), packages: tuple[str, ...] = (), *, connects: bool = False
) -> str:
    """The policy of a page with these scripts, for the head of a response."""
    return _policy(_sources(scripts, packages), connects=connects)


def _policy(sources: Sequence[str], *, connects: bool) -> str:
    """Only a page's own scripts may run: markup that slipped into a page could not do anything."""
    hashes = " ".join(
        f"'sha256-{b64encode(sha256(source.encode()).digest()).decode()}'" for source in sources
    )
    rules = f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:"
    return f"{rules}; connect-src 'self'" if connects else rules


def require_page(file: Path) -> None:
    """Raise at once if a page could not be written into that file later on."""
    if file.suffix.lower() not in (".html", ".htm"):
        raise FairspanError(f"a page is an .html file, got {file.name!r}.")


def as_json(value: Any) -> Markup:
    """JSON that is safe inside a script element: no text can end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


@cache
def asset(name: str, packages: tuple[str, ...] = ()) -> str:
    """A file of the page's own."""
    candidates = (files(package) / "assets" / name for package in (*packages, HERE))
    return next(file for file in candidates if file.is_file()).read_text(encoding="utf-8")


def _sources(scripts: Sequence[str], packages: tuple[str, ...]) -> list[str]:
    return [asset(name, packages) for name in ("page.js", *scripts)]


@cache
def _environment(packages: tuple[str, ...]) -> Environment:
    """What finds and fills the templates of these packages."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, "assets") for package in (*packages, HERE)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"as_json": as_json, "written": number, "tone": tone_of}
    return environment
