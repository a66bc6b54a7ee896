"""Quality by position as one picture; the drawing is in `fairspan.report.figures.search`."""

from fairspan.report.figures.search import draw_search, save_search_picture

__all__ = ["draw_search", "save_search_picture"]
