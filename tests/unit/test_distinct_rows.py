import numpy as np
import pytest

from pulsemd.base.distinct import distinct_rows


@pytest.mark.parametrize("n", [0, 1, 500])
def test_distinct_rows_are_those_of_numpy(n):
    table = np.random.default_rng(1).integers(0, 4, (n, 3)).astype(float)
    rows, kind = distinct_rows(list(table.T))
    expected, inverse = np.unique(table, axis=0, return_inverse=True)
    assert (rows == expected).all()
    assert rows.shape == expected.shape
    assert (kind == inverse.ravel()).all()
