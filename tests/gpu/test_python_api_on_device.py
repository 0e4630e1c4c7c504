"""`pulsemd.Simulation` with a GPU of this process."""

from __future__ import annotations

import pytest

import pulsemd
from pulsemd.base.errors import TransportError
from pulsemd.device.cuda import free_memory
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import open_transport
from pulsemd.systems import system_files
from systems import SEEDS, bundled_system

pytestmark = pytest.mark.gpu


def water():
    files = system_files("water")
    paths = files.configuration, files.topology, files.parameters
    return pulsemd.Simulation.from_gromacs(*paths, device="cuda", precision="reproducible", **SEEDS)


def test_simulation_in_python_has_the_hash_of_the_engine_and_reports_its_steps(device):
    options = RunOptions(device="cuda", precision="reproducible")
    alone = Simulation(open_transport("loopback"), bundled_system(), options)
    alone.run(40)
    steps, frames = [], []
    with water() as sim:
        sim.add_reporter(10, energies=lambda step, time, energies: steps.append(step))
        sim.add_reporter(20, frame=lambda frame: frames.append(frame.step))
        sim.run(13).run(27)
        assert sim.trajectory_hash == alone.trajectory_hash()
        assert sim.energies["potential"] == pytest.approx(alone.evaluate()["potential"], rel=1e-9)
    assert steps == [0, 10, 20, 30, 40]
    assert frames == [0, 20, 40]


def test_full_memory_of_a_device_is_an_error_with_a_remedy(device):
    with pytest.raises(TransportError, match=r"the memory of GPU 0 is full \(.*\); .* use more GPUs"):
        device.empty(2**50, "uint8")


def test_memory_on_the_device_is_given_back_when_a_simulation_ends(device):
    free_memory()
    before = device.bytes_held
    sim = water()
    sim.run(20)
    during = device.bytes_held
    sim.close()
    assert during > before + 100 * sim.topology.n_atoms
    assert device.bytes_held < during
