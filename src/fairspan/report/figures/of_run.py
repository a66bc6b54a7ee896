"""`figures_of` a run: every figure that its log has numbers for, by name, drawn when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fairspan.errors import LogError
from fairspan.log import AuditLog

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class NamedFigure:
    """One figure of a run.

    Attributes:
        name: such as "representation-profiles"; also the name of its file.
        caption: what it shows, in one plain sentence.
        make: draws it.
    """

    name: str
    caption: str
    make: Callable[[], Figure]

    def draw(self) -> Figure:
        """The figure, drawn anew."""
        return self.make()


def figures_of(log: AuditLog) -> list[NamedFigure]:
    """The figures that a log has numbers for, in the order in which a report shows them."""
    raise LogError(f"the run {log.run} belongs to {log.header.get('verb')}, of which there are no figures.")


def write_figures(log: AuditLog, folder: Path, formats: Sequence[str] = ("svg",)) -> list[Path]:
    """Draw every figure of a run into `folder`, as NAME.svg and so on.

    Args:
        formats: of "svg", "png" and "pdf".

    Returns:
        The files, in the order of the figures.
    """
    from fairspan.report.figures.style import require_format, require_matplotlib, write_figure

    kinds = [f".{kind.removeprefix('.').lower()}" for kind in formats]
    for kind in kinds:
        require_format(kind, kind)
    require_matplotlib()
    files = []
    for named in figures_of(log):
        figure = named.draw()
        for kind in kinds:
            file = folder / f"{named.name}{kind}"
            write_figure(figure, file)
            files.append(file)
    return files
