"""The position profiles of an audit as one picture; the drawing is in `fairspan.report.figures`."""

from fairspan.report.figures.profiles import draw_profiles, save_picture
from fairspan.report.figures.style import (
    COLOURS,
    FORMATS,
    HATCHES,
    add_legend,
    require_drawing,
    short_name,
    write_figure,
)

__all__ = [
    "COLOURS",
    "FORMATS",
    "HATCHES",
    "add_legend",
    "draw_profiles",
    "require_drawing",
    "save_picture",
    "short_name",
    "write_figure",
]
