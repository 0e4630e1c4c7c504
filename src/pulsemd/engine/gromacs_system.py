"""A system in GROMACS files as the engine holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from types import FunctionType
from typing import Any

from pulsemd.engine.coupling_groups import with_coupling_groups
from pulsemd.engine.freeze import frozen_topology
from pulsemd.engine.system import System, prepare_system
from pulsemd.forcefield.settings import RunSettings
from pulsemd.io.gromacs.groups import Groups
from pulsemd.io.gromacs.mdp import override_settings, read_settings
from pulsemd.io.gromacs.system import read_system
from pulsemd.kernels.nonbonded.potential import PairPotential

Path = str | PathLike[str]


def system_from_gromacs(
    conf: Path,
    top: Path,
    mdp: Path | None,
    include: Sequence[Path],
    reference: Path | None,
    index: Path | None,
    pair_potential: PairPotential | FunctionType | None,
    settings: Mapping[str, Any],
) -> System:
    """The system of a simulation without a last step.

    Parameters
    ----------
    conf, top, mdp, include, reference, index, pair_potential
        As for `pulsemd.Simulation.from_gromacs`.
    settings : mapping
        .mdp options by name; they win over the file.

    Raises
    ------
    InputError
        For files, settings or a pair potential that are refused.
    """
    base = RunSettings() if mdp is None else read_settings(mdp)[0]
    chosen = override_settings(base, settings).with_drawn_seeds()
    topology, table, start, chosen = read_system(conf, top, replace(chosen, nsteps=-1), include, reference)
    groups = Groups(topology, index)
    topology, frozen_mass = frozen_topology(topology, chosen, groups)
    system = prepare_system(
        topology, table, chosen, start.positions, start.velocities, start.box, start.reference
    )
    if pair_potential is not None and not isinstance(pair_potential, PairPotential):
        pair_potential = PairPotential(pair_potential)
    system = with_coupling_groups(system, groups)
    return replace(system, frozen_mass=frozen_mass, pair_potential=pair_potential)
