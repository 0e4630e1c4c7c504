"""The estimate behind the list cut-off."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.base.errors import InputError
from pulsemd.engine.verlet_buffer import (
    AtomKinds,
    ListConditions,
    PairEnergies,
    drift_per_atom,
    list_cutoff,
    missed_energy,
    rigid_water_masses,
)


def lennard_jones(r):
    return 4 * 0.65 * ((0.32 / r) ** 12 - (0.32 / r) ** 6)


def test_missed_energy_equals_monte_carlo():
    r_list, r_cut, sigma, rng = 1.02, 1.0, 0.03, np.random.default_rng(1)
    outer = r_list + 6 * sigma
    r0 = rng.uniform(r_list, outer, 4_000_000)
    r = r0 + sigma * rng.normal(size=r0.size)
    missed = np.where(r < r_cut, lennard_jones(r) - lennard_jones(r_cut), 0.0) * 4 * np.pi * r0**2
    estimate, error = missed.mean() * (outer - r_list), missed.std() * (outer - r_list) / np.sqrt(r0.size)
    assert missed_energy(r_list, r_cut, sigma, lennard_jones) == pytest.approx(estimate, abs=4 * error)


ARGON = PairEnergies(lambda r: lennard_jones(r)[None], np.ones((1, 1, 1)))


def argon(nstlist=20):
    kinds = AtomKinds(np.array([0]), np.array([0.0]), np.array([39.948]), np.array([1000]))
    return kinds, ListConditions(50.0, 120.0, 0.005, nstlist, 1.0)


def test_list_cutoff_meets_the_tolerance_and_no_more():
    kinds, conditions = argon()
    r_list = list_cutoff(1e-4, kinds, conditions, ARGON)
    assert drift_per_atom(r_list, kinds, conditions, ARGON) <= 1e-4
    assert drift_per_atom(r_list - 2e-4, kinds, conditions, ARGON) > 1e-4


def test_list_cutoff_longer_lifetime_needs_a_longer_list():
    lengths = [list_cutoff(1e-4, *argon(n), ARGON) for n in (2, 10, 40)]
    assert lengths[0] < lengths[1] < lengths[2]


def test_list_cutoff_hopeless_tolerance_names_the_remedy():
    with pytest.raises(InputError, match="lower nstlist"):
        list_cutoff(1e-9, *argon(5000), ARGON)


def test_list_cutoff_spce_water_is_close_to_gmx():
    """gmx grompp 2022.5, SPC/E, 300 K, 2 fs, tolerance 0.005: 1x1 list 1.094 nm at nstlist 10, 1.222 nm at 20."""
    mass = rigid_water_masses(15.9994, 1.008, 0.1, 0.1633)
    charge = np.array([-0.8476, 0.4238])
    kinds = AtomKinds(np.array([0, 1]), charge, mass[:2], np.array([1000, 2000]))

    def basis(r):
        lj = 4 * 0.650194 * ((0.316557 / r) ** 12 - (0.316557 / r) ** 6)
        return np.stack([138.935458 * (1 / r + r**2 / 2), lj])

    energy = PairEnergies(basis, np.stack([np.outer(charge, charge), np.diag([1.0, 0.0])]))

    for nstlist, gmx in ((10, 1.094), (20, 1.222)):
        conditions = ListConditions(29.96, 300.0, 0.002, nstlist, 1.0)
        assert list_cutoff(0.005, kinds, conditions, energy) == pytest.approx(gmx, abs=0.045)


def test_rigid_water_masses_give_the_kinetic_energy_of_six_degrees_of_freedom():
    mass = rigid_water_masses(15.9994, 1.008, 0.1, 0.1633)
    true = np.array([15.9994, 1.008, 1.008])
    # <m v^2 / 2> summed over the atoms is 6 kT / 2
    assert (true * 3 / mass).sum() == pytest.approx(6.0)


def test_list_cutoff_kinds_split_in_two_give_the_same():
    kinds, conditions = argon()
    halves = AtomKinds(np.zeros(2, int), np.zeros(2), np.full(2, 39.948), np.array([400, 600]))
    split = PairEnergies(ARGON.basis, np.ones((1, 2, 2)))
    assert drift_per_atom(1.05, halves, conditions, split) == pytest.approx(
        drift_per_atom(1.05, kinds, conditions, ARGON)
    )
