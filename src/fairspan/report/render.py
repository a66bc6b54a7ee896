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
    styles: Sequence[str] = (),
    package: str = HERE,
    sources: Sequence[str] = (),
    **context: Any,
) -> str:
    """A whole page.

    Args:
        template, styles: files in the assets of `package`, or of the report. Every page also has
            the report's own script and style.
        sources: further scripts as text.
    """
    texts = [asset("page.js"), *sources]
    return render_part(
        template,
        package,
        **context,
        policy=_policy(texts),
        scripts=[Markup(source) for source in texts],
        style=Markup("\n".join(asset(name, package) for name in ("page.css", *styles))),
        version=version("fairspan"),
    )


def render_part(template: str, package: str = HERE, **context: Any) -> str:
    """A piece of a page."""
    return _environment(package).get_template(template).render(**context)


def _policy(sources: Sequence[str]) -> str:
    """Only a page's own scripts may run: markup that slipped into a page could not do anything."""
    hashes = " ".join(
        f"'sha256-{b64encode(sha256(source.encode()).digest()).decode()}'" for source in sources
    )
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:"


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
def asset(name: str, package: str = HERE) -> str:
    """A file of the page's own."""
    candidates = (files(place) / "assets" / name for place in (package, HERE))
    return next(file for file in candidates if file.is_file()).read_text(encoding="utf-8")


@cache
def _environment(package: str) -> Environment:
    """What finds and fills the templates of a package and of the report."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(place, "assets") for place in (package, HERE)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"as_json": as_json, "written": number, "tone": tone_of}
    return environment
