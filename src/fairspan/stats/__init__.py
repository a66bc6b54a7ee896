"""Numbers on arrays: least squares, clustered errors, bootstraps, verdicts. Knows no model and no file."""
