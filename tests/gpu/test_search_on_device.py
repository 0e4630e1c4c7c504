"""A search on a GPU: slots, pair counts of the CPU, capacities that grow, extreme systems."""

import numpy as np
import pytest

from pair_systems import compute_on, evaluate, make_forces, rows_on

from nonbonded_reference import (  # isort: skip
    BOXES,
    System,
    brute_force,
    lattice,
    lj_table,
    make_system,
    settings,
)
from pulsemd.base.errors import DomainError
from pulsemd.forcefield.nonbonded import build_table

pytestmark = pytest.mark.gpu


def searched(device, system, precision="fast", r_list=0.9):
    pair_forces = make_forces(device, system, settings(), lj_table("geometric"), precision)
    pair_forces.search(*rows_on(device, system.x), system.box, r_list)
    return pair_forces


def free_atoms(positions, box, charge=0.3):
    """Atoms without exclusions."""
    n = len(positions)
    return System(
        lattice(positions, box), box, np.zeros(n, np.int32), np.resize([charge, -charge], n), np.arange(n),
        np.zeros((n, n), bool),
    )  # fmt: skip


def one_type(sigma):
    """Small atoms that may be close to each other."""
    return build_table(("atom",), 3, (sigma,), (0.5,), {})


@pytest.mark.parametrize("name", BOXES)
def test_every_atom_is_in_one_slot_and_the_maps_agree(device, name):
    system = make_system(BOXES[name])
    slots = searched(device, system).slots
    gid, where, source = (device.to_host(a) for a in (slots.gid, slots.slot_of_gid, slots.source))
    filled = np.flatnonzero(gid >= 0)
    assert (np.sort(gid[filled]) == np.arange(system.n)).all()
    assert (where[gid[filled]] == filled).all()
    assert (filled < slots.n_slots).all()
    assert (source[filled] == gid[filled] + 5).all()  # `rows_on` puts five empty rows first
    assert (source[gid < 0] == -1).all()
    x = device.to_host(slots.x)
    assert (x[where, :3] == system.x).all()
    charge = x[where, 3].view(np.float32)
    np.testing.assert_allclose(charge, system.charge * np.sqrt(138.935458), rtol=1e-6)


def test_a_search_from_its_own_slots_finds_the_same(device):
    system = make_system(np.diag([5.0, 4.4, 4.7]), seed=2)
    pair_forces = searched(device, system, "reproducible")
    first, counts = evaluate(pair_forces), pair_forces.pairs.counts
    before = device.to_host(pair_forces.slots.gid)
    again = pair_forces.search(pair_forces.slots.x, pair_forces.slots.gid, system.box, 0.9)
    assert (again.pairs, again.excluded, again.superclusters) == (
        counts.pairs, counts.excluded, counts.superclusters,
    )  # fmt: skip
    slots = pair_forces.slots
    gid, source = device.to_host(slots.gid), device.to_host(slots.source)
    assert (before[source[gid >= 0]] == gid[gid >= 0]).all()
    assert (evaluate(pair_forces).raw_forces == first.raw_forces).all()


def test_slots_do_not_depend_on_the_order_of_the_rows(device):
    system = make_system(BOXES["triclinic"], seed=3)
    found = []
    for order in (None, np.random.default_rng(4).permutation(system.n).astype(np.int32)):
        pair_forces = make_forces(device, system, settings(), lj_table("geometric"), "fast")
        pair_forces.search(*rows_on(device, system.x, order), system.box, 0.9)
        found.append(device.to_host(pair_forces.slots.gid))
    assert (found[0] == found[1]).all()


def check_weak_forces(forces, expected, precision):
    """Reproducible mode rounds the three components of every pair's force to 2^-14 kJ/mol/nm, on two atoms; errors of
    forces below half of that are not without order, for which a factor of two is allowed."""
    rounding = 2.0**-14 / np.sqrt(12.0) * np.sqrt(6.0 * expected.pairs_within)
    error = np.linalg.norm(forces - expected.forces)
    assert error < 2e-6 * np.linalg.norm(expected.forces) + (precision == "reproducible") * 2.0 * rounding


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
def test_a_dense_cluster_grows_the_list(device, precision):
    rng = np.random.default_rng(5)
    box = np.diag([40.0, 40.0, 40.0])
    sites = np.stack(np.meshgrid(*[np.arange(16.0)] * 3, indexing="ij"), -1).reshape(-1, 3)
    system = free_atoms(20.0 + 0.11 * sites + rng.uniform(-0.01, 0.01, sites.shape), box, 0.0)
    options, table = settings(), one_type(0.08)
    expected = brute_force(system, options, table, 0.9)
    result = compute_on(device, system, options, table, precision, 0.9)
    assert result.counts.pairs == expected.pairs_within
    check_weak_forces(result.forces, expected, precision)


@pytest.mark.parametrize("edge", [3000.0, 4.0])
@pytest.mark.parametrize("n", [1, 2, 3, 65])
def test_few_atoms_in_any_box_are_searched(device, n, edge):
    positions = np.random.default_rng(n).uniform(-0.45, 0.45, (n, 3)) * 3.0
    system = free_atoms(positions, np.diag([edge] * 3))
    options, table = settings(), lj_table("geometric")
    expected = brute_force(system, options, table, 0.9)
    result = compute_on(device, system, options, table, "reproducible", 0.9)
    assert result.counts.pairs == expected.pairs_within
    error = np.linalg.norm(result.forces - expected.forces)
    tolerance = 1e-5 + 5e-8 * edge  # the grid of positions is coarser in a box this long
    assert error <= tolerance * np.linalg.norm(expected.forces)


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
def test_atoms_in_one_line_and_on_the_faces_of_the_box_are_searched(device, precision):
    box = np.diag([6.0, 2.2, 2.2])
    positions = np.zeros((400, 3))
    positions[:, 0] = np.linspace(-3.0, 3.0, 400, endpoint=False) + np.random.default_rng(7).uniform(
        0, 0.004, 400
    )
    positions[::2, 1:] = -1.1  # exactly on two faces
    system = free_atoms(positions, box, 0.0)
    options, table = settings(rcoulomb=0.95, rvdw=0.95), one_type(0.016)
    expected = brute_force(system, options, table, 1.0)
    result = compute_on(device, system, options, table, precision, 1.0)
    assert result.counts.pairs == expected.pairs_within
    check_weak_forces(result.forces, expected, precision)


def test_a_list_cutoff_above_half_the_box_is_refused_with_the_widths(device):
    with pytest.raises(DomainError, match=r"half the smallest width of the box \(2\.4, 2\.9, 2\.6 nm\)"):
        searched(device, make_system(BOXES["orthorhombic"]), r_list=1.3)


def test_an_exclusion_of_every_pair_leaves_none(device):
    system = free_atoms(np.random.default_rng(6).uniform(0.0, 2.0, (200, 3)), np.diag([2.4] * 3))
    system.excluded[:] = ~np.eye(200, dtype=bool)
    result = compute_on(device, system, settings(), lj_table("geometric"), "fast", 0.9)
    assert (result.counts.pairs, result.counts.groups) == (0, 0)
    assert not result.forces.any()
    assert result.counts.excluded > 0
