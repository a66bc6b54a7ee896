"""All figures of a run. `figures_of(log)` names them, `write_figures(log, folder)` draws them into files."""

from fairspan.report.figures.of_run import NamedFigure, figures_of, write_figures

__all__ = ["NamedFigure", "figures_of", "write_figures"]
