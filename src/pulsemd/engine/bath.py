"""The heat bath of stochastic dynamics: friction and noise of each atom."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.units import BOLTZMANN
from pulsemd.forcefield.settings import RunSettings
from pulsemd.kernels.update.noise import Bath
from pulsemd.topology.records import Topology


def bath_of(settings: RunSettings, topology: Topology, group: NDArray[np.int32] | None = None) -> Bath | None:
    """The bath that the settings ask for; None without stochastic dynamics.

    `group` (n_atoms,) holds the coupling group of each atom, where there are several.
    """
    s = settings
    if s.integrator != "sd":
        return None
    keep = np.exp(-s.dt / np.array(s.baths)[:, 0])
    one = np.zeros(topology.n_atoms, np.int32)
    return with_temperatures(Bath(one if group is None else group, keep, keep, s.ld_seed), s)


def with_temperatures(bath: Bath, settings: RunSettings) -> Bath:
    """The bath with the temperatures that settings have."""
    ref_t = np.array(settings.baths)[:, 1]
    return replace(bath, noise=np.sqrt(BOLTZMANN * ref_t * (1.0 - bath.keep**2)))
