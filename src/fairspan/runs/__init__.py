"""Runs: the log on disk, the runner that resumes, progress, and the model under study."""
