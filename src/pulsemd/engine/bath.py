"""The heat bath of stochastic dynamics: friction and noise of each atom."""

from __future__ import annotations

import numpy as np

from pulsemd.base.units import BOLTZMANN
from pulsemd.forcefield.settings import RunSettings
from pulsemd.kernels.update.noise import Bath
from pulsemd.topology.records import Topology


def bath_of(settings: RunSettings, topology: Topology) -> Bath | None:
    """The bath that the settings ask for; None without stochastic dynamics."""
    s = settings
    if s.integrator != "sd":
        return None
    keep = np.array([np.exp(-s.dt / s.tau_t)])
    noise = np.sqrt(BOLTZMANN * s.ref_t * (1.0 - keep**2))
    return Bath(np.zeros(topology.n_atoms, np.int32), keep, noise, s.ld_seed)
