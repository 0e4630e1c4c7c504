"""Systems of OpenMM with all bonds constrained: LINCS beside OpenMM's own constraints."""

from __future__ import annotations

import numpy as np
import pytest

import pulsemd
from pulsemd.base.errors import InputError

openmm = pytest.importorskip("openmm")
pytest.importorskip("openmm.app")

N, LENGTH, BOX = 24, 0.15, 4.0
EXACT = {"lincs_order": 12, "lincs_iter": 6, "verlet_buffer_tolerance": -1.0, "rlist": 1.3}


def chain(ring=()):
    """A zigzag of 24 carbons whose bonds are constrained, with angles; `ring`: atoms closed to a triangle."""
    system = openmm.System()
    pairs, angles = openmm.NonbondedForce(), openmm.HarmonicAngleForce()
    pairs.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
    pairs.setCutoffDistance(1.2)
    pairs.setUseDispersionCorrection(False)
    for k in range(N):
        system.addParticle(1.0 if k in ring else 12.0)
        pairs.addParticle(0.0, 0.35, 0.3)
        if k:
            system.addConstraint(k - 1, k, LENGTH)
        if k > 1:
            angles.addAngle(k - 2, k - 1, k, 1.9, 300.0)
    if ring:
        system.addConstraint(ring[0], ring[-1], 2 * LENGTH * np.sin(0.95))
    pairs.createExceptionsFromBonds([(k - 1, k) for k in range(1, N)], 0.0, 0.0)
    system.addForce(pairs)
    system.addForce(angles)
    system.setDefaultPeriodicBoxVectors(*(BOX * np.eye(3)))
    half = 0.95  # half an angle of 1.9
    r = np.zeros((N, 3))
    r[:, 0], r[:, 1] = LENGTH * np.sin(half) * np.arange(N), LENGTH * np.cos(half) * (np.arange(N) % 2)
    return system, r + np.array([0.3, 2.0, 2.0])


def test_positions_of_a_constrained_chain_on_two_ranks_follow_openmm():
    system, r = chain()
    integrator = openmm.VerletIntegrator(0.002)
    integrator.setConstraintTolerance(1e-10)
    context = openmm.Context(system, integrator, openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(r)
    context.setVelocitiesToTemperature(300.0, 3)
    context.applyVelocityConstraints(1e-10)
    start = context.getState(getPositions=True, getVelocities=True)
    v = start.getVelocities(asNumpy=True)._value
    given = {"velocities": v, "ranks": 2, "precision": "reproducible", "device": "cpu", "continuation": True}
    simulation = pulsemd.Simulation.from_openmm(system, r, integrator, comm_mode="none", **given, **EXACT)
    with simulation:
        simulation.run(20)
        integrator.step(20)
        expected = context.getState(getPositions=True).getPositions(asNumpy=True)._value
        difference = simulation.positions - expected
        difference -= BOX * np.rint(difference / BOX)
        assert np.abs(difference).max() < 2e-5
        bonds = np.linalg.norm(np.diff(simulation.positions, axis=0), axis=1)
        np.testing.assert_allclose(bonds, LENGTH, rtol=1e-6)


def test_a_triangle_with_a_light_atom_in_a_large_molecule_is_refused_with_the_remedy():
    system, r = chain(ring=(10, 11, 12))
    with pytest.raises(InputError, match=r"close a triangle with a light atom.*constrain bonds alone"):
        pulsemd.Simulation.from_openmm(system, r, dt=0.001, device="cpu")


def test_frozen_particles_of_a_system_stay_and_the_others_move():
    system, r = chain()
    system.addParticle(40.0)
    system.getForce(0).addParticle(0.0, 0.34, 1.0)
    names = openmm.app.Topology()
    for residue, atoms in (("CHN", N), ("AR", 1)):
        place = names.addResidue(residue, names.addChain())
        for k in range(atoms):
            names.addAtom(f"C{k}", openmm.app.element.carbon, place)
    start = np.vstack([r, [[1.0, 2.0, 2.4]]])
    held = {"freezegrps": ("CHN",), "freezedim": ("Y",) * 3, "verlet_buffer_tolerance": -1.0, "rlist": 1.3}
    given = {"topology": names, "dt": 0.001, "device": "cpu", "precision": "reproducible"}
    with pulsemd.Simulation.from_openmm(system, start, **given, **held) as simulation:
        before = simulation.positions
        density = simulation.energies["density"]
        simulation.run(20)
        moved = np.abs(simulation.positions - before).max(1)
        assert moved[:N].max() < 1e-8 < moved[N]
    with pulsemd.Simulation.from_openmm(
        system, start, **given, verlet_buffer_tolerance=-1.0, rlist=1.3
    ) as free:
        assert free.energies["density"] == pytest.approx(density, rel=1e-12)


@pytest.mark.parametrize(
    ("option", "value"), [("constraints", "h-bonds"), ("define", "-DPOSRES"), ("disre", "simple")]
)
def test_options_of_gromacs_topologies_are_refused_by_name(option, value):
    system, r = chain()
    with pytest.raises(InputError, match=f"{option} = .* is for GROMACS topologies.*remove the option"):
        pulsemd.Simulation.from_openmm(system, r, dt=0.001, device="cpu", **{option: value})
