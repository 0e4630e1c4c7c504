"""A System of OpenMM as the engine holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pulsemd.base.errors import InputError
from pulsemd.engine.coupling_groups import with_coupling_groups
from pulsemd.engine.freeze import frozen_topology
from pulsemd.engine.system import System, prepare_system
from pulsemd.forcefield.settings import RunSettings
from pulsemd.io.gromacs.groups import Groups
from pulsemd.io.gromacs.mdp import override_settings
from pulsemd.io.openmm import OpenMMSystem

_OF_TOPOLOGY_FILES = ("define", "include", "constraints", "disre")
"""Options that change what is read from GROMACS topologies."""


def system_from_openmm(found: OpenMMSystem, settings: Mapping[str, Any]) -> System:
    """The system of a run.

    Parameters
    ----------
    found : OpenMMSystem
    settings : mapping
        .mdp options by name; they win over what the System and the integrator say.

    Raises
    ------
    InputError
        If a setting is refused or without a meaning here, or constraints cannot be met.
    """
    chosen = override_settings(RunSettings(), {**found.options, **settings}).with_drawn_seeds()
    for name in _OF_TOPOLOGY_FILES:
        if getattr(chosen, name) != getattr(RunSettings(), name):
            raise InputError(
                f"{name} = {getattr(chosen, name)} is for GROMACS topologies; a System of OpenMM has its constraints "
                "and terms already, remove the option"
            )
    start, groups = found.configuration, Groups(found.topology)
    topology, frozen_mass = frozen_topology(found.topology, chosen, groups)
    system = prepare_system(
        topology, found.table, chosen, start.positions, start.velocities, start.box, start.reference
    )
    return replace(
        with_coupling_groups(system, groups),
        pair_potential=found.pair_potential,
        excluded_field=False,
        given_dispersion=found.dispersion,
        frozen_mass=frozen_mass,
    )
