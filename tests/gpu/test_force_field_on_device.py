"""Every function of the force field through the engine on a device: against double-precision GROMACS and the CPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from force_field import CASES, DATA, OF_RUNS, read, recorded
from pulsemd.engine.coupling import StepFlags
from pulsemd.engine.energies import N_PAIR_SUMS, N_SUMS, VIRIAL
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import open_transport
from pulsemd.kernels.constraints.virtual_sites import spread_sites
from pulsemd.schedule.phase import PhaseTimer

pytestmark = pytest.mark.gpu
GMX = recorded()
FORCES = np.load(DATA / "forces.npz")


def simulate(system, precision, device="cuda"):
    return Simulation(open_transport("loopback"), system, RunOptions(precision=precision, device=device))


def forces_of(simulation):
    """Forces by global id, those on virtual sites handed to their parents, kJ/mol/nm."""
    rank, system = simulation.rank, simulation.system
    rank.begin_step(StepFlags(0))
    PhaseTimer().run(rank.force_phases())
    rows, gid = rank.device.to_host(rank.f).astype(float), rank.device.to_host(rank._slots.gid)
    f = np.zeros((system.topology.n_atoms, 3))
    f[gid[gid >= 0]] = rows[gid >= 0, :3] * (2.0**-32 if rank.reproducible else 1.0)
    s = system.topology.virtual_sites
    spread_sites(system.x, f, 1.0, s.kind, s.offset, s.atoms, s.values, system.box, np.zeros(0), 0.0)
    return f


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
@pytest.mark.parametrize("name", CASES)
def test_force_field_energies_forces_and_virial_on_device(device, name, precision):
    system = read(name)
    cpu = simulate(system, "reproducible", "cpu")
    cpu.evaluate()
    simulation = simulate(system, precision)
    energies = simulation.evaluate()
    for term, value in GMX[name].items():
        if term not in OF_RUNS:
            assert energies[term] == pytest.approx(value, rel=1e-5, abs=1e-4), term
    virial = [sums[VIRIAL:N_PAIR_SUMS] + sums[N_SUMS:] for sums in (simulation.rank.sums, cpu.rank.sums)]
    largest = max(np.abs(cpu.rank.sums[VIRIAL:N_PAIR_SUMS]).max(), np.abs(virial[1]).max())
    np.testing.assert_allclose(virial[0], virial[1], rtol=0, atol=2e-5 * largest)
    forces, expected = forces_of(simulation), FORCES[name]
    if "virtual_sites1 " in CASES[name].sites:  # see tests/parity/test_force_field.py
        forces[0::16] = expected[0::16]
    assert np.linalg.norm(forces - expected) <= 1e-5 * np.linalg.norm(expected)


@pytest.mark.parametrize("name", ["all_sites", "tip4p", "tip5p"])
def test_a_run_with_virtual_sites_on_device_follows_the_cpu(device, name):
    """Site places, forces handed on and excluded pairs of 20 steps, to the rounding of charges."""
    system = read(name)
    system = replace(system, settings=replace(system.settings, nsteps=-1, dt=0.0005, nstlist=5, rlist=0.7))
    ends = []
    for where in ("cpu", "cuda"):
        simulation = simulate(system, "reproducible", where)
        simulation.run(20)
        ends.append((simulation.gather(), simulation.evaluate()))
    (cpu, cpu_energies), (gpu, gpu_energies) = ends
    r = (cpu.x - gpu.x).astype(np.float64) / 2**32 @ system.box
    assert np.abs(r).max() < 2e-6
    np.testing.assert_allclose(gpu.v, cpu.v, atol=2e-3)
    assert not gpu.v[system.topology.virtual_sites.sites].any()
    assert gpu_energies["potential"] == pytest.approx(cpu_energies["potential"], rel=1e-5, abs=1e-2)
