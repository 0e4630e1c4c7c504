"""Energies of every step of a system on a device or a CPU, and a barostat to take them with."""

from __future__ import annotations

from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import open_transport

BAROSTAT = {
    "pcoupl": "c-rescale",
    "tau_p": 0.5,
    "nstpcouple": 3,
    "compressibility": (4.5e-5,),
    "ref_p": (500.0,),
}


def states(system, device, precision, steps):
    """Energies in every step, the last frame, and the work of thermostat and barostat."""
    records = []
    options = RunOptions(precision=precision, device=device, raise_nstlist=False)
    with open_transport("loopback") as transport:
        simulation = Simulation(transport, system, options)
        for _ in range(steps):
            simulation.run(1)
            records.append(simulation.evaluate())
        return records, simulation.gather(), simulation.rank.read_work()
