"""Lattice coordinates against float64 brute force, on boxes of every kind."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pulsemd.base.box import widths_of
from pulsemd.base.errors import DomainError, InputError
from pulsemd.domain.lattice import (
    LATTICE,
    check_cutoff,
    difference,
    lattice_transform,
    reduce_box,
    to_lattice,
    to_positions,
    unimodular_inverse,
)

IMAGES = np.array(list(itertools.product(range(-2, 3), repeat=3)))


def random_box(kind: str, rng: np.random.Generator) -> np.ndarray:
    """A box of the named kind with edges of 2 to 6 nm."""
    box = np.diag(rng.uniform(2.0, 6.0, 3))
    if kind == "triclinic":
        box[1, 0], box[2, 0], box[2, 1] = rng.uniform(-0.5, 0.5, 3) * box[[0, 0, 1], [0, 0, 1]]
    elif kind == "general":
        while True:
            box = rng.uniform(-4.0, 4.0, (3, 3))
            if abs(np.linalg.det(box)) > 0.2 * np.prod(np.linalg.norm(box, axis=1)):
                break
    elif kind == "left-handed":
        box = random_box("triclinic", rng)[[1, 0, 2]]
    elif kind == "unreduced":
        for _ in range(6):
            i, j = rng.permutation(3)[:2]
            box[i] += rng.integers(-3, 4) * box[j]
    return box


KINDS = ("orthorhombic", "triclinic", "general", "left-handed", "unreduced")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(25))
def test_difference_random_boxes_is_minimum_image(kind: str, seed: int) -> None:
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    box, _ = reduce_box(random_box(kind, rng))
    positions = rng.uniform(-1.5, 1.5, (60, 3)) @ box
    x = to_lattice(positions, box)
    i, j = np.triu_indices(60, 1)
    ours = to_positions(difference(x[i], x[j]), box)
    every = (positions[i] - positions[j])[:, None] + ((IMAGES[None] * 1.0) @ box)
    frac = np.rint((positions[i] - positions[j]) @ np.linalg.inv(box))
    every -= (frac @ box)[:, None]
    lengths = np.linalg.norm(every, axis=2)
    nearest = every[np.arange(len(i)), lengths.argmin(axis=1)]
    within = lengths.min(axis=1) <= widths_of(box).min() / 2 * (1 - 1e-8)
    assert within.sum() > 20
    np.testing.assert_allclose(ours[within], nearest[within], atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(25))
def test_reduce_box_random_boxes_is_exact_idempotent_and_widest(kind: str, seed: int) -> None:
    rng = np.random.default_rng([seed, 77, KINDS.index(kind)])
    box = random_box(kind, rng)
    reduced, matrix = reduce_box(box)
    again, identity = reduce_box(reduced)
    assert np.array_equal(again, reduced)
    assert np.array_equal(identity, np.eye(3))
    assert np.array_equal(reduced, matrix @ box)
    assert np.sign(np.linalg.det(reduced)) == np.sign(np.linalg.det(box))
    assert np.array_equal(unimodular_inverse(matrix) @ matrix, np.eye(3))
    # the widest choice: no three independent reciprocal vectors are all shorter than the longest of ours
    vectors = IMAGES[np.any(IMAGES != 0, axis=1)] @ np.linalg.inv(reduced).T
    shorter = vectors[np.linalg.norm(vectors, axis=1) < (1 - 1e-8) / widths_of(reduced).min()]
    assert len(shorter) == 0 or np.linalg.matrix_rank(shorter, tol=1e-9) < 3


@pytest.mark.parametrize("kind", KINDS)
def test_lattice_transform_there_and_back_is_the_same_point(kind: str) -> None:
    rng = np.random.default_rng(5)
    for _ in range(10):
        box = random_box(kind, rng)
        reduced, matrix = reduce_box(box)
        x = rng.integers(-(2**31), 2**31, (50, 3)).astype(np.int32)
        y = lattice_transform(x, matrix)
        assert y.dtype == np.int32
        assert np.array_equal(lattice_transform(y, unimodular_inverse(matrix)), x)
        shift = (to_positions(y, reduced) - to_positions(x, box)) @ np.linalg.inv(reduced)
        np.testing.assert_allclose(shift, np.rint(shift), atol=1e-6)


def test_reduce_box_strongly_unreduced_recovers_the_widths() -> None:
    box = np.diag([3.0, 4.0, 5.0])
    sheared = np.array([[1, 0, 0], [1000, 1, 0], [-777, 531, 1]]) @ box
    reduced, _ = reduce_box(sheared)
    np.testing.assert_allclose(np.sort(widths_of(reduced)), [3.0, 4.0, 5.0], rtol=1e-9)


def test_reduce_box_cells_of_gromacs_keep_their_known_widths() -> None:
    d = 5.0
    dodecahedron = np.array([[d, 0, 0], [0, d, 0], [d / 2, d / 2, d * np.sqrt(0.5)]])
    octahedron = np.array(
        [[d, 0, 0], [d / 3, 2 * d * np.sqrt(2) / 3, 0], [-d / 3, d * np.sqrt(2) / 3, d * np.sqrt(6) / 3]]
    )
    for box in (dodecahedron, octahedron):
        reduced, _ = reduce_box(box)
        assert widths_of(reduced).min() >= widths_of(box).min() * (1 - 1e-12)


@pytest.mark.parametrize("edge", [2.5, 3.1, 7.0, 10.0 / 3.0])
def test_to_lattice_on_faces_and_far_away_is_one_place(edge: float) -> None:
    box = np.diag([edge, edge * 1.1, edge * 0.9])
    lengths = np.diag(box)
    same = np.array(
        [
            0 * lengths,
            -0.0 * lengths,
            lengths,
            np.nextafter(lengths, 0),
            10 * lengths,
            -10 * lengths,
            50 * lengths,
        ]
    )
    assert np.all(to_lattice(same, box) == 0)
    half = to_lattice(np.array([lengths / 2, -lengths / 2, lengths * 10.5]), box)
    assert np.all(half == -(2**31))


def test_to_lattice_atom_crossing_a_face_unwrapped_equals_the_wrapped_atom() -> None:
    box = np.diag([5.0, 6.0, 7.0])
    x = to_lattice(np.array([[4.9, 1, 1], [5.1, 1, 1], [0.1, 1, 1]]), box)
    assert np.array_equal(x[1], x[2])
    assert difference(x[1:2], x[0:1])[0, 0] == pytest.approx(0.2 / 5.0 * LATTICE, abs=2)


def test_to_lattice_round_trip_within_half_a_lattice_unit() -> None:
    box = random_box("triclinic", np.random.default_rng(3))
    positions = np.random.default_rng(4).uniform(-0.49, 0.49, (100, 3)) @ box
    np.testing.assert_allclose(to_positions(to_lattice(positions, box), box), positions, atol=3e-9)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_to_lattice_not_finite_names_the_atom(bad: float) -> None:
    positions = np.zeros((5, 3))
    positions[3, 1] = bad
    with pytest.raises(InputError, match="atom 4 "):
        to_lattice(positions, np.diag([3.0, 3.0, 3.0]))


def test_difference_wider_integers_are_refused() -> None:
    with pytest.raises(TypeError, match="int64"):
        difference(np.zeros((1, 3), np.int64), np.zeros((1, 3), np.int32))


def test_difference_extremes_wraps_silently() -> None:
    top, bottom = np.array([[2**31 - 1]], np.int32), np.array([[-(2**31)]], np.int32)
    assert difference(top, bottom)[0, 0] == -1
    assert difference(top[0, 0], bottom[0, 0])[0] == -1


def test_check_cutoff_too_long_names_the_three_widths() -> None:
    with pytest.raises(DomainError, match=r"3\.0000, 4\.0000, 5\.0000 nm.*at most 1\.5000"):
        check_cutoff(1.6, np.diag([3.0, 4.0, 5.0]))
    check_cutoff(1.5, np.diag([3.0, 4.0, 5.0]))


def test_reduce_box_edge_of_1e5_nm_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"vector b is 100000 nm.*4000"):
        reduce_box(np.diag([10.0, 1e5, 10.0]))
    reduce_box(np.diag([3000.0, 3000.0, 3000.0]))


@pytest.mark.parametrize(
    "box",
    [
        np.zeros((3, 3)),
        np.diag([1.0, 0.0, 1.0]),
        np.array([[1.0, 2, 3], [2, 4, 6], [0, 0, 1]]),
        np.diag([1, np.nan, 1]),
    ],
)
def test_reduce_box_singular_is_refused(box: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"volume|finite"):
        reduce_box(box)
