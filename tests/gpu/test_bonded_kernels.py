"""Bonded terms and exclusion corrections on a device against the kernels of the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from layout import put_forces, shuffled_slots
from pulsemd.engine.energies import N_SUMS, SLOTS, VIRIAL
from pulsemd.engine.local import exclusion_pairs
from pulsemd.kernels.bonded.gpu import GpuBonded
from pulsemd.kernels.bonded.launch import BondedForces
from pulsemd.kernels.nonbonded.exclusions import exclusion_forces
from pulsemd.kernels.nonbonded.exclusions_gpu import GpuExclusions, excludes_itself_only
from pulsemd.kernels.nonbonded.settings import pair_constants
from pulsemd.topology.restraints import ReferencePositions
from pulsemd.topology.terms import REFERENCED, Terms
from systems import bundled_system

pytestmark = pytest.mark.gpu
BOX = np.array([[1.2, 0, 0], [0.3, 1.1, 0], [-0.2, 0.4, 1.0]])
FACTOR = 138.935458
PARAMETERS = {
    "bond": (2, [[0.15, 2e5], [0.12, 3e5]]),
    "angle": (3, [[109.5, 520.0]]),
    "urey_bradley": (3, [[109.5, 520.0, 0.25, 9000.0]]),
    "proper": (4, [[30.0, 5.0, 3.0], [0.0, 2.0, 1.0]]),
    "periodic_improper": (4, [[180.0, 3.0, 2.0]]),
    "improper": (4, [[170.0, 40.0]]),
    "ryckaert_bellemans": (4, [[9.28, 12.16, -13.12, -3.06, 26.24, -31.5]]),
    "lj14": (2, [[1e-4, 1e-8, 0.5]]),
    "position_restraint": (1, [[1000.0, 500.0, 200.0]]),
    "quartic_bond": (2, [[0.15, 2e6]]),
    "morse_bond": (2, [[0.15, 400.0, 20.0], [0.12, 300.0, 15.0]]),
    "cubic_bond": (2, [[0.15, 2e4, -2.0]]),
    "fene_bond": (2, [[0.4, 3000.0]]),
    "harmonic_distance": (2, [[0.2, 3000.0]]),
    "restraint_bond": (2, [[0.12, 0.14, 0.17, 2e4]]),
    "cosine_angle": (3, [[109.5, 520.0]]),
    "bond_bond_cross": (3, [[0.12, 0.13, 9000.0]]),
    "bond_angle_cross": (3, [[0.12, 0.13, 0.2, 9000.0]]),
    "quartic_angle": (3, [[110.0, 1.0, 20.0, 300.0, -40.0, 50.0]]),
    "linear_angle": (3, [[0.4, 9000.0]]),
    "restricted_angle": (3, [[100.0, 0.5]]),
    "fourier": (4, [[1.0, -0.5, 0.3, 4.0]]),
    "restricted_dihedral": (4, [[60.0, 0.005]]),
    "bending_torsion": (4, [[2.0, 1.0, -3.0, 2.0, 4.0, 1.5]]),
    "charged_pair14": (2, [[1e-4, 1e-8, 0.05]]),
    "pair_nb": (2, [[1e-4, 1e-8, -0.05]]),
    "flat_bottom": (1, [[1.0, 1.0, 0.0, 0.01, 1000.0], [1.0, 1.0, 1.0, -0.02, 2000.0]]),
    "distance_restraint": (2, [[0.12, 0.14, 0.17, 2e4]]),
    "angle_restraint": (4, [[30.0, 20.0, 1.0], [100.0, 10.0, 3.0]]),
    "angle_restraint_z": (2, [[40.0, 20.0, 2.0]]),
    "dihedral_restraint": (4, [[170.0, 30.0, 40.0]]),
}


def chains(n_chains=300, seed=0):
    """Random chains of five atoms across the periodic faces, bonds of 0.1 to 0.2 nm."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(n_chains, 5, 3))
    steps *= rng.uniform(0.1, 0.2, (n_chains, 5, 1)) / np.linalg.norm(steps, axis=2, keepdims=True)
    r = (rng.uniform(0, 1, (n_chains, 1, 3)) @ BOX + np.cumsum(steps, axis=1)).reshape(-1, 3)
    return np.rint(r @ np.linalg.inv(BOX) * 2**32).astype(np.int64).astype(np.uint32).view(np.int32)


def terms_of(names, n_atoms):
    rng, rows = np.random.default_rng(1), np.arange(n_atoms, dtype=np.int32).reshape(-1, 5)
    terms = {}
    for name in names:
        if name == "cmap":
            n, parameters = 5, rng.normal(size=(2, 24 * 24)) * 4
        else:
            n, parameters = PARAMETERS[name]
        index = rng.integers(0, len(parameters), len(rows)).astype(np.int32)
        terms[name] = Terms(np.ascontiguousarray(rows[:, :n]), index, np.array(parameters, float))
    return terms


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("names", [[name] for name in (*PARAMETERS, "cmap")] + [[*PARAMETERS, "cmap"]])
def test_bonded_terms_on_device_equal_cpu(device, names, fixed):
    x = chains()
    n, dtype = len(x), np.int64 if fixed else np.float64
    terms, rng = terms_of(names, n), np.random.default_rng(2)
    charge = rng.normal(size=n)
    near = (x.astype(np.int64) + rng.integers(-(10**8), 10**8, x.shape)).astype(np.uint32).view(np.int32)
    reference = ReferencePositions(near, rng.uniform(-0.02, 0.02, (n, 2, 3)))
    cpu = BondedForces(terms, charge, FACTOR, SLOTS, VIRIAL, 2.0**32 if fixed else 0.0, reference)
    for name in names:
        cpu.bind(name, np.arange(len(terms[name])), terms[name].atoms)
    f, sums = np.zeros((n, 3), dtype), np.zeros(N_SUMS, dtype)
    cpu.add(x, BOX, f, sums)
    assert cpu.bad_row() < 0

    slots, where = shuffled_slots(device, x)
    forces = put_forces(device, slots, where, np.zeros((n, 3), np.int64 if fixed else np.float32))
    device_sums = device.zeros(N_SUMS, dtype)
    gpu = GpuBonded(device, terms, charge, FACTOR, SLOTS, VIRIAL, reference, BOX, fixed)
    gpu.settle_in(slots, forces, device_sums)
    gpu.add_forces(energies=True)
    mine, mine_sums = device.to_host(forces)[where, :3], device.to_host(device_sums)
    assert gpu.bad_atom() == -1
    unit = 2.0**-32 if fixed else 1.0
    largest = np.abs(f * unit).max()
    rounded = 1e-11 if fixed else 6e-8 * max(5, len(names))  # floats of all kinds, added in any order
    np.testing.assert_allclose(mine * unit, f * unit, rtol=0, atol=rounded * largest)
    unit = 2.0**-20 if fixed else 1.0
    np.testing.assert_allclose(mine_sums * unit, sums * unit, rtol=1e-10, atol=2e-3 if fixed else 1e-6)
    if fixed:
        unrestrained = [name for name in names if name not in (*REFERENCED, "flat_bottom")]
        assert bool(mine.sum(0).any()) == (len(unrestrained) < len(names)), "momentum is not exact"
    forces_only = put_forces(device, slots, where, np.zeros((n, 3), np.int64 if fixed else np.float32))
    gpu.settle_in(slots, forces_only, device_sums)
    gpu.add_forces(energies=False)
    again = device.to_host(forces_only)[where, :3]
    if fixed:
        np.testing.assert_array_equal(again, mine)
    else:
        np.testing.assert_allclose(again, mine, rtol=0, atol=3e-7 * largest)
    np.testing.assert_array_equal(device.to_host(device_sums), mine_sums)


def test_impossible_bonded_force_names_its_atom(device):
    x = chains(20)
    x[51] = x[50]
    terms = {
        "lj14": Terms(
            np.array([[0, 1], [50, 51]], np.int32), np.zeros(2, np.int32), np.array([[1e-4, 1e-8, 0.5]])
        )
    }
    gpu = GpuBonded(device, terms, np.ones(len(x)), FACTOR, SLOTS, VIRIAL, None, BOX, False)
    slots, where = shuffled_slots(device, x)
    forces = put_forces(device, slots, where, np.zeros((len(x), 3), np.float32))
    gpu.settle_in(slots, forces, device.zeros(N_SUMS, np.float64))
    gpu.add_forces(energies=False)
    assert gpu.bad_atom() == 50
    assert not device.to_host(forces)[where[[50, 51]]].any()


@pytest.mark.parametrize("fixed", [False, True])
def test_exclusion_corrections_on_device_equal_cpu_and_clear_the_forces(device, fixed):
    system = bundled_system()
    topology, constants = system.topology, pair_constants(system.settings)
    n, dtype = topology.n_atoms, np.int64 if fixed else np.float64
    f, sums = np.zeros((n, 3), np.int64 if fixed else np.float32), np.zeros(11, dtype)
    pairs = exclusion_pairs(topology.exclusion_offset, topology.exclusion_atoms)
    exclusion_forces(system.x, pairs, topology.charge, system.box, constants, f, sums)
    slots, where = shuffled_slots(device, system.x)
    rows = device.to_host(slots.x)
    rows[where, 3] = (topology.charge * np.sqrt(constants.coulomb_factor)).astype(np.float32).view(np.int32)
    slots.x = device.to_device(rows)
    forces = device.full((slots.capacity, 4), 9, f.dtype)
    device_sums = device.zeros(11, dtype)
    gpu = GpuExclusions(
        device,
        topology.exclusion_offset,
        topology.exclusion_atoms,
        topology.settle_atoms,
        system.box,
        constants,
        fixed,
    )
    assert gpu.water_field is not None
    gpu.settle_in(slots, forces, device_sums)
    gpu.start_forces(energies=True, waters_started=True)
    mine, mine_sums = device.to_host(forces), device.to_host(device_sums)
    assert not mine[np.setdiff1d(np.arange(slots.capacity), where)].any()
    # charges are float32 on the device, as in its pair kernel
    np.testing.assert_allclose(mine[where, :3], f, rtol=0, atol=3e-7 * np.abs(f).max())
    np.testing.assert_allclose(mine_sums, sums, rtol=3e-7, atol=1e-6 * abs(int(sums[1])))
    if fixed:
        assert not mine.sum(0).any(), "momentum is not exact"
    device.clear(forces)
    gpu.start_forces(energies=False, waters_started=False)
    np.testing.assert_array_equal(device.to_host(forces), mine)
    np.testing.assert_array_equal(device.to_host(device_sums), mine_sums)


def test_waters_with_excluded_pairs_beyond_their_own_are_not_started_by_the_move():
    offset, partner = np.arange(0, 13, 2), np.array([1, 2, 0, 2, 0, 1, 4, 5, 3, 5, 3, 4])
    waters = np.array([[0, 1, 2], [5, 3, 4]])
    assert excludes_itself_only(offset, partner, waters)
    assert excludes_itself_only(offset, partner, waters[:0])
    assert not excludes_itself_only(offset, partner[::-1], waters)
    assert not excludes_itself_only(np.array([0, 2, 4, 6, 8, 10, 13]), np.append(partner, 0), waters)
