"""Numbers on arrays: least squares, clustered errors, bootstraps, verdicts. No model, no file."""
