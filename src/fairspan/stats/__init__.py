"""Numbers on arrays: means, slopes, clustered errors, verdicts. No model, no file."""
