"""`Part` and `make_page`: the views of one or several runs as one HTML file that needs nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass

from fairspan.report.downloads import Download
from fairspan.report.render import render
from fairspan.report.text import cleaned, printable
from fairspan.report.view import View

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One run on a page, or several that are drawn together.

    Attributes:
        label: what the page's menu calls it.
        facts: the few that stand under its title.
        settings: everything needed to do it again.
        spec: all settings of the run, as JSON.
    """

    label: str
    view: View
    facts: Pairs = ()
    settings: Pairs = ()
    spec: str = ""
    downloads: tuple[Download, ...] = ()


def make_page(title: str, parts: Sequence[Part]) -> str:
    """The page as text; several parts stand below each other."""
    return render(
        "report.html", scripts=("charts.js",), title=printable(title), parts=[cleaned(part) for part in parts]
    )
