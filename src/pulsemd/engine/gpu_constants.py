"""What the update on a GPU is told of a system."""

from __future__ import annotations

import math

from pulsemd.base.units import BOLTZMANN
from pulsemd.engine.bath import bath_of
from pulsemd.engine.coupling import degrees_of_freedom
from pulsemd.engine.extended import thermostat_mass
from pulsemd.engine.movers import ConstrainedGroups, water_kinds
from pulsemd.engine.networks import ConstraintNetworks
from pulsemd.engine.system import System
from pulsemd.kernels.update.gpu_tables import UpdateConstants


def update_constants(system: System) -> UpdateConstants:
    """Masses, waters, constraints and virtual sites, time step and thermostat."""
    s, topology = system.settings, system.topology
    interval, bath = s.nsttcouple * s.dt, s.baths[0]
    n_dof = degrees_of_freedom(topology, s)
    return UpdateConstants(
        box=system.box,
        dt=s.dt,
        mass=topology.mass,
        waters=water_kinds(topology),
        groups=ConstrainedGroups(topology),
        target=0.5 * n_dof * BOLTZMANN * bath.ref_t,
        n_dof=n_dof,
        keep=math.exp(-interval / bath.tau_t) if bath.tau_t > 0 else 0.0,
        weak=interval / bath.tau_t if s.tcoupl == "berendsen" else 0.0,
        seed=s.ld_seed,
        sites=topology.virtual_sites,
        bath=bath_of(s, topology),
        hoover=interval * thermostat_mass(bath) if s.tcoupl == "nose-hoover" else 0.0,
        ref_t=bath.ref_t,
        interval=interval,
        networks=ConstraintNetworks(topology, s).table(),
    )
