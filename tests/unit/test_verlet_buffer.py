"""The estimate behind the list cut-off."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from pulsemd.base.errors import InputError
from pulsemd.engine.verlet_buffer import (
    AtomKinds,
    Drift,
    ListConditions,
    Motion,
    PairEnergies,
    displacement_density,
    few_ways,
    free_motion,
    list_cutoff,
    missed_energy,
    paired_motion,
    rigid_water_motion,
)


def lennard_jones(r):
    return 4 * 0.65 * ((0.32 / r) ** 12 - (0.32 / r) ** 6)


def isotropic(rng, length):
    direction = rng.normal(size=(len(length), 3))
    return direction * (length / np.linalg.norm(direction, axis=1))[:, None]


def swung(rng, motion, thermal, n):
    """Displacements (n, 3) of one atom, drawn: flight and chord."""
    theta = np.sqrt(thermal * motion.swing[0]) / motion.arm[0] * np.sqrt(-2 * np.log(rng.uniform(size=n)))
    flight = np.sqrt(thermal * motion.mobility[0]) * rng.normal(size=(n, 3))
    return flight + isotropic(rng, 2 * motion.arm[0] * np.abs(np.sin(theta / 2)))


HYDROGEN = paired_motion(np.array([1.008]), np.array([16.0]), np.array([0.1]))


@pytest.mark.parametrize("time", [0.01, 0.04, 0.1, 0.4])
def test_missed_energy_of_swinging_atoms_equals_monte_carlo_in_space(time):
    thermal, r_cut, rng, n = 2.494 * time**2, 1.0, np.random.default_rng(1), 2_000_000
    r_list = r_cut + 0.6 * time
    pair = Motion(*(np.repeat(getattr(HYDROGEN, name), 2) for name in ("mobility", "swing", "arm")))
    reach, density = displacement_density(pair, thermal)
    low = 0.5
    r = rng.uniform(low, r_cut, n)
    moved = swung(rng, HYDROGEN, thermal, n) - swung(rng, HYDROGEN, thermal, n)
    start = np.linalg.norm(moved + np.array([1.0, 0, 0]) * r[:, None], axis=1)
    missed = np.where(start > r_list, lennard_jones(r) - lennard_jones(r_cut), 0) * 4 * np.pi * r**2
    estimate, error = missed.mean() * (r_cut - low), missed.std() * (r_cut - low) / np.sqrt(n)

    def above(distance):
        return np.where(distance > low, lennard_jones(distance), lennard_jones(r_cut))

    found = missed_energy(r_list, r_cut, reach, density, above)
    assert found == pytest.approx(estimate, abs=5 * error + 0.01 * abs(estimate))


@pytest.mark.parametrize("time", [0.002, 0.04, 0.4, 4.0])
def test_displacement_density_has_the_moments_of_flight_and_swing(time):
    thermal = 2.494 * time**2
    pair = Motion(*(np.repeat(getattr(HYDROGEN, name), 2) for name in ("mobility", "swing", "arm")))
    reach, density = displacement_density(pair, thermal)
    x = np.linspace(-reach, reach, 20001)
    values = density(np.abs(x)) * (x[1] - x[0])
    scale = np.sqrt(thermal * HYDROGEN.swing[0]) / HYDROGEN.arm[0]
    theta = scale * np.sqrt(-2 * np.log((np.arange(100_000) + 0.5) / 100_000))
    chord2 = (2 * HYDROGEN.arm[0] ** 2 * (1 - np.cos(theta))).mean()
    assert values.sum() == pytest.approx(1.0, abs=1e-4)
    variance = 2 * (thermal * HYDROGEN.mobility[0] + chord2 / 3)
    assert (values * x**2).sum() == pytest.approx(variance, rel=0.01)


def test_displacement_density_of_a_short_time_is_that_of_free_atoms_of_the_same_velocity():
    motion = rigid_water_motion(15.9994, 1.008, 0.1, 0.1633)
    thermal = 2.494 * 0.002**2
    pair = Motion(motion.mobility[1:], motion.swing[1:], motion.arm[1:])
    reach, density = displacement_density(pair, thermal)
    sigma = np.sqrt(thermal * 2 * (motion.mobility[1] + 2 * motion.swing[1] / 3))
    x = np.linspace(-reach, reach, 20001)
    assert (density(np.abs(x)) * x**2).sum() * (x[1] - x[0]) == pytest.approx(sigma**2, rel=0.01)


ARGON = PairEnergies(lambda r: lennard_jones(r)[None], np.ones((1, 1, 1)))


def argon(nstlist=20):
    kinds = AtomKinds(np.array([0]), np.array([0.0]), free_motion(np.array([39.948])), np.array([1000]))
    return kinds, ListConditions(50.0, 120.0, 0.005, nstlist, 1.0)


def test_list_cutoff_meets_the_tolerance_and_no_more():
    kinds, conditions = argon()
    r_list = list_cutoff(1e-4, Drift(kinds, conditions, ARGON))
    assert Drift(kinds, conditions, ARGON)(r_list) <= 1e-4
    assert Drift(kinds, conditions, ARGON)(r_list - 2e-4) > 1e-4


def test_list_cutoff_longer_lifetime_needs_a_longer_list():
    lengths = [list_cutoff(1e-4, Drift(*argon(n), ARGON)) for n in (2, 10, 40)]
    assert lengths[0] < lengths[1] < lengths[2]


def test_list_cutoff_hopeless_tolerance_names_the_remedy():
    with pytest.raises(InputError, match="lower nstlist"):
        list_cutoff(1e-9, Drift(*argon(5000), ARGON))


def spce_water(nstlist):
    """Kinds, conditions and energies of SPC/E water at 300 K in steps of 2 fs, cut off at 1.0 nm."""
    motion = rigid_water_motion(15.9994, 1.008, 0.1, 0.1633)
    oxygen_hydrogen = Motion(motion.mobility[:2], motion.swing[:2], motion.arm[:2])
    charge = np.array([-0.8476, 0.4238])
    kinds = AtomKinds(np.array([0, 1]), charge, oxygen_hydrogen, np.array([1000, 2000]))

    def basis(r):
        lj = 4 * 0.650194 * ((0.316557 / r) ** 12 - (0.316557 / r) ** 6)
        return np.stack([138.935458 * (1 / r + r**2 / 2), lj])

    energy = PairEnergies(basis, np.stack([np.outer(charge, charge), np.diag([1.0, 0.0])]))
    return kinds, ListConditions(29.96, 300.0, 0.002, nstlist, 1.0), energy


@pytest.mark.parametrize(
    ("nstlist", "gmx"), [(10, 1.094), (20, 1.222), (40, 1.427), (100, 1.606), (200, 1.961)]
)
def test_list_cutoff_spce_water_is_a_little_below_that_of_gmx(nstlist, gmx):
    """`gmx grompp` 2022.5 on the bundled water prints these lists of single atoms; their chords have normal tails."""
    assert gmx - 0.13 < list_cutoff(0.005, Drift(*spce_water(nstlist))) < gmx


def test_rigid_water_motion_has_the_kinetic_energy_of_six_degrees_of_freedom():
    oxygen, hydrogen = ((15.9994, 0.1), (1.008, 0.1633))
    motion = rigid_water_motion(oxygen[0], hydrogen[0], oxygen[1], hydrogen[1])
    assert motion.mobility == pytest.approx(1 / 18.0154)
    # about its centre: 1/2 of the in-plane and out-of-plane moments' share is below what both axes at the largest give
    true = np.array([15.9994, 1.008, 1.008])
    assert 3.0 < (true * 2 * motion.swing).sum() < 6.0
    centre = true @ np.array([0.0, 0.05773, 0.05773]) / true.sum()
    assert motion.arm == pytest.approx([centre, *[np.hypot(0.08165, 0.05773 - centre)] * 2], abs=1e-4)


def test_paired_motion_about_a_heavy_partner_is_that_of_a_rigid_rotor():
    motion = paired_motion(np.array([1.0]), np.array([1e9]), np.array([0.1]))
    assert motion.arm == pytest.approx(0.1)
    assert motion.swing == pytest.approx(1.0)
    assert motion.mobility == pytest.approx(0.0, abs=1e-8)


def test_list_cutoff_kinds_split_in_two_give_the_same():
    kinds, conditions = argon()
    halves = AtomKinds(np.zeros(2, int), np.zeros(2), free_motion(np.full(2, 39.948)), np.array([400, 600]))
    split = PairEnergies(ARGON.basis, np.ones((1, 2, 2)))
    assert Drift(halves, conditions, split)(1.05) == pytest.approx(Drift(kinds, conditions, ARGON)(1.05))


def test_displacement_density_of_all_but_fixed_atoms_needs_little_memory():
    """A site 0.2 nm from an atom of 1e12 amu: its series would have 1e7 terms at 2000 points."""
    motion = Motion(np.array([1e-12, 1e-12]), np.array([0.5, 0.5]), np.array([0.2, 0.2]))
    tracemalloc.start()
    reach, density = displacement_density(motion, 2.5 * 0.02**2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e8
    x = np.linspace(0.0, reach, 4001)
    assert 2.0 * np.trapezoid(density(x), x) == pytest.approx(1.0, abs=1e-3)
    variance = 2.0 * np.trapezoid(density(x) * x**2, x)
    assert variance == pytest.approx(2.5 * 0.02**2 * (0.5 + 0.5) * 2.0 / 3.0, rel=0.02)


def test_few_ways_of_many_kinds_are_few_and_none_moves_less():
    rng = np.random.default_rng(3)
    motion = Motion(*rng.uniform(0.01, 1.0, (3, 500)))
    ways, which = few_ways(motion)
    assert len(ways) <= 40
    assert (ways[which] >= np.column_stack([motion.mobility, motion.swing, motion.arm]) * (1 - 1e-6)).all()
    alike = Motion(*rng.uniform(0.01, 1.0, (3, 30)))
    ways, which = few_ways(alike)
    assert np.array_equal(ways[which], np.column_stack([alike.mobility, alike.swing, alike.arm]))
