"""What the engine computes at the positions of a system, on any number of ranks."""

from __future__ import annotations

import numpy as np

from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import System
from pulsemd.halo import Transport, launch


def evaluate(system, ranks=1, precision="fast", plan="auto", grid=None):
    """Energies, forces by global id, and the virial of pairs and terms, by ranks that are threads."""
    options = RunOptions(ranks, grid, "loopback", plan, precision)
    return launch(ranks, f"{__name__}:evaluate_on_rank", (system, options), "loopback")


def evaluate_on_rank(transport: Transport, payload: tuple[System, RunOptions]):
    """The same on each of the ranks."""
    system, options = payload
    simulation = Simulation(transport, system, options)
    energies = simulation.evaluate()
    rank = simulation.rank
    n = rank.domain.n_owned
    forces = rank.f[:n] * (2.0**-32 if options.precision == "reproducible" else 1.0)
    parts = transport.allgather((rank.domain.gid[:n], forces.astype(float)))
    total = np.zeros((system.topology.n_atoms, 3))
    for gid, part in parts:
        total[gid] = part
    return energies, total, rank.found.sums[2:11]


def assert_same_bits(found, expected):
    """Two results of `evaluate` are equal to the last bit."""
    assert found[0] == expected[0]
    for array, wanted in zip(found[1:], expected[1:], strict=True):
        assert np.array_equal(array, wanted)
