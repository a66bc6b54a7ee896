"""Texts aligned by id across languages: segments, corpora, and their sources."""
