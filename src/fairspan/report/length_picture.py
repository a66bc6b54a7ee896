"""A study of length as one picture; the drawing is in `fairspan.report.figures.length`."""

from fairspan.report.figures.length import draw_length, save_length_picture

__all__ = ["draw_length", "save_length_picture"]
