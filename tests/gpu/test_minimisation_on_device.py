"""Minimisation with forces from a device: the way of the CPU, from overlapping atoms too, and equal bits on ranks."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.engine.descent import Method
from pulsemd.engine.gpu_control import ProcessControl
from pulsemd.engine.minimise import minimise
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import open_transport
from pulsemd.halo.device.local import local_transports
from systems import bundled_system

pytestmark = pytest.mark.gpu


def overlapping(name="water"):
    """A system with a water 0.02 nm from another, and one exactly where another is."""
    system = bundled_system(name, tcoupl="no", nsttcouple=10)
    waters = system.topology.settle_atoms
    shift = np.rint(np.array([0.02, 0.0, 0.0]) @ np.linalg.inv(system.box) * 2**32).astype(np.int32)
    for water, onto, by in ((3, 40, shift), (17, 90, 0)):
        system.x[waters[water]] = system.x[waters[onto]] + by
    return system


def descend(simulation, nsteps):
    """Energies and largest forces of the steps that went down, and what was found."""
    told = []
    found = minimise(
        simulation, Method("steep", 100.0, 0.01, 10, nsteps), lambda _, e: told.append([*e.values()])
    )
    return np.array(told), found


def on_one(system, precision, device="cuda"):
    return Simulation(open_transport("loopback"), system, RunOptions(precision=precision, device=device))


def on_ranks(system, n_ranks, precision):
    (transport,) = local_transports("nvshmem-fused", n_ranks)
    return Simulation(
        ProcessControl(transport), system, RunOptions(device="cuda", ranks=n_ranks, precision=precision)
    )


@pytest.mark.parametrize("name", ["water", "peptide"])
@pytest.mark.parametrize("precision", ["fast", "reproducible"])
def test_the_first_steps_down_on_a_device_are_those_of_the_cpu(device, precision, name):
    system = overlapping(name)
    expected, _ = descend(on_one(system, precision, "cpu"), 5)
    found, _ = descend(on_one(system, precision), 5)
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_minimisation_on_ranks_of_a_device_has_the_bits_of_one(device):
    system = overlapping()
    alone, ranks = on_one(system, "reproducible"), on_ranks(system, 4, "reproducible")
    np.testing.assert_array_equal(descend(ranks, 6)[0], descend(alone, 6)[0])
    assert ranks.trajectory_hash() == alone.trajectory_hash()


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
def test_an_overlapping_start_runs_after_minimisation(device, precision):
    simulation = on_one(overlapping(), precision)
    simulation.warm_up()
    _, found = descend(simulation, 100)
    assert found.energies["potential"] < -40_000
    simulation.run(20)
    assert simulation.evaluate()["potential"] == pytest.approx(found.energies["potential"], rel=0.15)
