"""Least squares without negative answers (C. Lawson, R. Hanson: Solving Least Squares Problems, 1974, chapter 23)."""

from __future__ import annotations

import numpy as np

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Vector = np.ndarray[tuple[int], np.dtype[np.float64]]

_TINY = 1e-12


def non_negative(matrix: Matrix, wanted: Vector) -> Vector:
    """The x ≥ 0 that brings ``matrix`` · x nearest to ``wanted``. A column of zeros gets 0."""
    scale = np.linalg.norm(matrix, axis=0)
    scale[scale == 0] = 1.0
    scaled = matrix / scale
    count = scaled.shape[1]
    free, found = np.zeros(count, dtype=bool), np.zeros(count)
    for _ in range(3 * count):
        gain = scaled.T @ (wanted - scaled @ found)
        gain[free] = 0.0
        best = int(np.argmax(gain))
        if gain[best] <= _TINY * len(wanted):
            break
        free[best] = True
        found = _within(scaled, wanted, free, found)
    found /= scale
    return found


def _within(scaled: Matrix, wanted: Vector, free: np.ndarray[tuple[int], np.dtype[np.bool_]], found: Vector) -> Vector:
    """The best that the free unknowns can do while none is negative; those that would be are free no more."""
    while True:
        tried = np.zeros_like(found)
        tried[free] = np.linalg.lstsq(scaled[:, free], wanted, rcond=None)[0]
        stuck = free & (tried <= 0)
        if not stuck.any():
            return tried
        way = float(np.min(found[stuck] / (found[stuck] - tried[stuck])))
        found = found + way * (tried - found)
        free &= found > _TINY
        found[~free] = 0.0
