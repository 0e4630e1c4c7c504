"""Systems of OpenMM: energies of every force and forces against its Reference platform, on one rank and on several."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from engine_points import assert_same_bits, evaluate
from openmm_systems import NAMES, assert_energies, read, single_point

FORCE = 1e-5
"""Relative L2 tolerance of forces; measured: 1.6e-6 at most."""


@lru_cache(maxsize=1)
def system(name):
    return single_point(name)


@pytest.mark.parametrize("name", NAMES)
def test_openmm_systems_energies_and_forces_agree_with_its_reference_platform(name):
    _, recorded = read(name)
    mobile = system(name).topology.mass > 0
    expected = recorded.forces[mobile].astype(float)
    for precision in ("fast", "reproducible"):
        energies, forces, _ = evaluate(system(name), precision=precision)
        assert_energies(energies, recorded.energies)
        assert np.linalg.norm(forces[mobile] - expected) <= FORCE * np.linalg.norm(expected)


@pytest.mark.parametrize("name", NAMES)
def test_openmm_systems_on_2_and_4_ranks_are_the_same(name):
    _, recorded = read(name)
    mobile = system(name).topology.mass > 0
    expected = recorded.forces[mobile].astype(float)
    exact = evaluate(system(name), precision="reproducible")
    for ranks, plan in ((2, "direct"), (4, "staged")):
        assert_same_bits(evaluate(system(name), ranks, "reproducible", plan), exact)
        energies, forces, _ = evaluate(system(name), ranks, "fast", plan)
        assert_energies(energies, recorded.energies)
        assert np.linalg.norm(forces[mobile] - expected) <= FORCE * np.linalg.norm(expected)
