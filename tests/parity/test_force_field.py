"""Every function of the force field against double-precision GROMACS, on one rank and on many."""

from __future__ import annotations

import numpy as np
import pytest

from engine_points import assert_same_bits, evaluate
from force_field import CASES, DATA, DISPERSION, ENDINGS, OF_RUNS, read, recorded

GMX = recorded()
FORCES = np.load(DATA / "forces.npz")


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
@pytest.mark.parametrize("name", CASES)
def test_force_field_energies_and_forces_agree_with_gmx(name, precision):
    energies, forces, _ = evaluate(read(name), precision=precision)
    for term, value in GMX[name].items():
        if term not in OF_RUNS:
            assert energies[term] == pytest.approx(value, rel=2e-6, abs=2e-5), term
    expected = FORCES[name]
    if "virtual_sites1 " in CASES[name].sites:
        assert np.abs(forces.sum(0)).max() < 2e-3
        forces[0::16] = expected[
            0::16
        ]  # gmx 2022.5 loses the force of these sites: its forces do not sum to zero
        assert np.abs(expected.sum(0)).max() > 100
    assert np.linalg.norm(forces - expected) <= 1e-5 * np.linalg.norm(expected)


@pytest.mark.parametrize("name", [*ENDINGS, *DISPERSION])
def test_pressure_with_each_ending_and_correction_agrees_with_gmx(name):
    """Nothing moves and nothing is constrained: the pressure is the virial, and that of the correction."""
    energies, _, _ = evaluate(read(name), precision="reproducible")
    assert energies["pressure"] == pytest.approx(GMX[name]["pressure"], rel=1e-5)
    assert ("dispersion_correction" in energies) == (name in DISPERSION)


@pytest.mark.parametrize("name", ["all_terms", "between_molecules", "all_sites", "tip4p", "tip5p"])
@pytest.mark.parametrize(("ranks", "plan"), [(2, "direct"), (4, "staged"), (7, "direct")])
def test_force_field_on_2_4_7_ranks_is_the_same(name, ranks, plan):
    system = read(name)
    exact = evaluate(system, precision="reproducible")
    assert_same_bits(evaluate(system, ranks, "reproducible", plan), exact)
    energies, forces, _ = evaluate(system, ranks, "fast", plan)
    assert energies["potential"] == pytest.approx(exact[0]["potential"], rel=1e-6, abs=1e-3)
    assert np.linalg.norm(forces - exact[1]) <= 1e-5 * np.linalg.norm(exact[1])
