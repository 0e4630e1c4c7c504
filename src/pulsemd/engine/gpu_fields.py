"""Positions and forces of the plan-ranks of a GPU process in slots, and what exchanges them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.engine.gpu_part import DevicePart
from pulsemd.engine.rank import GROWTH
from pulsemd.engine.system import System
from pulsemd.halo import HaloPlan
from pulsemd.halo.device.step import StepHalo

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport

FEW_ATOMS = 12_000
"""Atoms of a GPU up to which steps whose kernels exchange by themselves measured faster than exchanges beside them."""

FEW_RANKS = 1
"""Ranks of a GPU up to which they do so; the kernels of several would come one after the other."""

GRAPH_RUNGS = ("nvshmem-step", "nvshmem-fused", "nvshmem-pulse")
"""Rungs whose exchanges the device starts, so that they can be part of a graph that outlives searches."""


class DeviceFields:
    """Arrays of all slots and their channels. All calls are collective.

    Parameters
    ----------
    transport : GpuTransport
    system : System
    parts : sequence of DevicePart
    kind : dtype
        Of forces, int64 or float32.
    stream : stream of the device
        Of the exchanges.
    stays : bool
        Whether searches may run on the device.

    Attributes
    ----------
    capacity : int
        Slots of each plan-rank.
    x, f : (K, slots, 4) int32, and float32 or int64, device
        Positions and forces.
    forces : list of device arrays
        Forces of each plan-rank; the same objects as long as `f`.
    channel_x, channel_f : channels of positions and forces
    starts_itself, stops_host : bool
        Whether the device starts exchanges and sums, and whether the host waits in them.
    steps : StepHalo or None
        Of exchanges inside the kernels of a step, where the rung, the system and its size allow them.
    """

    def __init__(
        self,
        transport: GpuTransport,
        system: System,
        parts: Sequence[DevicePart],
        kind: Any,
        stream: Any,
        stays: bool,
    ) -> None:
        self._transport, self._parts, self._kind, self._stream = transport, parts, kind, stream
        self.capacity = 0
        self.x: Any = None
        self.f: Any = None
        self.channel_x: Any = None
        self.channel_f: Any = None
        self.starts_itself = transport.name in GRAPH_RUNGS
        self.stops_host = transport.name == "mpi"
        settings = system.settings
        self._fuses = (
            stays
            and transport.name == "nvshmem-step"
            and system.topology.n_atoms <= FEW_ATOMS * transport.memory.n_processes
            and transport.n_local <= FEW_RANKS
            and (settings.pcoupl, settings.coulombtype == "pme") == ("no", False)
            and all(part.can_exchange for part in parts)
        )
        self.steps: StepHalo | None = None

    @property
    def versions(self) -> tuple[Any, ...]:
        """Changes with whatever a recorded graph refers to."""
        channels = (self.channel_x, self.channel_f) if self.starts_itself else ()
        return (*((id(channel), channel.generation) for channel in channels), id(self.steps))

    def make_room(self, need: int) -> bool:
        """Slots on all ranks, by a rule that all evaluate alike; whether there are new arrays."""
        if need <= self.capacity:
            return False
        self.capacity = 64 * math.ceil(need * GROWTH / 64)
        self.x = self._transport.allocate("positions", self.capacity, 4, np.int32)
        self.f = self._transport.allocate("forces", self.capacity, 4, self._kind)
        self.forces = list(self.f)
        for part, x in zip(self._parts, self.x, strict=True):
            part.pairs.pairs.use_slots(x)
        return True

    def bind(self, plans: list[HaloPlan], places: list[NDArray[np.int32]], most: int, grown: bool) -> None:
        """Exchange by other plans from now on.

        Parameters
        ----------
        plans, places
            As for `GpuTransport.channel`.
        most : int
            Rows of a pulse that tables made on the device have room for.
        grown : bool
            The arrays are new.
        """
        outgrown = [channel for channel in (self.channel_x, self.channel_f) if channel and grown]
        if grown:
            make: Callable[..., Any] = partial(
                self._transport.channel, plans, stream=self._stream, places=places
            )
            room: dict[str, Any] = {"most": most} if self.starts_itself else {}
            self.channel_x = make(self.x, directions="forward", **room)
            if self.starts_itself:
                room["releases"] = self.channel_x
            self.channel_f = make(self.f, directions="reverse", **room)
        else:
            for channel in (self.channel_x, self.channel_f):
                if self.starts_itself:
                    channel.most = most
                channel.rebind(plans, places)
        if self._fuses:
            self._bind_steps(plans, grown)
        for channel in outgrown:  # all ranks have met since its exchanges have ended
            channel.close()
        self._transport.free_replaced()

    def _bind_steps(self, plans: list[HaloPlan], grown: bool) -> None:
        if self.steps is None or grown or self.steps.n_pulses != len(plans[0].pulses):
            if self.steps is not None:
                self.steps.close()
            self.steps = StepHalo(self._transport, plans, self.x, self.f)
            for part in self._parts:
                part.pairs.load_exchanged()
                part.update.load_exchanged()
            self._transport.meet()  # loading may take longer than a peer waits on its device
        self.steps.follow(self.channel_x)
        self.steps.list_routes()
