"""Representation and retention: cosines with each segment embedded alone (METHODS §1)."""

import numpy as np


def representation(document: np.ndarray, alone: np.ndarray) -> np.ndarray:
    """[n], σ(i, D) = cos(e(D), iso(segment i)), given [d] and [n, d]."""
    return np.asarray(_unit(np.asarray(alone, dtype=np.float64)) @ _unit(np.asarray(document, dtype=np.float64)))


def retention(contextual: np.ndarray, alone: np.ndarray) -> np.ndarray:
    """[n], τ(i, D) = cos(ctx(segment i, D), iso(segment i)), given [n, d] and [n, d]."""
    products = _unit(np.asarray(contextual, dtype=np.float64)) * _unit(np.asarray(alone, dtype=np.float64))
    return np.asarray(products.sum(axis=-1))


def _unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))
