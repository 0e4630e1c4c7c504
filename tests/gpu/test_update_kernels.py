"""Leap-frog, SETTLE, SHAKE, coupling and reordering on a device against the kernels of the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from layout import put_forces, shuffled_slots
from pulsemd.engine.coupling import v_rescale_factor
from pulsemd.engine.movers import ConstrainedGroups, water_kinds
from pulsemd.kernels.constraints.gpu_sites import water_sites
from pulsemd.kernels.constraints.shake import leapfrog_shake
from pulsemd.kernels.constraints.virtual_sites import construct_sites, spread_sites
from pulsemd.kernels.update.control import NO_ERROR
from pulsemd.kernels.update.gpu import GpuUpdate
from pulsemd.kernels.update.gpu_tables import Thermostat, UpdateConstants
from pulsemd.kernels.update.leapfrog import (
    KINETIC_SUMS,
    kinetic_sums,
    leapfrog_free,
    leapfrog_settle,
    new_scratch,
)
from pulsemd.topology.virtual_sites import Site, SiteKind, virtual_sites
from systems import bundled_system

pytestmark = pytest.mark.gpu
BOX = np.array([[1.9, 0, 0], [0.3, 1.8, 0], [-0.4, 0.5, 1.7]])
DT, TARGET, N_DOF, KEEP, SEED, STEP = 0.002, 3100.0, 2690, 0.8, 77, 12345
BATH = Thermostat(TARGET, N_DOF, KEEP)


class NoGroups:
    offset, atoms = np.zeros(1, np.int64), np.zeros(0, np.int32)
    pair_offset, pairs, lengths = np.zeros(1, np.int64), np.zeros((0, 2), np.int32), np.zeros(0)


class Stars(NoGroups):
    """Groups of one heavy atom and some hydrogens."""

    def __init__(self, n_groups, n_bonds):
        n = n_bonds + 1
        self.offset, self.atoms = np.arange(n_groups + 1) * n, np.arange(n * n_groups, dtype=np.int32)
        self.pair_offset = np.arange(n_groups + 1) * n_bonds
        bonds = np.array([[0, k] for k in range(1, n)], np.int32)
        self.pairs = np.tile(bonds, (n_groups, 1))
        self.lengths = np.full(n_bonds * n_groups, 0.1)


def random_state(n, mass, fixed, seed=1):
    rng = np.random.default_rng(seed)
    v = (rng.normal(size=(n, 3)) * np.sqrt(2.5 / np.maximum(mass, 1.0))[:, None]).astype(np.float32)
    f = rng.normal(size=(n, 3)) * 500
    return v, np.rint(f * 2**32).astype(np.int64) if fixed else f.astype(np.float32)


def start(device, x, v, f, mass, waters, groups, fixed, box):
    """A GpuUpdate settled in shuffled slots whose record says: step `STEP`, coupling of the old velocities."""
    constants = UpdateConstants(box, DT, mass, waters, groups, (BATH,), seed=SEED)
    update = GpuUpdate(device, constants, v, fixed)
    slots, where = shuffled_slots(device, x)
    update.settle_in(slots, put_forces(device, slots, where, f))
    update.set_step(STEP - 3)
    update.set_start(STEP - 3)
    return update, slots, where


def scale_in(control):
    """Factor of the thermostat on old velocities."""
    return float(control["baths"]["scale"][0])


def moved(device, update, slots, where, fixed):
    """Positions, velocities and constraint virial after a coupled step."""
    virial = device.zeros(9, np.int64 if fixed else np.float64)
    update.move(3, True, virial)
    x, v = device.to_host(slots.x), device.to_host(update.velocities)
    assert (x[where, 3] == 12345).all()
    return x[where, :3], v[where, :3], device.to_host(virial)


def compare(mine, reference, fixed):
    """The same bits without contraction; else positions to a lattice unit, velocities and virial to rounding."""
    if fixed:
        for a, b in zip(mine, reference, strict=True):
            np.testing.assert_array_equal(a, b)
        return
    assert np.abs((mine[0] - reference[0]).astype(np.int64)).max() <= 1
    np.testing.assert_allclose(mine[1], reference[1], rtol=3e-7, atol=1e-7)
    np.testing.assert_allclose(mine[2], reference[2], rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("fixed", [False, True])
def test_coupling_on_device_equals_cpu(device, fixed):
    system = bundled_system()
    mass, n = system.topology.mass, system.topology.n_atoms
    v, f = random_state(n, mass, fixed)
    update, _, _ = start(
        device, system.x, v, f, mass, water_kinds(system.topology), NoGroups(), fixed, system.box
    )
    update.sum_kinetic(3, True, True)
    control = update.read()
    sums = np.zeros(KINETIC_SUMS, np.int64 if fixed else np.float64)
    kinetic_sums(v, mass, n, fixed, sums)
    energy, momentum = (sums[0] / 2**20, sums[1:4] / 2**32) if fixed else (sums[0], sums[1:4])
    rtol = 0.0 if fixed else 1e-9
    np.testing.assert_allclose(control["momentum"], momentum, rtol=rtol, atol=0 if fixed else 1e-7)
    np.testing.assert_allclose(control["com"], momentum / mass.sum(), rtol=1e-12, atol=1e-12)
    energy -= 0.5 * momentum @ momentum / mass.sum()
    # interval and tau that give KEEP
    scale = v_rescale_factor(energy, TARGET, N_DOF, -1.0 / np.log(KEEP), 1.0, SEED, STEP)
    assert scale_in(control) == pytest.approx(scale, rel=1e-12)
    assert control["before"] == pytest.approx(energy * scale**2, rel=1e-12)
    assert control["work"] == pytest.approx(energy * (scale**2 - 1), rel=1e-9)
    assert int(control["error"]) == NO_ERROR


@pytest.mark.parametrize("fixed", [False, True])
def test_settle_step_on_device_equals_cpu(device, fixed):
    system = bundled_system()
    mass, n = system.topology.mass, system.topology.n_atoms
    waters = water_kinds(system.topology)
    v, f = random_state(n, mass, fixed)
    update, slots, where = start(device, system.x, v, f, mass, waters, NoGroups(), fixed, system.box)
    update.sum_kinetic(3, True, True)
    control = update.read()
    mine = moved(device, update, slots, where, fixed)
    x, virial = system.x.copy(), np.zeros(9, np.int64 if fixed else np.float64)
    for rows, geometry in waters:
        bad = leapfrog_settle(
            x, v, f, 2.0**-32 if fixed else 1.0, rows, geometry, system.box, np.linalg.inv(system.box) * 2.0**32,
            DT, scale_in(control), control["com"].copy(), virial, 2.0**20 if fixed else 0.0, new_scratch(),
        )  # fmt: skip
        assert bad < 0
    compare(mine, (x, v, virial), fixed)


@pytest.mark.parametrize("fixed", [False, True])
def test_free_atoms_on_device_equal_cpu_and_frozen_ones_stay(device, fixed):
    n = 1000
    rng = np.random.default_rng(4)
    x = rng.integers(-(2**31), 2**31, (n, 3)).astype(np.int32)
    mass = rng.uniform(1, 40, n)
    mass[::7] = 0.0
    v, f = random_state(n, mass, fixed)
    update, slots, where = start(device, x, v, f, mass, [], NoGroups(), fixed, BOX)
    update.sum_kinetic(3, False, True)
    control = update.read()
    mine = moved(device, update, slots, where, fixed)
    y = x.copy()
    leapfrog_free(
        y, v, f, 2.0**-32 if fixed else 1.0, np.arange(n, dtype=np.int32), mass, np.linalg.inv(BOX) * 2.0**32, DT,
        1.0, control["com"].copy(),
    )  # fmt: skip
    compare(mine, (y, v, np.zeros(9)), fixed)
    assert (mine[0][::7] == x[::7]).all()
    assert not mine[1][::7].any()


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("n_bonds", [3, 7, 8, 31, 100])
def test_shake_step_on_device_equals_cpu(device, fixed, n_bonds):
    groups, n = Stars(120, n_bonds), 120 * (n_bonds + 1)
    rng = np.random.default_rng(5)
    bonds = rng.normal(size=(120, n_bonds + 1, 3))
    bonds *= 0.1 / np.linalg.norm(bonds, axis=2, keepdims=True)
    bonds[:, 0] = 0.0
    r = (rng.uniform(0, 1, (120, 1, 3)) @ BOX + bonds).reshape(-1, 3)
    x = np.rint(r @ np.linalg.inv(BOX) * 2**32).astype(np.int64).astype(np.uint32).view(np.int32)
    mass = np.tile([4.0 * n_bonds, *[1.008] * n_bonds], 120)
    v, f = random_state(n, mass, fixed)
    update, slots, where = start(device, x, v, f, mass, [], groups, fixed, BOX)
    update.sum_kinetic(3, True, True)
    control = update.read()
    mine = moved(device, update, slots, where, fixed)
    y, virial = x.copy(), np.zeros(9, np.int64 if fixed else np.float64)
    bad = leapfrog_shake(
        y, v, f, 2.0**-32 if fixed else 1.0, groups.offset, groups.atoms, groups.pair_offset, groups.pairs,
        groups.lengths, mass, BOX, np.linalg.inv(BOX) * 2.0**32, DT, scale_in(control), control["com"].copy(),
        virial, 2.0**20 if fixed else 0.0,
    )  # fmt: skip
    assert bad < 0
    compare(mine, (y, v, virial), fixed)
    assert int(update.read()["error"]) == NO_ERROR


@pytest.mark.parametrize("n_bonds", [1, 3, 4])
def test_stars_moved_without_the_virial_go_where_they_go_with_it(device, n_bonds):
    groups, n = Stars(120, n_bonds), 120 * (n_bonds + 1)
    rng = np.random.default_rng(6)
    bonds = rng.normal(size=(120, n_bonds + 1, 3))
    bonds *= 0.1 / np.linalg.norm(bonds, axis=2, keepdims=True)
    bonds[:, 0] = 0.0
    r = (rng.uniform(0, 1, (120, 1, 3)) @ BOX + bonds).reshape(-1, 3)
    x = np.rint(r @ np.linalg.inv(BOX) * 2**32).astype(np.int64).astype(np.uint32).view(np.int32)
    mass = np.tile([12.0, *[1.008] * n_bonds], 120)
    v, f = random_state(n, mass, False)
    results = []
    for virial in (device.zeros(9, np.float64), None):
        update, slots, where = start(device, x, v, f, mass, [], groups, False, BOX)
        update.move(0, False, virial)
        assert int(update.read()["error"]) == NO_ERROR
        results.append((device.to_host(slots.x)[where, :3], device.to_host(update.velocities)[where, :3]))
    (x_with, v_with), (x_without, v_without) = results
    assert abs((x_without - x_with).astype(np.int64)).max() < 50  # of 2^32 in an edge
    np.testing.assert_allclose(v_without, v_with, rtol=1e-5, atol=1e-5)


WATER_SITES = {
    "tip4p": [(SiteKind.LINEAR, (0, 1, 2), (0.74, 0.13, 0.13))],
    "tip4p_turned": [(SiteKind.LINEAR, (0, 2, 1), (0.74, 0.11, 0.15))],
    "tip5p": [(SiteKind.OUT_OF_PLANE, (0, 1, 2), (c, -0.345, -0.345)) for c in (-6.4, 6.4)],
    "hydrogen_first": [(SiteKind.LINEAR, (1, 0, 2), (0.13, 0.74, 0.13))],
    "on_a_site": [(SiteKind.LINEAR, (0, 1, 2), (0.74, 0.13, 0.13)), (SiteKind.LINEAR, (3, 0), (0.5, 0.5))],
    "three": [(SiteKind.OUT_OF_PLANE, (0, 1, 2), (c, -0.3, -0.3)) for c in (-6.0, 6.0, 3.0)],
}
CARRIED = {"tip4p": 1, "tip4p_turned": 1, "tip5p": 2, "on_a_site": 1}
"""Sites of a water that its own thread moves."""


def with_sites(system, sites):
    """Positions, masses, waters and sites of water whose molecules got these sites, put in place, behind all atoms."""
    topology, n = system.topology, system.topology.n_atoms
    waters, geometry = water_kinds(topology)[0]
    rows = []
    for water in waters:
        atoms = [*water.tolist(), *(n + len(rows) + k for k in range(len(sites)))]
        rows += [
            Site(atoms[3 + k], kind, tuple(atoms[p] for p in parents), values)
            for k, (kind, parents, values) in enumerate(sites)
        ]
    found = virtual_sites(rows)
    x = np.concatenate([system.x, np.zeros((len(rows), 3), np.int32)])
    construct_sites(
        x,
        found.kind,
        found.offset,
        found.atoms,
        found.values,
        system.box,
        np.linalg.inv(system.box) * 2.0**32,
    )
    return x, np.concatenate([topology.mass, np.zeros(len(rows))]), [(waters, geometry)], found


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("name", WATER_SITES)
def test_waters_with_sites_on_device_equal_cpu(device, name, fixed):
    system = bundled_system()
    x, mass, waters, sites = with_sites(system, WATER_SITES[name])
    assert water_sites([waters[0][0]], sites).atoms.shape[1] == CARRIED.get(name, 0)
    move_with_sites(device, system.box, x, mass, waters, sites, fixed, turned="turned" in name)


KINDS = {
    "linear": (SiteKind.LINEAR, (0, 1, 2, 3), (0.5, 0.7, -0.4, 0.2)),
    "same": (SiteKind.LINEAR, (2,), (1.0,)),
    "fixed_distance": (SiteKind.FIXED_DISTANCE, (0, 1, 3), (0.1, 0.6, 0.4)),
    "fixed_angle": (SiteKind.FIXED_ANGLE, (0, 1, 2), (-0.05, 0.08, 0.0)),
    "local_frame": (SiteKind.FIXED_ANGLE, (2, 3, 1), (0.06, -0.03, 0.07)),
    "out_of_plane": (SiteKind.OUT_OF_PLANE, (1, 0, 2), (2.0, 0.3, -0.2)),
    "normal": (SiteKind.NORMAL, (0, 1, 2, 3), (0.1, 0.9, 1.2, 0.0)),
    "on_a_site": (SiteKind.FIXED_DISTANCE, (4, 1), (0.05, 1.0)),
}


@pytest.mark.parametrize("fixed", [False, True])
def test_sites_of_all_kinds_on_device_equal_cpu(device, fixed):
    """Groups of four free atoms with a site of each kind, one on another site, across the faces."""
    n_groups, per, rng = 150, 4 + len(KINDS), np.random.default_rng(8)
    centers = rng.uniform(0, 1, (n_groups, 1, 3)) @ BOX
    r = (centers + rng.uniform(-0.2, 0.2, (n_groups, per, 3))).reshape(-1, 3)
    x = np.rint(r @ np.linalg.inv(BOX) * 2**32).astype(np.int64).astype(np.uint32).view(np.int32)
    mass = np.tile([12.0, 14.0, 1.0, 16.0, *[0.0] * len(KINDS)], n_groups)
    sites = virtual_sites(
        [
            Site(per * g + 4 + k, kind, tuple(per * g + p for p in parents), values)
            for k, (kind, parents, values) in reversed(list(enumerate(KINDS.values())))
            for g in range(n_groups)
        ]
    )
    inverse = np.linalg.inv(BOX) * 2.0**32
    construct_sites(x, sites.kind, sites.offset, sites.atoms, sites.values, BOX, inverse)
    move_with_sites(device, BOX, x, mass, [], sites, fixed)


def move_with_sites(device, box, x, mass, waters, sites, fixed, turned=False):
    """Compare one step with that of the CPU."""
    v, f = random_state(len(x), mass, fixed)
    v[mass == 0] = 0
    constants = UpdateConstants(box, DT, mass, waters, NoGroups(), (BATH,), seed=SEED, sites=sites)
    update = GpuUpdate(device, constants, v, fixed)
    slots, where = shuffled_slots(device, x)
    words = np.arange(slots.capacity, dtype=np.int32) + 12345
    rows = device.to_host(slots.x)
    rows[:, 3] = words
    slots.x.set(rows)
    forces = put_forces(device, slots, where, f)
    update.settle_in(slots, forces)
    update.set_step(STEP - 3)
    update.set_start(STEP - 3)
    update.sum_kinetic(3, True, True)
    control = update.read()
    virial = device.zeros(9, np.int64 if fixed else np.float64)
    update.move(3, True, virial)
    mine, mine_v = device.to_host(slots.x), device.to_host(update.velocities)[where, :3]
    np.testing.assert_array_equal(mine[:, 3], words)

    inverse, unit = np.linalg.inv(box) * 2.0**32, 2.0**-32 if fixed else 1.0
    table = (sites.kind, sites.offset, sites.atoms, sites.values)
    scale, com = scale_in(control), control["com"].copy()
    f = f if fixed else f.astype(np.float64)
    y, w, energy_scale = x.copy(), np.zeros(9, np.int64 if fixed else np.float64), 2.0**20 if fixed else 0.0
    spread_sites(y, f, unit, *table, box, w, energy_scale)
    moved_atoms = np.concatenate([sites.sites, *(atoms.ravel() for atoms, _ in waters)])
    free = np.setdiff1d(np.arange(len(x)), moved_atoms).astype(np.int32)
    assert leapfrog_free(y, v, f, unit, free, mass, inverse, DT, scale, com) < 0
    for atoms, geometry in waters:
        assert (
            leapfrog_settle(
                y, v, f, unit, atoms, geometry, box, inverse, DT, scale, com, w, energy_scale, new_scratch()
            )
            < 0
        )
    construct_sites(y, *table, box, inverse)
    total = device.to_host(virial)
    if fixed and not turned:
        np.testing.assert_array_equal(mine[where, :3], y)
        np.testing.assert_array_equal(mine_v, v)
        np.testing.assert_array_equal(total, w)
        return
    # rounding of one parent may move a site by some units
    assert np.abs((mine[where, :3] - y).astype(np.int64)).max() <= 20
    np.testing.assert_allclose(mine_v, v, rtol=1e-6, atol=2e-6)
    np.testing.assert_allclose(total, w, rtol=1e-6, atol=1e-6 * np.abs(w).max())


def test_impossible_force_names_the_first_atom_and_leaves_it_in_place(device):
    n = 500
    x = np.random.default_rng(0).integers(-(2**31), 2**31, (n, 3)).astype(np.int32)
    mass = np.full(n, 18.0)
    v, f = random_state(n, mass, False)
    f[[77, 33]] = np.nan
    f[400] = 1e12
    update, slots, where = start(device, x, v, f, mass, [], NoGroups(), False, BOX)
    update.move(5, False)
    update.move(6, False)
    error = int(update.read()["error"])
    assert (error >> 32, error & 0xFFFFFFFF) == (5, 33)
    assert (device.to_host(slots.x)[where[[33, 77, 400]], :3] == x[[33, 77, 400]]).all()


def test_velocities_follow_the_atoms_through_two_orders(device):
    system = bundled_system()
    v = system.v
    constants = UpdateConstants(
        system.box, DT, system.topology.mass, water_kinds(system.topology), ConstrainedGroups(system.topology)
    )
    update = GpuUpdate(device, constants, v, False)
    before = np.arange(len(v))
    for seed in (3, 4):
        slots, where = shuffled_slots(device, system.x, seed)
        gid = device.to_host(slots.gid)
        slots.source = device.to_device(np.where(gid >= 0, before[gid], -1).astype(np.int32))
        update.settle_in(slots, device.zeros((slots.capacity, 4), np.float32))
        held = device.to_host(update.velocities)
        np.testing.assert_array_equal(held[where, :3], v)
        assert not held[gid < 0].any()
        before = where
