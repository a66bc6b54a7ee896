"""Comparable corpora from Wikipedia's dumps."""
