"""Molecules in water: each energy against GROMACS, forces against OpenMM or GROMACS, on one rank and on many."""

from __future__ import annotations

import numpy as np
import pytest

from engine_points import assert_same_bits, evaluate
from molecules import MOLECULES, read, recorded_energies, recorded_forces

ENERGY = 1e-5
"""Relative tolerance of every term; measured: 9e-7 at most. Sums that nearly cancel: 1e-3 kJ/mol."""
FORCE = 1e-5
"""Relative L2 tolerance of forces."""


@pytest.mark.parametrize("name", MOLECULES)
def test_molecules_energies_and_forces_agree_with_gmx_and_openmm(name):
    gmx = recorded_energies(name)
    atoms, expected, _ = recorded_forces(name)
    computed = {*read(name).energy_names, "potential"}
    assert set(gmx) == computed | ({"kinetic", "pressure"} if name == "constrained" else set())
    for precision in ("fast", "reproducible"):
        energies, forces, _ = evaluate(read(name), precision=precision)
        for term, value in gmx.items():
            tolerance = 0.1 if term == "pressure" else 1e-3  # the difference of two sums of 1e4 bar
            assert energies[term] == pytest.approx(value, rel=ENERGY, abs=tolerance), term
        assert np.linalg.norm(forces[atoms] - expected) <= FORCE * np.linalg.norm(expected)


@pytest.mark.parametrize("name", MOLECULES)
def test_molecules_on_2_4_7_ranks_are_the_same(name):
    system = read(name)
    exact = evaluate(system, precision="reproducible")
    alone, _, _ = evaluate(system)
    for ranks, plan in ((2, "direct"), (4, "staged"), (7, "direct")):
        assert_same_bits(evaluate(system, ranks, "reproducible", plan), exact)
        energies, forces, _ = evaluate(system, ranks, "fast", plan)
        for term in recorded_energies(name):
            tolerance = 0.1 if term == "pressure" else 1e-3
            assert energies[term] == pytest.approx(alone[term], rel=1e-6, abs=tolerance), term
        assert np.linalg.norm(forces - exact[1]) <= FORCE * np.linalg.norm(exact[1])
