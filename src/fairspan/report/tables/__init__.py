"""Tables in the papers' layout, as Markdown, LaTeX and CSV."""

from fairspan.report.tables.coefficients import LEGEND, CoefficientTable, coefficient_table, show

__all__ = ["LEGEND", "CoefficientTable", "coefficient_table", "show"]
