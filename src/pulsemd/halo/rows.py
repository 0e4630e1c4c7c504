"""Plans from global ids: any distribution of rows over ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pulsemd.base.errors import PlanError
from pulsemd.halo.plan import HaloPlan, Pulse, whole_numbers

if TYPE_CHECKING:
    from pulsemd.halo.transport import Transport

Ids = NDArray[np.int64]


def plan_from_ids(transport: Transport, owned_ids: ArrayLike, ghost_ids: ArrayLike) -> tuple[HaloPlan, Ids]:
    """Direct plan that brings the rows with given global ids from their owners; collective.

    Parameters
    ----------
    transport : Transport
    owned_ids : (n_owned,) int64
        Non-negative ids of the rows of this rank, in row order; every id is owned once.
    ghost_ids : (n_ghost,) int64
        Ids wanted as ghosts; own ids are allowed and come by a pulse to the own rank.

    Returns
    -------
    plan : HaloPlan
        ``size`` pulses; in pulse k a rank sends to rank + k and receives from rank - k.
    ids : (n_local,) int64
        Id of each local row: the owned ones, then the ghosts grouped by pulse.

    Raises
    ------
    PlanError
        On every rank, if an id is no whole number, negative, owned twice or by nobody; names rank and id.
    """
    owned, ghosts = _checked_ids(transport, owned_ids, ghost_ids)
    owners = _find_owners(transport, owned, ghosts)
    rank, size = transport.rank, transport.size
    wanted = [ghosts[owners == source] for source in range(size)]
    requests = transport.alltoall(wanted)
    order = np.argsort(owned)
    rows = [order[np.searchsorted(owned, ids, sorter=order)].astype(np.int32) for ids in requests]
    counts = [len(wanted[(rank - k) % size]) for k in range(size)]
    starts = len(owned) + np.cumsum([0, *counts])
    landing = [np.array([starts[(rank - source) % size]]) for source in range(size)]
    remote = transport.alltoall(landing)
    pulses = []
    for k in range(size):
        target, source = (rank + k) % size, (rank - k) % size
        none = np.full(len(rows[target]), -1, np.int32)
        pulses.append(
            Pulse(-1, target, source, rows[target], int(starts[k]), counts[k], int(remote[target][0]), none)
        )
    plan = HaloPlan(rank, size, len(owned), int(starts[-1]), tuple(pulses), "direct")
    return plan, np.concatenate([owned, *(wanted[(rank - k) % size] for k in range(size))])


def _checked_ids(transport: Transport, owned_ids: ArrayLike, ghost_ids: ArrayLike) -> tuple[Ids, Ids]:
    """Both as int64, whole and not negative on every rank; collective."""
    owned = ghosts = np.empty(0, np.int64)
    error = None
    try:
        owned = whole_numbers(owned_ids, f"owned ids of rank {transport.rank}")
        ghosts = whole_numbers(ghost_ids, f"ghost ids of rank {transport.rank}")
    except PlanError as problem:
        error = problem
    if min(owned.min(initial=0), ghosts.min(initial=0)) < 0:
        error = PlanError(f"plan: rank {transport.rank} has a negative id; use ids from 0")
    transport.agree(error)
    return owned, ghosts


def _find_owners(transport: Transport, owned: Ids, ghosts: Ids) -> NDArray[np.int64]:
    """Owner of each ghost id, from a directory in which rank ``id % size`` knows who owns ``id``."""
    size = transport.size
    error = None
    entries = transport.alltoall([owned[owned % size == place] for place in range(size)])
    ids = np.concatenate(entries)
    sources = np.repeat(np.arange(size), [len(part) for part in entries])
    order = np.argsort(ids, kind="stable")
    ids, sources = ids[order], sources[order]
    twice = np.flatnonzero(ids[1:] == ids[:-1])
    if len(twice):
        first, second = sources[twice[0]], sources[twice[0] + 1]
        error = PlanError(f"plan: id {ids[twice[0]]} is owned by rank {first} and by rank {second}")
    transport.agree(error)
    questions = transport.alltoall([ghosts[ghosts % size == place] for place in range(size)])
    answers = []
    for rank, wanted in enumerate(questions):
        places = np.minimum(np.searchsorted(ids, wanted), max(len(ids) - 1, 0))
        known = ids[places] == wanted if len(ids) else np.zeros(len(wanted), bool)
        if not known.all():
            error = PlanError(
                f"plan: id {wanted[~known][0]}, wanted as a ghost by rank {rank}, is owned by no rank"
            )
        answers.append(sources[places] if len(ids) else np.zeros(len(wanted), np.int64))
    transport.agree(error)
    owners = np.empty(len(ghosts), np.int64)
    for place, found in enumerate(transport.alltoall(answers)):
        owners[ghosts % size == place] = found
    return owners
