"""What the plan-ranks of a process learn from the others when plans are bound: where their rows land."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import PlanError
from pulsemd.halo.plan import RECV_START, HaloPlan
from pulsemd.halo.transport import Transport

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport

Slots = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Routes:
    """Plans of the local plan-ranks and the slots of rows, here and at their peers.

    Attributes
    ----------
    plans : (K,) tuple of HaloPlan
    tables : (size, n_pulses, 6) int64
        From `HaloPlan.verify`.
    n_locals : (size,) tuple of int
    slots : (K,) tuple of (n_local,) int32
        Slot of each local row.
    there : (K,) tuple, for each pulse (n_send,) int32
        Slots that the sent rows fill at the receiver.
    back : (K,) tuple, for each pulse (n_recv,) int32
        Slots of the received rows at their sender; empty if not asked for.
    """

    plans: tuple[HaloPlan, ...]
    tables: NDArray[np.int64]
    n_locals: tuple[int, ...]
    slots: tuple[Slots, ...]
    there: tuple[tuple[Slots, ...], ...]
    back: tuple[tuple[Slots, ...], ...]

    @property
    def n_pulses(self) -> int:
        """Pulses of every rank."""
        return int(self.tables.shape[1])

    def n_owned(self, rank: int) -> int:
        """Owned rows of any rank: the first ghost row of its first pulse."""
        return int(self.tables[rank, 0, RECV_START])


def share_routes(
    transport: GpuTransport, plans: Sequence[HaloPlan], places: Sequence[Slots] | None, back: bool
) -> Routes:
    """Verify the plans and tell all ranks where the rows lie that they exchange with this process; collective.

    Parameters
    ----------
    transport : GpuTransport
    plans : (K,) sequence of HaloPlan
    places : (K,) sequence of (n_local,) int32, optional
    back : bool
        Whether receivers want the senders' slots too.
    """
    if len(plans) != transport.n_local or (places is not None and len(places) != transport.n_local):
        raise PlanError(
            f"channel: process {transport.memory.process} holds {transport.n_local} plan-ranks, "
            f"but got {len(plans)} plans and {len(plans if places is None else places)} lists of slots"
        )
    slots = tuple(
        np.arange(plan.n_local, dtype=np.int32) if places is None else np.asarray(places[k], np.int32)
        for k, plan in enumerate(plans)
    )
    for plan, own in zip(plans, slots, strict=True):
        if len(own) != plan.n_local:
            raise PlanError(f"channel: rank {plan.rank} has {plan.n_local} local rows but {len(own)} slots")

    def share(
        local: int, control: Transport
    ) -> tuple[NDArray[np.int64], list[int], list[Slots], list[Slots]]:
        plan, own = plans[local], slots[local]
        tables, n_locals = plan.verify(control)
        pulses = plan.pulses
        senders, receivers = [p.recv_rank for p in pulses], [p.send_rank for p in pulses]
        ghosts = [own[p.recv_start : p.recv_start + p.n_recv] for p in pulses]
        if places is None:
            there = [np.arange(p.remote_start, p.remote_start + p.n_send, dtype=np.int32) for p in pulses]
        else:
            there = _tell(control, senders, ghosts, receivers, [p.n_send for p in pulses])
        sent = [own[p.send_rows] for p in pulses]
        answer = _tell(control, receivers, sent, senders, [p.n_recv for p in pulses]) if back else []
        return tables, n_locals, there, answer

    shared = transport.each(share)
    tables, n_locals = shared[0][0], tuple(shared[0][1])
    there, answers = (tuple(tuple(share[column]) for share in shared) for column in (2, 3))
    return Routes(tuple(plans), tables, n_locals, slots, there, answers)


def _tell(
    control: Transport,
    targets: Sequence[int],
    messages: Sequence[Slots],
    sources: Sequence[int],
    counts: Sequence[int],
) -> list[Slots]:
    """Give each pulse's message to its target; what its source gave, cut into ``counts``; collective."""
    parts: list[list[Slots]] = [[np.empty(0, np.int32)] for _ in range(control.size)]
    for target, message in zip(targets, messages, strict=True):
        parts[target].append(message)
    letters = control.alltoall([np.concatenate(part) for part in parts])
    read = [0] * control.size
    answers = []
    for source, count in zip(sources, counts, strict=True):
        answers.append(letters[source][read[source] : read[source] + count])
        read[source] += count
    return answers
