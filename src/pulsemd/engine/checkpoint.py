"""A simulation's state as a checkpoint, and a system that goes on from one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import InputError
from pulsemd.base.version import versions
from pulsemd.engine.cell import Cell
from pulsemd.engine.extended import Extended
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import Continuation, System, place_reference
from pulsemd.forcefield.nonbonded import LennardJonesTable
from pulsemd.forcefield.settings import RunSettings
from pulsemd.io.checkpoint import Checkpoint
from pulsemd.topology.configuration import Configuration
from pulsemd.topology.records import Topology

MAY_DIFFER = (
    "include", "define", "nsteps", "nstxout", "nstvout", "nstfout", "nstlog", "nstcalcenergy", "nstenergy",
    "nstxout_compressed", "compressed_x_grps", "gen_vel", "gen_temp", "gen_seed", "continuation", "ignored",
)  # fmt: skip
"""Settings a continued run may change: the number of steps, what is written, and what only a start uses."""


def take_checkpoint(simulation: Simulation, topology_hash: str) -> Checkpoint | None:
    """The state of a simulation, on rank 0; collective."""
    system = simulation.system
    simulation.go_to_half_step()
    frame, (thermostat_work, barostat_work) = simulation.gather(), simulation.rank.read_work()
    extended = simulation.rank.read_extended()
    searched = None if simulation.search_is_next else simulation.gather_searched()
    if frame is None:
        return None
    return Checkpoint(
        step=frame.step,
        user_box=frame.cell.user_box,
        box=frame.cell.box,
        frame=system.frame,
        x=frame.x,
        v=frame.v,
        searched=None if searched is None else searched.x,
        searched_box=None if searched is None else searched.cell.box,
        searched_user_box=None if searched is None else searched.cell.user_box,
        image=frame.image if searched is None else searched.image,
        list_cutoff=simulation.r_list,
        thermostat_work=thermostat_work,
        barostat_work=barostat_work,
        extended=extended.values,
        precision=simulation.options.precision,
        settings=_plain(system.settings),
        topology=topology_hash,
        versions=versions(),
        nstlist=simulation.nstlist,
    )


def continued_system(
    path: str | PathLike[str],
    checkpoint: Checkpoint,
    topology: Topology,
    table: LennardJonesTable,
    settings: RunSettings,
    precision: str,
    configuration: Configuration,
    group_of_atom: NDArray[np.int32] | None = None,
    held_group_of_atom: NDArray[np.int32] | None = None,
) -> System:
    """The system of a checkpoint, with the topology and the settings read again.

    Parameters
    ----------
    path : path of the checkpoint, for messages
    settings : RunSettings
        Seeds of -1 are taken from the checkpoint.
    configuration : Configuration
        Of the files, whose reference positions of restraints are in their box.
    group_of_atom, held_group_of_atom : (n,) int32 or None
        As in `System`.

    Raises
    ------
    InputError
        If topology, precision or a setting that may not differ is another one.
    """
    if len(checkpoint.x) != topology.n_atoms or checkpoint.topology != hash_topology(
        topology, table, group_of_atom, held_group_of_atom
    ):
        raise InputError(
            f"is of another system: {len(checkpoint.x)} atoms there, {topology.n_atoms} here, or other parameters or "
            "atoms in tc-grps or comm-grps; continue with the topology and the groups the run began with",
            path,
        )
    if checkpoint.precision != precision:
        raise InputError(
            f"is of precision {checkpoint.precision}; give --precision {checkpoint.precision}", path
        )
    settings = _same_settings(path, checkpoint, settings)
    start, cell = _searched(checkpoint)
    first = checkpoint.user_box if settings.pcoupl == "no" else configuration.box
    restrained = place_reference(topology, settings, configuration.reference, first, checkpoint.frame)
    return System(
        topology,
        table,
        settings,
        cell.user_box,
        cell.box,
        checkpoint.frame,
        start,
        checkpoint.v,
        checkpoint.step,
        restrained,
        Continuation(
            checkpoint.x,
            checkpoint.list_cutoff,
            checkpoint.nstlist or settings.nstlist,
            checkpoint.thermostat_work,
            checkpoint.barostat_work,
            Cell(checkpoint.box, checkpoint.user_box),
            Extended.unpack(checkpoint.extended),
            int(checkpoint.settings.get("nstenergy", 0)),
        ),
        checkpoint.image,
        group_of_atom=group_of_atom,
        held_group_of_atom=held_group_of_atom,
        start_box=first,
    )


def _searched(checkpoint: Checkpoint) -> tuple[NDArray[np.int32], Cell]:
    """Positions and cell of the last search, or those of now, with which the next step begins one."""
    now = Cell(checkpoint.box, checkpoint.user_box)
    if checkpoint.searched is None:
        return checkpoint.x, now
    if checkpoint.searched_box is None or checkpoint.searched_user_box is None:
        return checkpoint.searched, now
    return checkpoint.searched, Cell(checkpoint.searched_box, checkpoint.searched_user_box)


def _same_settings(path: str | PathLike[str], checkpoint: Checkpoint, settings: RunSettings) -> RunSettings:
    """The settings, with the checkpoint's seeds where none are given."""
    there = checkpoint.settings
    settings = replace(
        settings,
        ld_seed=int(there["ld_seed"]) if settings.ld_seed == -1 else settings.ld_seed,
        gen_seed=int(there["gen_seed"]) if settings.gen_seed == -1 else settings.gen_seed,
    )
    defaults = _plain(RunSettings())
    for name, value in _plain(settings).items():
        earlier = there.get(name, defaults[name])
        if name not in MAY_DIFFER and value != earlier:
            raise InputError(
                f"{name} is {earlier} there and {value} now; a run is continued with the settings it began with, "
                "except for nsteps, what is written and how often; others need a new run, from the final.gro of "
                "this one",
                path,
            )
    return settings


def _plain(settings: RunSettings) -> dict[str, Any]:
    """Settings as JSON keeps them."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(settings)))
    return plain


def hash_topology(
    topology: Topology, table: LennardJonesTable, *groups_of_atoms: NDArray[np.int32] | None
) -> str:
    """SHA-256 of every array of a topology, its parameters and the groups that atoms are in, names left out."""
    digest = hashlib.sha256()
    for name, array in (*_arrays(topology), *_arrays(table)):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    for group_of_atom in groups_of_atoms:
        if group_of_atom is not None:
            digest.update(group_of_atom.data)
    return digest.hexdigest()


def _arrays(record: Topology | LennardJonesTable) -> Iterator[tuple[str, NDArray[Any]]]:
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, np.ndarray):
            yield field.name, value
    for kind, terms in sorted(getattr(record, "terms", {}).items()):
        for name in ("atoms", "index", "parameters"):
            yield f"{kind} {name}", getattr(terms, name)
