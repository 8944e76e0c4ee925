from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.sizing.least_squares import non_negative


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 8))
def test_nothing_that_is_not_negative_comes_nearer(seed: int, rows: int, columns: int) -> None:
    """Karush-Kuhn-Tucker: no unknown that is 0 would help by growing, and no other by moving at all."""
    dice = np.random.default_rng(seed)
    matrix, wanted = dice.normal(size=(rows, columns)), dice.normal(size=rows)
    matrix[:, dice.random(columns) < 0.2] = 0.0
    found = non_negative(matrix, wanted)
    assert (found >= 0).all()
    gain = matrix.T @ (wanted - matrix @ found)
    assert (gain <= 1e-8).all()
    assert np.abs(gain[found > 0]).max(initial=0.0) <= 1e-8


def test_what_is_already_positive_is_found_exactly() -> None:
    matrix = np.random.default_rng(1).random((50, 4))
    true = np.array([3.0, 0.0, 1e-6, 20.0])
    assert np.allclose(non_negative(matrix, matrix @ true), true, atol=1e-9)
