"""Systems for tests on a device."""

from __future__ import annotations

from dataclasses import replace

from pulsemd.engine.system import prepare_system
from pulsemd.io.gromacs.mdp import read_settings
from pulsemd.io.gromacs.system import read_system
from pulsemd.systems import system_files


def bundled_system(name="water", **settings):
    """A bundled system with fixed seeds; keywords replace settings."""
    files = system_files(name)
    found, _ = read_settings(files.parameters)
    found = replace(found, gen_seed=7, ld_seed=11, **settings)
    topology, table, configuration, found = read_system(files.configuration, files.topology, found, ())[:4]
    return prepare_system(
        topology, table, found, configuration.positions, configuration.velocities, configuration.box
    )
