"""Reproducible mode: the same bits for every decomposition, order of atoms and kernel variant."""

import numpy as np
import pytest

from nonbonded_reference import (
    BOXES,
    LocalRows,
    System,
    compute,
    lj_table,
    make_system,
    relative,
    settings,
)

R_LIST = 0.9
REACH = 0.13  # nm; no atom is farther from its leader


def decompose(system: System, shape: tuple[int, int, int], seed: int) -> list[LocalRows]:
    """Rows of every rank by the definition: cells with random cuts, ghosts from the upper sides."""
    rng = np.random.default_rng(seed)
    widths = 1.0 / np.linalg.norm(np.linalg.inv(system.box), axis=0)
    leaders = system.x[system.leader].astype(np.int64) % 2**32
    inside, near = [], []
    for d, n in enumerate(shape):
        cuts = np.arange(n) * (2**32 // n) + rng.integers(-(2**27), 2**27, n) + int(rng.integers(0, 2**32))
        ends = np.append(cuts[1:], cuts[0] + 2**32)
        halo = 2**32 if n == 1 else int((R_LIST + 2 * REACH) / widths[d] * 2**32)
        assert n == 1 or (halo < 2**31 and halo <= 2**32 - (ends - cuts).max())
        u = (leaders[:, d, None] - cuts) % 2**32
        inside.append(u < ends - cuts if n > 1 else np.ones_like(u, bool))
        near.append(u < ends - cuts + halo)
    ranks = []
    for cell in np.ndindex(shape):
        bits = np.stack([inside[d][:, cell[d]] for d in range(3)], 1)
        present = np.all([near[d][:, cell[d]] for d in range(3)], 0)
        owned, ghost = np.flatnonzero(bits.all(1)), np.flatnonzero(present & ~bits.all(1))
        rows = np.concatenate((owned, ghost))
        ranks.append(LocalRows(rows, len(owned), (bits @ [1, 2, 4])[rows].astype(np.uint8)))
    return ranks


SHAPES = [(2, 1, 1), (1, 3, 1), (1, 1, 2), (2, 2, 1), (1, 2, 3), (2, 2, 2), (3, 2, 2)]


@pytest.mark.parametrize("name", ["orthorhombic", "triclinic", "left-handed"])
@pytest.mark.parametrize("shape", SHAPES)
def test_reproducible_sums_over_ranks_are_those_of_one_rank_bit_for_bit(shape, name):
    system = make_system(BOXES[name] * 1.15, 0.35, seed=11)
    table, split = lj_table("lorentz-berthelot"), tuple(n > 1 for n in shape)
    alone = compute(system, settings(), table, "reproducible", R_LIST)
    ranks = decompose(system, shape, seed=sum(shape))
    divided = compute(system, settings(), table, "reproducible", R_LIST, ranks, split)
    assert divided.pairs == alone.pairs
    assert divided.excluded == alone.excluded
    assert (divided.raw_forces == alone.raw_forces).all()
    assert (divided.raw_energies == alone.raw_energies).all()


@pytest.mark.parametrize("shape", [(2, 1, 1), (2, 2, 2)])
def test_fast_sums_over_ranks_are_those_of_one_rank_within_rounding(shape):
    system = make_system(BOXES["triclinic"] * 1.25, 0.37, seed=12)
    table, split = lj_table("table"), tuple(n > 1 for n in shape)
    alone = compute(system, settings(), table, "fast", R_LIST)
    divided = compute(system, settings(), table, "fast", R_LIST, decompose(system, shape, 3), split)
    assert (divided.pairs, divided.excluded) == (alone.pairs, alone.excluded)
    assert relative(divided.forces, alone.forces) < 1e-6
    np.testing.assert_allclose(divided.energies, alone.energies, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("combination", ["geometric", "lorentz-berthelot", "table"])
def test_reproducible_forces_do_not_depend_on_the_order_of_atoms(combination):
    system = make_system(BOXES["general"], seed=13)
    table = lj_table(combination)
    before = compute(system, settings(), table, "reproducible", R_LIST)
    order = np.random.default_rng(0).permutation(system.n)
    shuffled = [LocalRows(order, system.n, np.full(system.n, 7, np.uint8))]
    after = compute(system, settings(), table, "reproducible", R_LIST, shuffled)
    assert (after.raw_forces == before.raw_forces).all()
    assert (after.raw_energies == before.raw_energies).all()


def test_reproducible_forces_without_energies_have_the_same_bits():
    system = make_system(BOXES["orthorhombic"], seed=14)
    args = system, settings(), lj_table("geometric"), "reproducible", R_LIST
    assert (compute(*args).raw_forces == compute(*args, with_energies=False).raw_forces).all()


def test_reproducible_forces_sum_to_exactly_zero():
    system = make_system(BOXES["triclinic"], seed=15)
    result = compute(system, settings(), lj_table("table"), "reproducible", R_LIST)
    assert (result.raw_forces.sum(axis=0) == 0).all()


def test_reproducible_list_acts_on_no_pair_that_was_beyond_its_radius():
    """A pair farther than r_list at the search stays out even when it comes within the cut-off."""
    system = make_system(BOXES["orthorhombic"], seed=16)
    near = compute(system, settings(rcoulomb=0.6, rvdw=0.6), lj_table("geometric"), "reproducible", 0.6)
    wide = compute(system, settings(), lj_table("geometric"), "reproducible", 0.6)
    assert near.pairs == wide.pairs
    far = compute(system, settings(), lj_table("geometric"), "reproducible", R_LIST)
    assert not (wide.raw_forces == far.raw_forces).all()
