"""The ownership rule by itself: lowest leader, integer wraparound, ties, absent atoms."""

from __future__ import annotations

import numpy as np
import pytest
from ownership_rule import owner_of_terms, pair_is_mine

from pulsemd.domain.grid import LATTICE, Grid
from pulsemd.domain.ownership import assign_terms, home_bits, lattice_delta
from pulsemd.domain.plan import max_group_reach


def lattice(fractions: list[list[float]]) -> np.ndarray:
    return (np.array(fractions) * LATTICE).astype(np.int64).astype(np.int32)


def ranks_that_own(leaders: np.ndarray, grid: Grid) -> list[int]:
    """Ranks whose home bits claim the pair of two leaders."""
    split = np.array(grid.split_dims, np.int64)
    owners = []
    for rank in range(grid.size):
        home = home_bits(leaders, grid, rank)
        if pair_is_mine(leaders[0], leaders[1], home[0], home[1], split):
            owners.append(rank)
    return owners


def test_lattice_delta_across_the_boundary_is_short() -> None:
    assert lattice_delta(np.int32(2**31 - 1), np.int32(-(2**31))) == 1
    assert lattice_delta(np.int32(-(2**31)), np.int32(2**31 - 1)) == -1


@pytest.mark.parametrize(
    ("a", "b", "owner"),
    [(0.4, 0.6, 0), (0.6, 0.4, 0), (0.9, 0.1, 1), (0.1, 0.9, 1), (0.1, 0.4, 0), (0.6, 0.9, 1)],
)
def test_pair_in_two_periodic_cells_belongs_to_the_lower_one(a: float, b: float, owner: int) -> None:
    assert ranks_that_own(lattice([[a, 0.2, 0.2], [b, 0.2, 0.2]]), Grid((2, 1, 1))) == [owner]


def test_pair_lower_in_different_dimensions_belongs_to_a_rank_with_neither_atom() -> None:
    leaders, grid = lattice([[0.45, 0.55, 0.2], [0.55, 0.45, 0.2]]), Grid((2, 2, 1))
    owner = grid.rank_of_cell((0, 0, 0))
    assert owner not in grid.rank_of(leaders)
    assert ranks_that_own(leaders, grid) == [owner]


def test_pair_tied_in_a_dimension_has_one_owner() -> None:
    leaders = lattice([[0.5, 0.25, 0.5], [0.5, 0.75, 0.5]])
    leaders[1, 1] = leaders[0, 1]
    assert ranks_that_own(leaders, Grid((2, 4, 2))) == [Grid((2, 4, 2)).rank_of(leaders)[0]]


@pytest.mark.parametrize("shape", [(2, 1, 1), (7, 2, 3), (1, 5, 5), (1, 1, 1)])
def test_pair_of_random_leaders_agrees_in_all_forms(shape: tuple[int, int, int]) -> None:
    rng, grid = np.random.default_rng(2), Grid(shape)
    for _ in range(100):
        leaders = rng.integers(-(2**31), 2**31, (2, 3)).astype(np.int32)
        owner = owner_of_terms(leaders[None], grid)[0]
        assert ranks_that_own(leaders, grid) == [owner] == ranks_that_own(leaders[::-1], grid)


def test_term_order_of_atoms_does_not_change_the_owner() -> None:
    rng, grid = np.random.default_rng(3), Grid((3, 2, 5))
    base = rng.integers(-(2**31), 2**31, (50, 1, 3))
    leaders = (base + rng.integers(0, LATTICE // 4, (50, 5, 3))).astype(np.int32)
    owners = owner_of_terms(leaders, grid)
    for _ in range(5):
        shuffled = np.ascontiguousarray(leaders[:, rng.permutation(5)])
        assert np.array_equal(owner_of_terms(shuffled, grid), owners)


def test_assign_terms_absent_atom_leaves_the_term_to_others() -> None:
    leader_x = lattice([[0.1, 0.1, 0.1], [0.2, 0.1, 0.1]])
    local_row = np.array([0, -1, 1], np.int32)
    home = home_bits(leader_x, Grid((2, 1, 1)), 0)
    mine, rows = assign_terms(np.array([[0, 1], [2, 0]], np.int32), local_row, leader_x, home, (0,))
    assert mine.tolist() == [1]
    assert rows.tolist() == [[1, 0]]


def test_assign_terms_no_terms_gives_empty_arrays() -> None:
    empty = np.empty((0, 3), np.int32)
    mine, rows = assign_terms(empty, np.empty(0, np.int32), empty, np.empty(0, np.uint8), (0, 1))
    assert (mine.shape, rows.shape) == ((0,), (0, 3))


def test_home_bits_in_an_unsplit_dimension_are_always_set() -> None:
    x = np.random.default_rng(1).integers(-(2**31), 2**31, (200, 3)).astype(np.int32)
    grid = Grid((1, 3, 1))
    for rank in range(3):
        home = home_bits(x, grid, rank)
        assert ((home & 0b101) == 0b101).all()
        assert np.array_equal((home >> 1) & 1, grid.cell_of(x)[:, 1] == rank)


def test_max_group_reach_is_measured_to_the_leader_across_a_face() -> None:
    x = lattice([[0.99, 0.5, 0.5], [0.01, 0.5, 0.5], [0.98, 0.5, 0.5], [0.2, 0.2, 0.2]])
    assert max_group_reach(x, np.array([0, 3, 4]), np.diag([5.0, 5.0, 5.0])) == pytest.approx(0.1)
    assert max_group_reach(x[:0], np.array([0]), np.eye(3)) == 0.0
