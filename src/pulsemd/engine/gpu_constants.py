"""What the update on a GPU is told of a system."""

from __future__ import annotations

import math

import numpy as np

from pulsemd.base.units import BOLTZMANN
from pulsemd.device.cuda import CudaDevice
from pulsemd.engine.bath import bath_of
from pulsemd.engine.coupling_groups import portions_of
from pulsemd.engine.extended import chain_masses, thermostat_mass
from pulsemd.engine.movers import ConstrainedGroups, water_kinds
from pulsemd.engine.networks import ConstraintNetworks
from pulsemd.engine.system import System
from pulsemd.forcefield.settings import HeatBath, RunSettings
from pulsemd.kernels.update.gpu import GpuUpdate
from pulsemd.kernels.update.gpu_annealing import GpuAnnealing
from pulsemd.kernels.update.gpu_cell import GpuCell
from pulsemd.kernels.update.gpu_chains import ChainTable
from pulsemd.kernels.update.gpu_tables import Thermostat, UpdateConstants


def update_constants(system: System) -> UpdateConstants:
    """Masses, waters, constraints and virtual sites, time step and thermostats."""
    s, topology = system.settings, system.topology
    return UpdateConstants(
        box=system.box,
        dt=s.dt,
        mass=topology.mass,
        waters=water_kinds(topology),
        groups=ConstrainedGroups(topology),
        thermostats=tuple(
            _thermostat(s, bath, float(n_dof))
            for bath, n_dof in zip(s.baths, system.group_n_dof, strict=True)
        ),
        group=system.group_of_atom,
        seed=s.ld_seed,
        interval=s.nsttcouple * s.dt,
        sites=topology.virtual_sites,
        bath=bath_of(s, topology, system.group_of_atom),
        networks=ConstraintNetworks(topology, s).table(),
        chains=_chains(system) if s.has_chains else None,
        portions=None if system.held_group_of_atom is None else portions_of(system),
        full_steps=s.full_steps,
    )


def _chains(system: System) -> ChainTable:
    s = system.settings
    kt = np.array([BOLTZMANN * bath.ref_t for bath in s.baths])
    first_step = system.step if system.continuation is None else -1
    return ChainTable(chain_masses(s, system.group_n_dof), kt, s.nsttcouple * s.dt, first_step)


def _thermostat(s: RunSettings, bath: HeatBath, n_dof: float) -> Thermostat:
    interval, tau = s.nsttcouple * s.dt, bath.tau_t
    fresh_at_once = tau == 0.0 and s.tcoupl == "v-rescale"
    return Thermostat(
        target=0.5 * n_dof * BOLTZMANN * bath.ref_t,
        n_dof=n_dof,
        keep=math.exp(-interval / tau) if tau > 0 else 0.0 if fresh_at_once else 1.0,
        weak=interval / tau if tau > 0 and s.tcoupl == "berendsen" else 0.0,
        hoover=interval * thermostat_mass(bath) if s.tcoupl == "nose-hoover" and not s.has_chains else 0.0,
        ref_t=bath.ref_t,
    )


def gpu_annealing(
    device: CudaDevice, settings: RunSettings, update: GpuUpdate, cell: GpuCell | None, fixed: bool
) -> GpuAnnealing | None:
    """What lets temperatures of a rank on a device follow time; None without annealing."""
    s, noise = settings, update.noise
    if not s.annealing:
        return None
    widths, keep = (None, None) if noise is None else (noise.widths, noise.keep)
    tables = update.control, update.kinetic.thermostats, widths, keep, None if cell is None else cell.kt
    return GpuAnnealing(device, s.schedules, s.tinit, s.dt, *tables, fixed)
