"""A whole system from GROMACS files: structure, topology and settings, checked against each other."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import InputError
from pulsemd.forcefield.nonbonded import LennardJonesTable
from pulsemd.forcefield.settings import RunSettings
from pulsemd.io.gromacs.assemble import assemble
from pulsemd.io.gromacs.gro import CHUNK, GroFile, read_gro
from pulsemd.io.gromacs.mdp import read_settings
from pulsemd.io.gromacs.top import read_draft
from pulsemd.topology.configuration import Configuration
from pulsemd.topology.records import Topology
from pulsemd.topology.restraints import restraint_centre
from pulsemd.topology.terms import REFERENCED

log = logging.getLogger(__name__)

PathName = str | PathLike[str]


def read_top(
    path: PathName, settings: RunSettings | None = None, include_dirs: Sequence[PathName] = ()
) -> tuple[Topology, LennardJonesTable]:
    """Read a topology (.top) with everything it includes.

    Parameters
    ----------
    path : path
    settings : RunSettings, optional
        Give macros, folders of included files, constraints, and whether distance restraints act; the defaults of all.
    include_dirs : sequence of path
        Folders searched for included files, after those of the setting ``include``.

    Raises
    ------
    TopologyError
        With file and line.
    """
    s = RunSettings() if settings is None else settings
    return assemble(
        read_draft(path, s.define, (*s.include, *include_dirs)),
        s.constraints,
        s.disre_fc if s.disre == "simple" else None,
        s.constraint_algorithm,
    )


def read_system(
    conf: PathName,
    top: PathName,
    mdp: PathName | RunSettings,
    include_dirs: Sequence[PathName] = (),
    reference: PathName | None = None,
) -> tuple[Topology, LennardJonesTable, Configuration, RunSettings]:
    """Read the three files of a run.

    Parameters
    ----------
    conf : path of a .gro
    top : path of a .top
    mdp : path of a .mdp or .toml, or the settings already read
    include_dirs : sequence of path
        Folders searched for included files, after those of the setting ``include``.
    reference : path of a .gro, optional
        Reference positions of position restraints; needed where there are any.

    Raises
    ------
    InputError
        With file and line.
    """
    settings = mdp if isinstance(mdp, RunSettings) else read_settings(mdp)[0]
    topology, table = read_top(top, settings, include_dirs)
    frame = read_gro(conf)
    if len(frame.positions) != topology.n_atoms:
        raise InputError(
            f"{len(frame.positions)} atoms, but the topology {top} describes {topology.n_atoms}; "
            "correct [ molecules ] there or the number of atoms here",
            conf,
            2,
        )
    _compare_names(conf, frame, topology)
    restrained = _read_reference(conf, top, reference, topology, settings, frame.box)
    configuration = Configuration(frame.positions, frame.velocities, frame.box, frame.title, restrained)
    return topology, table, configuration, settings


def _read_reference(
    conf: PathName,
    top: PathName,
    reference: PathName | None,
    topology: Topology,
    settings: RunSettings,
    box: NDArray[np.float64],
) -> NDArray[np.float64] | None:
    """Reference positions of restraints, which gmx too takes from a file given for it and from no other.

    Those that scale with the box are at the same fractions of `box` as of the box of their file, as in gmx; with
    refcoord-scaling = com only their centre is.
    """
    if not any(kind in topology.terms for kind in REFERENCED):
        if reference is not None:
            log.warning("%s: not used, the topology has no position restraints", reference)
        return None
    if reference is None:
        raise InputError(
            "has position restraints, which need reference positions; give -r, in Python reference= "
            f"(-r {conf} restrains to the start)",
            top,
        )
    frame = read_gro(reference)
    if len(frame.positions) != topology.n_atoms:
        raise InputError(
            f"{len(frame.positions)} reference positions, but the topology {top} describes {topology.n_atoms} atoms",
            reference,
            2,
        )
    if settings.refcoord_scaling == "no" or np.array_equal(box, frame.box):
        return frame.positions
    change = np.linalg.inv(frame.box) @ box
    if settings.refcoord_scaling == "com":
        centre = restraint_centre(topology, frame.positions)
        return np.asarray(frame.positions + (centre @ change - centre), np.float64)
    return np.asarray(frame.positions @ change, np.float64)


def _compare_names(conf: PathName, frame: GroFile, topology: Topology) -> None:
    """Warn of atoms that are named differently; the names of the topology are used, as in gmx."""
    different, example = 0, ""
    for first in range(0, topology.n_atoms, CHUNK):
        last = min(first + CHUNK, topology.n_atoms)
        names = topology.labels(first, last).atom_name.astype("S5")
        bad = np.flatnonzero(names != frame.atom_name[first:last])
        if len(bad) and not different:
            gid = first + int(bad[0])
            example = f"{topology.describe_atom(gid)} is {frame.atom_name[gid].decode('utf-8', 'replace')}"
        different += len(bad)
    if different:
        log.warning("%s: %d atom names differ from the topology's: %s there", conf, different, example)
