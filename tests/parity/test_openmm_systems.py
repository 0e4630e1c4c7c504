"""Systems of OpenMM: energies of every force and forces against its Reference platform, on one rank and on several."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from openmm_systems import NAMES, assert_energies, read, single_point
from pulsemd.engine.options import RunOptions
from pulsemd.halo import launch

FORCE = 1e-5
"""Relative L2 tolerance of forces; measured: 1.6e-6 at most."""


@lru_cache(maxsize=1)
def system(name):
    return single_point(name)


def evaluate(name, ranks=1, precision="fast", plan="auto"):
    """Energies, forces by global id, virial."""
    options = RunOptions(ranks, None, "loopback", plan, precision)
    return launch(ranks, "test_engine_reference:evaluate", (system(name), options), "loopback")


@pytest.mark.parametrize("name", NAMES)
def test_openmm_systems_energies_and_forces_agree_with_its_reference_platform(name):
    _, recorded = read(name)
    mobile = system(name).topology.mass > 0
    expected = recorded.forces[mobile].astype(float)
    for precision in ("fast", "reproducible"):
        energies, forces, _ = evaluate(name, precision=precision)
        assert_energies(energies, recorded.energies)
        assert np.linalg.norm(forces[mobile] - expected) <= FORCE * np.linalg.norm(expected)


@pytest.mark.parametrize("name", NAMES)
def test_openmm_systems_on_2_and_4_ranks_are_the_same(name):
    _, recorded = read(name)
    mobile = system(name).topology.mass > 0
    expected = recorded.forces[mobile].astype(float)
    exact, exact_forces, exact_virial = evaluate(name, precision="reproducible")
    for ranks, plan in ((2, "direct"), (4, "staged")):
        energies, forces, virial = evaluate(name, ranks, "reproducible", plan)
        assert energies == exact
        assert np.array_equal(forces, exact_forces)
        assert np.array_equal(virial, exact_virial)
        energies, forces, _ = evaluate(name, ranks, "fast", plan)
        assert_energies(energies, recorded.energies)
        assert np.linalg.norm(forces[mobile] - expected) <= FORCE * np.linalg.norm(expected)
