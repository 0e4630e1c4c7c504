"""A plan as the integer tables that the exchange kernels read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pulsemd.halo import exchange, plan
from pulsemd.halo.exchange import DEPENDS, LAST, N_COLUMNS, N_WAITS
from pulsemd.halo.faults import WAITS, Fault
from pulsemd.halo.plan import HaloPlan


@dataclass(frozen=True, eq=False)
class Tables:
    """Tables of one channel; columns are named in `pulsemd.halo.exchange`.

    Attributes
    ----------
    pulses : (n_pulses, N_COLUMNS) int64
    rows : (n,) int32
        Rows sent, pulse by pulse in the plan's order.
    routes : (2, n) int32
        Row here and row at the peer, within a pulse grouped by dependency.
    sends : (n_groups, 5) int64
    early : (n,) int64
        Pulses of which nothing is forwarded, last first.
    waits : (N_WAITS, n_pulses) int64
    n_staging : int
        Staging rows needed by the rank that needs most.
    """

    pulses: NDArray[np.int64]
    rows: NDArray[np.int32]
    routes: NDArray[np.int32]
    sends: NDArray[np.int64]
    early: NDArray[np.int64]
    waits: NDArray[np.int64]
    n_staging: int


def build_tables(own: HaloPlan, everyone: NDArray[np.int64], faults: Sequence[Fault]) -> Tables:
    """Tables of a plan.

    Parameters
    ----------
    own : HaloPlan
    everyone : (size, n_pulses, 6) int64
        From `HaloPlan.verify`.
    faults : sequence of Fault
        Those that concern this channel on this rank.
    """
    starts = np.cumsum(everyone[:, :, plan.N_SEND], axis=1) - everyone[:, :, plan.N_SEND]
    n_pulses = len(own.pulses)
    pulses = np.zeros((n_pulses, N_COLUMNS), np.int64)
    for column in ("SEND_RANK", "RECV_RANK", "N_SEND", "N_RECV", "RECV_START"):
        pulses[:, getattr(exchange, column)] = everyone[own.rank][:, getattr(plan, column)]
    pulses[:, exchange.STAGING] = starts[own.rank]
    pulses[:, exchange.REMOTE_STAGING] = starts[pulses[:, exchange.RECV_RANK], np.arange(n_pulses)]
    routes, sends = _group(own)
    forwarded = set(sends[:, DEPENDS].tolist())
    early = np.array([k for k in range(n_pulses) if k not in forwarded], np.int64)[::-1].copy()
    waits = np.ones((N_WAITS, n_pulses), np.int64)
    if any(fault.kind == "reorder" for fault in faults):
        early = early[::-1].copy()
        sends = np.concatenate([sends[sends[:, DEPENDS] < 0][::-1], sends[sends[:, DEPENDS] >= 0]])
    _inject(faults, pulses, waits)
    rows = np.concatenate([np.empty(0, np.int32), *(pulse.send_rows for pulse in own.pulses)])
    n_staging = int(everyone[:, :, plan.N_SEND].sum(axis=1).max(initial=0))
    return Tables(pulses, rows, routes, sends, early, waits, n_staging)


def _group(own: HaloPlan) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Routes and sends of a plan: the rows of each pulse, those that wait for nothing first."""
    routes = [np.empty((2, 0), np.int32)]
    sends: list[tuple[int, ...]] = []
    begin = 0
    for index, pulse in enumerate(own.pulses):
        route = np.empty((2, pulse.n_send), np.int32)
        route[0], route[1] = pulse.send_rows, np.arange(pulse.remote_start, pulse.remote_start + pulse.n_send)
        groups = [(-1, pulse.n_send)]
        if pulse.n_send and pulse.depends.max() >= 0:
            route = route[:, np.argsort(pulse.depends, kind="stable")]
            sources, counts = np.unique(pulse.depends, return_counts=True)
            groups = list(zip(sources, counts, strict=True))
        routes.append(route)
        for source, count in groups:
            sends.append((index, source, begin, begin + count, 0))
            begin += count
        sends[-1] = (*sends[-1][:LAST], 1)
    table = np.array(sends, np.int64).reshape(len(sends), 5)
    return np.ascontiguousarray(np.concatenate(routes, axis=1)), table


def _inject(faults: Sequence[Fault], pulses: NDArray[np.int64], waits: NDArray[np.int64]) -> None:
    for fault in faults:
        if fault.kind == "delay":
            pulses[fault.pulses(), exchange.DELAY] = fault.us
        elif fault.kind == "duplicate":
            pulses[fault.pulses(), exchange.REPEATS] = 1
        elif fault.kind == "skip":
            waits[WAITS.index(fault.wait), fault.pulses()] = 0
