"""Texts aligned by id across languages: segments, the corpora they make, and where corpora are read from."""
