"""Minimisation of Systems of OpenMM, beside its own LocalEnergyMinimizer."""

from __future__ import annotations

import numpy as np
import pytest

import pulsemd

openmm = pytest.importorskip("openmm")

SIGMA, EPSILON = 0.34, 1.0
ICOSAHEDRON = -44.326801
"""Lowest energy of 13 Lennard-Jones atoms in units of epsilon: D. J. Wales, J. P. K. Doye, J. Phys. Chem. A 101, 5111
(1997)."""


def icosahedron():
    """13 atoms about where they are in the lowest minimum, in the middle of a box of 5 nm."""
    golden = 0.5 * (1.0 + 5.0**0.5)
    corners = [(0.0, a, b * golden) for a in (-1.0, 1.0) for b in (-1.0, 1.0)]
    shell = np.array([np.roll(corner, k) for corner in corners for k in range(3)])
    r = np.concatenate([np.zeros((1, 3)), 1.08 * SIGMA * shell / np.linalg.norm(shell[0])])
    return r + 2.5 + np.random.default_rng(1).normal(0.0, 0.02, r.shape)


def cluster():
    system = openmm.System()
    force = openmm.NonbondedForce()
    force.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
    force.setCutoffDistance(2.0)
    force.setUseDispersionCorrection(False)
    for _ in range(13):
        system.addParticle(40.0)
        force.addParticle(0.0, SIGMA, EPSILON)
    system.addForce(force)
    system.setDefaultPeriodicBoxVectors(*(5.0 * np.eye(3)))
    return system


def openmm_minimum(system, positions):
    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
    context.setPositions(positions)
    openmm.LocalEnergyMinimizer.minimize(context, 0.01)
    return context.getState(getEnergy=True).getPotentialEnergy()._value


@pytest.mark.parametrize(("integrator", "emtol", "near"), [("l-bfgs", 0.1, 2e-3), ("steep", 1.0, 0.02)])
def test_thirteen_atoms_find_the_icosahedron_as_openmm_does(integrator, emtol, near):
    system, start = cluster(), icosahedron()
    expected = openmm_minimum(system, start)
    assert expected == pytest.approx(ICOSAHEDRON * EPSILON, abs=1e-4)
    with pulsemd.Simulation.from_openmm(system, start, dt=0.001, device="cpu") as simulation:
        before = simulation.energies["potential"]
        found = simulation.minimize(emtol=emtol, integrator=integrator, nsteps=2000)
        assert found.converged
        assert before > found.energies["potential"] + 5.0
        assert found.energies["potential"] == pytest.approx(expected, abs=near)
        assert simulation.energies["potential"] == pytest.approx(found.energies["potential"], abs=1e-3)
