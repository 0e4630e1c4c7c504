"""Overlaps, empty sets and other ends of the range."""

import numpy as np
import pytest

from nonbonded_reference import System, brute_force, compute, lj_table, make_system, relative, settings
from pulsemd.base.errors import UnstableError
from pulsemd.kernels.nonbonded.exclusions import count_within

PRECISIONS = ("fast", "reproducible")
BOX = np.diag([2.0, 2.1, 2.2])


def atoms(x, types, charge) -> System:
    n = len(x)
    excluded = np.zeros((n, n), bool)
    return System(
        np.asarray(x, np.int32).reshape(n, 3),
        BOX,
        np.asarray(types, np.int32),
        np.asarray(charge, np.float64),
        np.arange(n),
        excluded,
    )


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("combination", ["geometric", "lorentz-berthelot", "table"])
def test_atoms_without_interaction_on_other_atoms_give_no_force(combination, precision):
    """A bare site on a Lennard-Jones atom, another on a charge, a neutral LJ atom on a bare charge."""
    x = np.repeat([[0, 0, 0], [2**29, 0, 0], [-(2**29), 5, 7]], 2, axis=0)
    system = atoms(x, [0, 2, 2, 2, 1, 2], [0.3, 0.0, 0.0, 0.5, 0.0, 0.2])
    result = compute(system, settings(), lj_table(combination), precision, 0.9)
    apart = atoms(x + np.array([[0, 0, 0], [0, 0, 2**8]] * 3), system.type_index, system.charge)
    expected = brute_force(apart, settings(), lj_table(combination), 0.9)
    assert np.isfinite(result.energies).all()
    assert relative(result.forces, expected.forces) < 1e-4


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    ("types", "charge"), [([0, 1], [0.0, 0.0]), ([2, 2], [0.5, 0.5]), ([2, 2], [0.5, -0.5])]
)
def test_interacting_atoms_on_one_place_are_reported(types, charge, precision):
    with pytest.raises(UnstableError):
        compute(atoms(np.zeros((2, 3)), types, charge), settings(), lj_table("geometric"), precision, 0.9)


def test_reproducible_force_beyond_the_fixed_point_range_is_reported():
    close = atoms([[0, 0, 0], [int(0.09 / 2.0 * 2**32), 0, 0]], [0, 0], [0.0, 0.0])
    with pytest.raises(UnstableError, match="atoms overlap"):
        compute(close, settings(), lj_table("geometric"), "reproducible", 0.9)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("n", [0, 1, 2])
def test_very_few_atoms_are_handled(n, precision):
    system = atoms(np.arange(3 * n).reshape(n, 3) * 2**28, [0] * n, [0.1] * n)
    result = compute(system, settings(), lj_table("geometric"), precision, 0.9)
    assert result.pairs == n * (n - 1) // 2
    assert result.forces.shape == (n, 3)


@pytest.mark.parametrize("spread", [0, 40, 2**24])
def test_all_atoms_in_one_column_are_all_found(spread):
    rng = np.random.default_rng(1)
    x = np.zeros((300, 3), np.int64)
    x[:, 1] = np.arange(300) * (2**32 // 300)
    x[:, [0, 2]] = rng.integers(-spread, spread + 1, (300, 2))
    system = atoms(x.astype(np.int32), [2] * 300, [0.0] * 300)
    result = compute(system, settings(), lj_table("geometric"), "reproducible", 0.9)
    assert result.pairs == brute_force(system, settings(), lj_table("geometric"), 0.9).pairs_within


def test_half_empty_box_finds_every_pair_once():
    system = make_system(BOX, seed=3)
    system.x[:, 2] //= 4  # vacuum above and below
    system.charge[:] = 0.0
    system.type_index[:] = 2
    result = compute(system, settings(), lj_table("geometric"), "fast", 0.9)
    reference = brute_force(system, settings(), lj_table("geometric"), 0.9)
    assert (result.pairs, result.excluded) == (reference.pairs_within, reference.excluded_within)


def test_count_within_counts_the_excluded_pairs_a_search_masks():
    system = make_system(np.array([[2.2, 0.0, 0.0], [0.9, 2.3, 0.0], [0.3, -0.4, 2.4]]), seed=4)
    pairs = np.argwhere(np.triu(system.excluded))
    result = compute(system, settings(), lj_table("geometric"), "fast", 0.85)
    assert count_within(system.x, pairs, system.box, 0.85) == result.excluded < len(pairs)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_cutoff_is_strict_at_the_exact_distance(precision):
    """Atoms exactly at the cut-off do not act, one lattice step closer they do."""
    box = np.diag([2.0, 2.0, 2.0])
    for step, acts in ((0, False), (-(2**9), True)):
        system = atoms([[0, 0, 0], [2**30 + step, 0, 0]], [2, 2], [1.0, 1.0])
        system.box = box
        options = settings(coulombtype="cut-off", rcoulomb=0.5, rvdw=0.5)
        result = compute(system, options, lj_table("geometric"), precision, 0.6)
        assert bool(result.forces.any()) is acts
