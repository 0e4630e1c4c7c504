"""Vectors without their components along constraints, against a dense projection."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.kernels.constraints.project import project_pairs, project_triangles

BOX = np.diag([2.0, 2.0, 2.0])
PAIRS = np.array([[0, 1], [0, 2], [1, 2], [3, 4], [3, 5], [3, 6]], np.int32)
"""A triangle, and a star of three."""
OFFSET = np.array([0, 3, 6])
EQUAL, DIFFERENT = np.ones(8), 1.0 / np.array([16.0, 1.0, 1.0, 12.0, 1.0, 1.0, 2.0, 5.0])


def dense_projection(r, vectors, inverse_mass):
    """Vectors orthogonal to the gradients of all constraints, and the virial of what was taken out, by linear
    algebra."""
    gradients = np.zeros((len(PAIRS), *r.shape))
    for row, (i, j) in zip(gradients, PAIRS, strict=True):
        row[i], row[j] = r[i] - r[j], r[j] - r[i]
    flat, inverse = gradients.reshape(len(PAIRS), -1), np.repeat(inverse_mass, 3)
    along, *_ = np.linalg.lstsq(flat * inverse @ flat.T, flat @ vectors.ravel(), rcond=None)
    taken = (along @ flat).reshape(vectors.shape)
    return vectors - inverse_mass[:, None] * taken, -r.T @ taken


@pytest.mark.parametrize("inverse_mass", [EQUAL, DIFFERENT], ids=["equal", "different"])
def test_projected_vectors_equal_those_of_a_dense_projection(inverse_mass):
    rng = np.random.default_rng(3)
    x = rng.integers(-(2**28), 2**28, (8, 3)).astype(np.int32)
    vectors = rng.normal(0.0, 1000.0, (8, 3))
    expected, virial = dense_projection(x * 2.0**-32 @ BOX, vectors, inverse_mass)
    found, of_forces = vectors.copy(), np.zeros(9)
    project_pairs(x, found, inverse_mass, OFFSET, PAIRS, BOX, 1e-9, 0.5, of_forces, 0.0)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    np.testing.assert_array_equal(found[7], vectors[7])
    np.testing.assert_allclose(
        (found / inverse_mass[:, None]).sum(0), (vectors / inverse_mass[:, None]).sum(0)
    )
    np.testing.assert_allclose(0.5 * of_forces.reshape(3, 3), virial, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("inverse_mass", [EQUAL, DIFFERENT], ids=["equal", "different"])
def test_triangles_are_projected_as_by_iteration(inverse_mass):
    rng = np.random.default_rng(4)
    x = rng.integers(-(2**28), 2**28, (6, 3)).astype(np.int32)
    vectors = rng.normal(0.0, 1000.0, (6, 3))
    expected, found, virials = vectors.copy(), vectors.copy(), np.zeros((2, 9))
    pairs = np.array([[3, 1], [3, 5], [1, 5]], np.int32)
    project_pairs(x, expected, inverse_mass, np.array([0, 3]), pairs, BOX, 1e-10, 0.5, virials[0], 0.0)
    triangles = np.array([[3, 1, 5]], np.int32)
    project_triangles(x, found, inverse_mass, triangles, BOX, 0.5, virials[1], 0.0)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    np.testing.assert_allclose(virials[0], virials[1], rtol=1e-6, atol=1e-4)
    np.testing.assert_array_equal(found[[0, 2, 4]], vectors[[0, 2, 4]])
