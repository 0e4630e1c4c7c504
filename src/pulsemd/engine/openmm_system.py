"""A System of OpenMM as the engine holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pulsemd.engine.system import System, prepare_system
from pulsemd.forcefield.settings import RunSettings
from pulsemd.io.gromacs.mdp import override_settings
from pulsemd.io.openmm import OpenMMSystem


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
        If a setting is refused, or constraints cannot be met.
    """
    chosen = override_settings(RunSettings(), {**found.options, **settings}).with_drawn_seeds()
    start = found.configuration
    system = prepare_system(
        found.topology, found.table, chosen, start.positions, start.velocities, start.box, start.reference
    )
    return replace(
        system, pair_potential=found.pair_potential, excluded_field=False, given_dispersion=found.dispersion
    )
