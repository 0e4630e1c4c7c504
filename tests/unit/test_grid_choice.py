"""Grids: exact cells, limits by name, and the choice for any number of ranks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pulsemd.base.errors import DomainError
from pulsemd.domain.grid import (
    LATTICE,
    Grid,
    balanced_grid,
    check_grid,
    choose_grid,
    halo_cost,
    lattice_halo,
    pulse_counts,
)

CUBE = np.diag([6.0, 6.0, 6.0])


def lattice(u: np.ndarray) -> np.ndarray:
    return u.astype(np.uint32).view(np.int32)


@pytest.mark.parametrize("n", range(1, 14))
def test_cell_of_equal_cells_is_the_exact_floor(n: int) -> None:
    edges = np.array([math.ceil(k * LATTICE / n) + s for k in range(n + 1) for s in (-1, 0, 1)])
    u = np.concatenate([np.clip(edges, 0, LATTICE - 1), np.random.default_rng(n).integers(0, LATTICE, 1000)])
    x = np.column_stack([lattice(u)] * 3)
    expected = [int(v) * n // LATTICE for v in u]
    assert Grid((n, n, n)).cell_of(x).T.tolist() == [expected] * 3


def test_cell_of_uneven_bounds_matches_searchsorted() -> None:
    rng = np.random.default_rng(0)
    inner = np.sort(rng.integers(1, LATTICE, 6))
    bounds = (0, *map(int, inner), LATTICE)
    u = np.concatenate([rng.integers(0, LATTICE, 2000), inner, inner - 1])
    x = np.column_stack([lattice(u), lattice(u * 0), lattice(u * 0)])
    grid = Grid((7, 1, 1), (bounds, (0, LATTICE), (0, LATTICE)))
    assert np.array_equal(grid.cell_of(x)[:, 0], np.searchsorted(bounds, u, "right") - 1)


@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 1, 7), (10, 3, 1)])
def test_rank_of_cell_round_trip_is_the_identity(shape: tuple[int, int, int]) -> None:
    grid = Grid(shape)
    assert [grid.rank_of_cell(grid.cell_of_rank(r)) for r in range(grid.size)] == list(range(grid.size))
    x = np.random.default_rng(1).integers(-(2**31), 2**31, (500, 3)).astype(np.int32)
    assert grid.rank_of(x).tolist() == [grid.rank_of_cell(tuple(map(int, c))) for c in grid.cell_of(x)]


@pytest.mark.parametrize("n", range(1, 25))
def test_choose_grid_any_rank_count_fits(n: int) -> None:
    grid = choose_grid(n, CUBE, 1.2)
    assert grid.size == n
    check_grid(grid, CUBE, 1.2)


@pytest.mark.parametrize("n", [5, 7, 11])
def test_choose_grid_prime_count_is_a_row_of_cells(n: int) -> None:
    assert sorted(choose_grid(n, np.diag([6.0, 6.0, 9.0]), 1.1).shape) == [1, 1, n]
    assert choose_grid(n, np.diag([6.0, 6.0, 9.0]), 1.1).shape[2] == n


def test_choose_grid_slab_cuts_both_long_edges() -> None:
    assert choose_grid(8, np.diag([2.0, 20.0, 20.0]), 1.1).shape == (1, 2, 4)
    assert choose_grid(8, np.diag([20.0, 20.0, 2.0]), 1.1).split_dims == (0, 1)


def test_choose_grid_long_box_is_cut_along_its_length_only() -> None:
    assert choose_grid(8, np.diag([4.0, 4.0, 60.0]), 1.1).shape == (1, 1, 8)


def test_choose_grid_large_cube_is_a_cube() -> None:
    assert choose_grid(64, np.diag([40.0, 40.0, 40.0]), 1.1).shape == (4, 4, 4)


@pytest.mark.parametrize("n", [6, 8, 12])
def test_choose_grid_is_the_cheapest_of_all(n: int) -> None:
    box = np.diag([4.0, 9.0, 13.0])
    best = halo_cost(choose_grid(n, box, 1.1), box, 1.1)
    shapes = [
        (a, b, c) for a in range(1, n + 1) for b in range(1, n + 1) for c in range(1, n + 1) if a * b * c == n
    ]
    assert all(best <= halo_cost(Grid(s), box, 1.1) for s in shapes)


def test_choose_grid_halo_over_half_of_every_width_names_limit_and_counts() -> None:
    with pytest.raises(
        DomainError, match=r"no grid of 4 ranks fits.*half.*2\.0000 nm.*up to 8 that work: 1$"
    ):
        choose_grid(4, np.diag([3.0, 3.0, 4.0]), 2.1)
    assert choose_grid(1, np.diag([3.0, 3.0, 4.0]), 2.1).size == 1


def test_choose_grid_users_grid_that_does_not_fit_names_dimension_counts_and_grids() -> None:
    box = np.diag([2.0, 8.0, 8.0])
    assert choose_grid(4, box, 1.2, (1, 4, 1)).shape == (1, 4, 1)
    with pytest.raises(
        DomainError,
        match=r"grid 2x2x1 does not fit.*along x \(1\.0000 nm\).*1, 2, 3, 4, 5, 6, 7, 8; "
        "grids of 4 ranks that fit: 1x1x4, 1x2x2, 1x4x1$",
    ):
        choose_grid(4, box, 1.2, (2, 2, 1))
    with pytest.raises(DomainError, match="has 8 cells but there are 4 ranks"):
        choose_grid(4, box, 1.2, (2, 2, 2))


def test_check_grid_uneven_cells_need_n_minus_one_of_them_to_hold_the_halo() -> None:
    whole = (0, LATTICE)
    grid = Grid((3, 1, 1), ((0, LATTICE // 100, LATTICE // 50, LATTICE), whole, whole))
    with pytest.raises(DomainError, match=r"wider than 2 consecutive cell\(s\) along x"):
        check_grid(grid, CUBE, 1.0)
    check_grid(grid, CUBE, 0.1)


def test_pulse_counts_box_scaling_goes_up_and_down() -> None:
    grid = Grid((1, 1, 5))
    counts = [pulse_counts(grid, lattice_halo(1.0, CUBE * s))[2] for s in (1.0, 0.75, 1.0)]
    assert counts == [1, 2, 1]


def test_pulse_counts_uneven_cells_is_the_most_any_rank_needs() -> None:
    cells = np.cumsum([0, 4, 1, 1, 4])
    bounds = tuple(int(c) * LATTICE // 10 for c in cells)
    grid = Grid((4, 1, 1), (bounds, (0, LATTICE), (0, LATTICE)))
    assert pulse_counts(grid, (LATTICE * 15 // 100, 1, 1)) == (2, 0, 0)


@pytest.mark.parametrize(
    "bounds", [(0, 5, 5, LATTICE), (1, 5, 6, LATTICE), (0, 5, LATTICE), (0, 9, 8, LATTICE)]
)
def test_grid_bad_bounds_are_refused(bounds: tuple[int, ...]) -> None:
    with pytest.raises(DomainError, match="bounds along x"):
        Grid((3, 1, 1), (bounds, (0, LATTICE), (0, LATTICE)))


def test_lattice_halo_rounds_up() -> None:
    assert all(h * 6.0 / LATTICE >= 1.0 for h in lattice_halo(1.0, CUBE))


def test_balanced_grid_uneven_work_moves_the_plane_to_half_of_it() -> None:
    grid = balanced_grid(Grid((2, 1, 1)), [60, 40], CUBE, 1.2)
    assert grid.bounds[0][1] == pytest.approx(LATTICE / 2 * 50 / 60)
    assert grid.bounds[1:] == Grid((2, 1, 1)).bounds[1:]


def test_balanced_grid_even_work_leaves_the_grid_alone() -> None:
    grid = balanced_grid(Grid((2, 1, 1)), [60, 40], CUBE, 1.2)
    assert balanced_grid(grid, [1000, 1003], CUBE, 1.2) is grid
    assert balanced_grid(grid, [0, 0], CUBE, 1.2) is grid


def test_balanced_grid_all_work_on_one_rank_moves_a_plane_by_a_quarter_cell_at_most() -> None:
    box = np.diag([40.0, 40.0, 40.0])
    grid = balanced_grid(Grid((4, 1, 1)), [100, 0, 0, 0], box, 1.2)
    assert np.allclose(np.array(grid.bounds[0]) / LATTICE, [0, 0.1875, 0.4375, 0.6875, 1])


def test_balanced_grid_goes_back_to_equal_cells_where_the_halo_needs_them() -> None:
    assert balanced_grid(Grid((3, 1, 1)), [50, 40, 10], CUBE, 1.9) == Grid((3, 1, 1))
    assert balanced_grid(Grid((3, 1, 1)), [50, 40, 10], CUBE, 1.2) != Grid((3, 1, 1))


def test_balanced_grid_repeated_on_a_linear_density_converges() -> None:
    grid = Grid((2, 2, 1))
    for _ in range(8):
        share = np.diff((np.array(grid.bounds[0]) / LATTICE) ** 2 + np.array(grid.bounds[0]) / LATTICE)
        grid = balanced_grid(grid, np.repeat(share, 2).tolist(), CUBE, 1.2)
    assert share.max() / share.mean() < 1.006
