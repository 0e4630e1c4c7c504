"""Velocity Verlet on a GPU follows that on a CPU: full-step velocities, what is reported, thermostats and barostats."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pulsemd.engine.options import RunOptions
from pulsemd.engine.reporters import Reporter
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import open_transport
from systems import MIXED_TOP, SITES_TOP, bundled_system, mixed_system

pytestmark = pytest.mark.gpu

BAROSTAT = {
    "pcoupl": "c-rescale",
    "tau_p": 0.5,
    "compressibility": (4.5e-5,),
    "ref_p": (500.0,),
    "nstpcouple": 3,
}
CASES = {
    "energy held": {"tcoupl": "no", "comm_mode": "none"},
    "centre of mass held": {"tcoupl": "no", "nstcomm": 2},
    "v-rescale": {"nsttcouple": 2, "nstcomm": 3},
    "weak coupling": {"tcoupl": "berendsen", "nsttcouple": 1}
    | BAROSTAT
    | {"pcoupl": "berendsen", "nstpcouple": 1},
    "c-rescale": {"nsttcouple": 2} | BAROSTAT,
    "chains": {"tcoupl": "nose-hoover", "nsttcouple": 2, "nh_chain_length": 3, "ref_t": 500.0, "tau_t": 0.05},
}


def simulate(system, device, precision, steps):
    """Energies and frames of every step as reported, the last frame as steps have it, and the work done."""
    records, frames = [], []
    reporter = Reporter(1, lambda step, time, record: records.append(record), frames.append)
    options = RunOptions(precision=precision, device=device, raise_nstlist=False)
    with open_transport("loopback") as transport:
        simulation = Simulation(transport, system, options, [reporter])
        simulation.run(steps)
        simulation.finish()
        return records, frames, simulation.gather(), simulation.rank.read_work()


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
@pytest.mark.parametrize("top", [MIXED_TOP, SITES_TOP], ids=["mixed", "sites"])
@pytest.mark.parametrize("case", CASES)
def test_full_steps_on_device_follow_cpu(device, tmp_path, case, top, precision):
    system = mixed_system(tmp_path, top=top, integrator="md-vv", nstlist=4, **CASES[case])
    expected, found = (simulate(system, place, precision, 9) for place in ("cpu", "cuda"))
    for name in ("kinetic", "conserved", "pressure"):
        old, new = ([record[name] for record in records] for records in (expected[0], found[0]))
        np.testing.assert_allclose(new, old, rtol=2e-4, atol=0.5, err_msg=name)
    for old, new in zip(expected[1], found[1], strict=True):
        np.testing.assert_allclose(new.v, old.v, atol=2e-3)
    np.testing.assert_allclose(found[2].v, expected[2].v, atol=2e-3)
    np.testing.assert_allclose(found[3], expected[3], atol=2e-2, rtol=1e-4)
    mass = system.topology.mass
    own = [0.5 * float(mass @ (frame.v.astype(float) ** 2).sum(1)) for frame in found[1]]
    if case != "centre of mass held":
        com = [mass @ frame.v.astype(float) / mass.sum() for frame in found[1]]
        assert np.abs(com).max() < 1e-3
    if case != "chains":  # frames are from before they act, energies from between their halves
        np.testing.assert_allclose(own, [record["kinetic"] for record in found[0]], rtol=1e-4)


@pytest.mark.parametrize("constraints", ["h-bonds", "all-bonds"])
@pytest.mark.parametrize("precision", ["fast", "reproducible"])
def test_full_steps_of_a_protein_on_device_follow_cpu(device, precision, constraints):
    given = {"nsttcouple": 2, "verlet_buffer_tolerance": 1e-5, "constraints": constraints}
    system = bundled_system("peptide", integrator="md-vv", **given)
    expected, found = (simulate(system, place, precision, 5) for place in ("cpu", "cuda"))
    for name in ("kinetic", "conserved", "pressure"):
        old, new = ([record[name] for record in records] for records in (expected[0], found[0]))
        np.testing.assert_allclose(new, old, rtol=1e-5, atol=0.2, err_msg=name)
    np.testing.assert_allclose(found[1][-1].v, expected[1][-1].v, atol=1e-3)


def test_uncoupled_steps_on_device_are_those_of_leap_frog(device):
    system = bundled_system("water-ethanol", integrator="md-vv", tcoupl="no", comm_mode="none", nstlist=5)
    with open_transport("loopback") as transport:
        options = RunOptions(precision="reproducible", device="cuda")
        simulation = Simulation(transport, system, options)
        simulation.go_to_half_step()
        earlier = simulation.gather()
        simulation.run(12)
        found = simulation.trajectory_hash()
    leap = replace(system, settings=replace(system.settings, integrator="md"), v=earlier.v)
    with open_transport("loopback") as transport:
        simulation = Simulation(transport, leap, options)
        simulation.run(12)
        assert simulation.trajectory_hash() == found
