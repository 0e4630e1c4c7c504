"""Forces without their components along constraints, against a dense projection."""

from __future__ import annotations

import numpy as np

from pulsemd.kernels.constraints.project import project_forces, project_triangles

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


def test_triangles_are_projected_as_by_iteration():
    rng = np.random.default_rng(4)
    x = rng.integers(-(2**28), 2**28, (6, 3)).astype(np.int32)
    forces = rng.normal(0.0, 1000.0, (6, 3))
    expected, found = forces.copy(), forces.copy()
    pairs = np.array([[3, 1], [3, 5], [1, 5]], np.int32)
    for _ in range(20):  # each call ends at a relative tolerance
        project_forces(x, expected, np.array([0, 3]), pairs, BOX)
    project_triangles(x, found, np.array([[3, 1, 5]], np.int32), BOX)
    np.testing.assert_allclose(found, expected, atol=1e-3)
    np.testing.assert_array_equal(found[[0, 2, 4]], forces[[0, 2, 4]])
