"""What the kernels of a step need to exchange rows and forces by themselves, see step.cuh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pulsemd.base.errors import PlanError
from pulsemd.halo.device.channel import FusedChannel
from pulsemd.halo.device.cuda_programs import THREADS, step_program
from pulsemd.halo.device.tables import REVERSE_ARRIVAL, SIGNAL_BYTES
from pulsemd.halo.plan import HaloPlan

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport

MOST_PULSES: Final = 32
_BLOCKS: Final = 16
_STATE_BYTES: Final = 128


class StepHalo:
    """Signals and routes of exchanges that are part of other kernels, where stores reach all ranks; collective to make.

    Parameters
    ----------
    transport : GpuTransport
    plans : (K,) sequence of HaloPlan
        Direct ones of the local plan-ranks; ranks and number of pulses stay as long as this object.
    x, f : (K, slots, 4), CuPy
        Positions and forces, as `GpuTransport.allocate` made them.

    Attributes
    ----------
    n_pulses : int
    tables : list of device arrays
        `StepRank` of step.cuh of each local plan-rank.
    """

    description = "the exchange inside steps"

    def __init__(self, transport: GpuTransport, plans: Sequence[HaloPlan], x: Any, f: Any) -> None:
        device, self.n_pulses = transport.device, len(plans[0].pulses)
        if self.n_pulses > MOST_PULSES:
            raise PlanError(f"exchanges inside steps have {self.n_pulses} pulses, at most {MOST_PULSES} fit")
        self._transport = transport
        self._ranks = [[(pulse.send_rank, pulse.recv_rank) for pulse in plan.pulses] for plan in plans]
        self._signals = transport.region(2 * self.n_pulses * SIGNAL_BYTES)
        n_local, slots = transport.n_local, x.shape[1]
        self._states = device.zeros((n_local, _STATE_BYTES // 8), np.uint64)
        # Rows of epoch 1 are here, by the search. Words that are 0 must not say that the forces on them are, too.
        with device.current():
            self._states[:, 0] = 1
            self._signals.view((n_local, 2, self.n_pulses, SIGNAL_BYTES // 8), np.uint64)[:, 0, :, 0] = 1
        self._sent = device.zeros((n_local, slots), np.uint32)
        self._place = device.zeros((n_local, slots, self.n_pulses), np.int32)
        rows, forces = transport.field(x)[1], transport.field(f)[1]
        self._pulses = device.to_device(
            np.array(
                [
                    [
                        (
                            rows.address(to),
                            forces.address(to),
                            self._signals.address(to) + p * SIGNAL_BYTES,
                            self._signals.address(back) + (self.n_pulses + p) * SIGNAL_BYTES,
                        )
                        for p, (to, back) in enumerate(pulses)
                    ]
                    for pulses in self._ranks
                ],
                np.uint64,
            )
        )
        number = transport.register(self, None)
        table = [
            (
                int(self._states[k].data.ptr),
                int(transport.control_words.data.ptr),
                self._signals.own(k),
                *(int(array[k].data.ptr) for array in (self._pulses, self._sent, self._place)),
                *(self.n_pulses, k, number),
            )
            for k in range(n_local)
        ]
        self._table = device.to_device(np.array(table, np.uint64))
        self.tables = [self._table[k] for k in range(n_local)]
        device.synchronize()
        transport.meet()

    def follow(self, forward: FusedChannel) -> None:
        """Take the routes from the tables of this channel from now on; after each of its rebinds."""
        parts = forward.parts("forward")
        _, _, _, items, _ = parts.tables.arrays()
        kernel = self._transport.memory.kernel(step_program(), "list_routes")
        self._list = kernel.bind(
            (_BLOCKS, self._transport.n_local, self.n_pulses),
            THREADS,
            self._table,
            parts.tables.messages,
            items,
            np.int32(parts.slots),
        )

    def list_routes(self) -> None:
        """Launch the listing of which rows go where, on the main stream, once those tables are made."""
        self._transport.device.clear(self._sent)
        self._list()

    def peer(self, kind: int, local: int, pulse: int) -> int:
        """Rank that a report of the device means."""
        to, back = self._ranks[local][pulse]
        return to if kind == REVERSE_ARRIVAL else back

    def close(self) -> None:
        """Give memory back; collective, after all work has ended everywhere."""
        self._transport.memory.free(self._signals.block)
