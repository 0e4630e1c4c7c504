"""Groups of atoms that are constrained together."""

import numpy as np
import pytest

from pulsemd.topology.groups import rigid_triangles

PAIRS = np.array([[2, 0], [0, 1], [2, 1]])
LENGTHS = np.array([0.1, 0.1, 0.16])
MASS = np.array([16.0, 1.0, 1.0, 12.0])


def test_three_constraints_that_close_a_triangle_make_a_rigid_water():
    atoms, lengths = rigid_triangles(MASS, PAIRS, LENGTHS)
    assert atoms.tolist() == [[0, 1, 2]]
    assert lengths.tolist() == [[0.1, 0.16]]


@pytest.mark.parametrize(
    ("mass", "pairs", "lengths"),
    [
        (MASS, PAIRS[:2], LENGTHS[:2]),  # open
        (MASS, np.vstack([PAIRS, [[1, 3]]]), np.append(LENGTHS, 0.1)),  # a fourth atom hangs on it
        (MASS * [1, 1, 2, 1], PAIRS, LENGTHS),  # masses differ
        (MASS, PAIRS, np.array([0.1, 0.11, 0.16])),  # all sides differ
        (MASS, PAIRS, np.array([0.1, 0.1, 0.2])),  # in a line
    ],
)
def test_other_constraints_make_no_rigid_water(mass, pairs, lengths):
    assert len(rigid_triangles(mass, pairs, lengths)[0]) == 0
