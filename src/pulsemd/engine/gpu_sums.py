"""Kinetic energies and energies of the plan-ranks of all GPU processes, added up without the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pulsemd.engine.energies import N_SUMS
from pulsemd.engine.gpu_part import DevicePart

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport


class SumsOfRanks:
    """Sums over all ranks; collective to make.

    Parameters
    ----------
    transport : GpuTransport
    parts : sequence of DevicePart
    kind : dtype
        int64 or float64.

    Attributes
    ----------
    totals : (N_SUMS + 9,) device
        What `add_energies` found.
    """

    def __init__(self, transport: GpuTransport, parts: Sequence[DevicePart], kind: Any) -> None:
        self._device, self._parts = transport.device, parts
        self._stream = self._device.new_stream(priority=-1)
        self._reduce_kinetic = transport.reduce(5, kind, self._stream)
        self._reduce_sums = transport.reduce(N_SUMS + 9, kind)
        self._kinetic_shares = self._device.zeros((len(parts), 5), kind)
        self._shares = self._device.zeros((len(parts), N_SUMS + 9), kind)
        self.totals = self._device.zeros(N_SUMS + 9, kind)
        for part, share in zip(parts, self._kinetic_shares, strict=True):
            part.update.share_kinetic(share, self._stream)

    def begin(self, offset: int, after: bool, thermostat: int, remove_com: int) -> None:
        """Sum the kinetic energy over all ranks, and let every rank make the same of it, beside the main stream.

        Parameters
        ----------
        offset : int, of the step
        after : bool
            After the move, else before it: then nothing that comes until `end` may change velocities.
        thermostat, remove_com : int
            See `GpuUpdate.sum_kinetic`.
        """
        self._device.fork(self._stream)
        for part in self._parts:
            if after:
                part.update.sum_kinetic_after()
            else:
                part.update.sum_kinetic(offset, thermostat, remove_com)
        everywhere = self._reduce_kinetic.sum(self._kinetic_shares)  # the same array each time
        for part, totals in zip(self._parts, everywhere, strict=True):
            part.update.couple(totals, offset, after, thermostat, remove_com)

    def end(self) -> None:
        """Let the main stream go on only after what `begin` launched."""
        self._device.join(self._stream)

    def add_energies(self) -> None:
        """Sum energies and virials over all ranks, into `totals`."""
        for part, share in zip(self._parts, self._shares, strict=True):
            self._copy(part.sums, share)
        self._copy(self._reduce_sums.sum(self._shares)[0], self.totals)

    def _copy(self, source: Any, target: Any) -> None:
        target.data.copy_from_device_async(source.data, source.nbytes, self._device.stream)
