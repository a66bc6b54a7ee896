"""`Result`: the few names that whatever a study returns has, in Python and in notebooks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from fairspan.errors import FairspanError
from fairspan.report.cleaning import cleaned
from fairspan.report.drawing import can_draw, draw, figure_bytes
from fairspan.report.render import render_part
from fairspan.report.view import View

if TYPE_CHECKING:
    import altair as alt


class Result(ABC):
    """What a study found, with one way to look at it."""

    @property
    @abstractmethod
    def view(self) -> View:
        """Everything there is to show."""

    @abstractmethod
    def save_page(self, path: Path | str) -> Path:
        """Write one HTML file with verdicts, charts, tables, methods and data."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it, with one list of records for each frame."""

    @property
    def verdicts(self) -> pl.DataFrame:
        """The verdict on each treatment."""
        return self.frame("verdicts")

    def frame(self, name: str) -> pl.DataFrame:
        """Statistics as a tidy frame; an unknown name is answered with those there are."""
        return self.view.frame(name)

    def figure(self, name: str | None = None) -> alt.ConcatChart:
        """A figure by its name; without one, the picture that represents the whole result."""
        return draw(self.view.chart(name))

    def __repr__(self) -> str:
        cards = "; ".join(f"{card.name}: {card.badge}" for card in self.view.cards)
        return " ".join(f"<{self.view.heading}{f' | {cards}' if cards else ''}>".split())

    def _repr_html_(self) -> str:
        """What a notebook shows: verdicts, and the picture if it can be drawn."""
        view = cleaned(self.view)
        picture = ""
        if can_draw() and any(view.charts()):
            # What is too large to be drawn is shown without a picture.
            with suppress(FairspanError):
                picture = b64encode(figure_bytes(self.figure(), "svg")).decode()
        return render_part("notebook.html", view=view, picture=picture)
