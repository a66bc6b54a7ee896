"""Vectors at length 1, and the mean of the vectors of a document's parts. No torch."""

import numpy as np


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors [V, d] at length 1."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-30), dtype=np.float32)


def mean_vector(vectors: np.ndarray, *, normalise: bool) -> np.ndarray:
    """[1, d], the mean of vectors [V, d]; `normalise` sets these and the mean to length 1."""
    parts = unit(vectors) if normalise else vectors
    mean = parts.mean(axis=0, keepdims=True, dtype=np.float64).astype(np.float32)
    return unit(mean) if normalise else mean
