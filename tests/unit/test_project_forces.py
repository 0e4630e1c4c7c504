"""Forces without their components along constraints, against a dense projection."""

from __future__ import annotations

import numpy as np

from pulsemd.kernels.constraints.project import project_forces

BOX = np.diag([2.0, 2.0, 2.0])
PAIRS = np.array([[0, 1], [0, 2], [1, 2], [3, 4], [3, 5], [3, 6]], np.int32)
"""A triangle, and a star of three."""
OFFSET = np.array([0, 3, 6])


def dense_projection(r, forces):
    """Forces orthogonal to the gradients of all constraints, by linear algebra."""
    gradients = np.zeros((len(PAIRS), *r.shape))
    for row, (i, j) in zip(gradients, PAIRS, strict=True):
        row[i], row[j] = r[i] - r[j], r[j] - r[i]
    flat = gradients.reshape(len(PAIRS), -1)
    along, *_ = np.linalg.lstsq(flat @ flat.T, flat @ forces.ravel(), rcond=None)
    return forces - (along @ flat).reshape(forces.shape)


def test_projected_forces_equal_those_of_a_dense_projection():
    rng = np.random.default_rng(3)
    x = rng.integers(-(2**28), 2**28, (8, 3)).astype(np.int32)
    forces = rng.normal(0.0, 1000.0, (8, 3))
    expected = dense_projection(x * 2.0**-32 @ BOX, forces)
    found = forces.copy()
    project_forces(x, found, OFFSET, PAIRS, BOX)
    np.testing.assert_allclose(found, expected, atol=0.01)
    np.testing.assert_array_equal(found[7], forces[7])
    np.testing.assert_allclose(found.sum(0), forces.sum(0), atol=1e-9)
