"""Every function of the force field through the engine on a device: against double-precision GROMACS and the CPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from force_field import CASES, DATA, OF_RUNS, read, recorded
from single_points import forces_of, simulate, virial_of

pytestmark = pytest.mark.gpu
GMX = recorded()
FORCES = np.load(DATA / "forces.npz")


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
    virial, largest = virial_of(cpu)
    np.testing.assert_allclose(virial_of(simulation)[0], virial, rtol=0, atol=2e-5 * largest)
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
