"""Energies, virial and forces of a system at its positions on a device."""

from __future__ import annotations

import numpy as np

from pulsemd.engine.coupling import StepFlags
from pulsemd.engine.energies import N_PAIR_SUMS, N_SUMS, VIRIAL
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import open_transport
from pulsemd.kernels.constraints.virtual_sites import spread_sites
from pulsemd.schedule.phase import PhaseTimer


def simulate(system, precision, device="cuda"):
    """A simulation on one rank."""
    return Simulation(open_transport("loopback"), system, RunOptions(precision=precision, device=device))


def virial_of(simulation):
    """Virial of the last energies without constraints, (9,) kJ/mol, and the largest element of its parts."""
    sums = simulation.rank.found.sums
    parts = sums[VIRIAL:N_PAIR_SUMS], sums[N_SUMS:]
    return sum(parts), np.abs(parts).max()


def forces_of(simulation):
    """Forces by global id, those on virtual sites handed to their parents, (n, 3) kJ/mol/nm."""
    rank, system = simulation.rank, simulation.system
    rank.begin_step(StepFlags(0))
    PhaseTimer().run(rank.force_phases())
    rows, gid = rank.device.to_host(rank.f).astype(float), rank.device.to_host(rank._slots.gid)
    f = np.zeros((system.topology.n_atoms, 3))
    f[gid[gid >= 0]] = rows[gid >= 0, :3] * (2.0**-32 if rank.reproducible else 1.0)
    s = system.topology.virtual_sites
    spread_sites(system.x, f, 1.0, s.kind, s.offset, s.atoms, s.values, system.box, np.zeros(0), 0.0)
    return f
