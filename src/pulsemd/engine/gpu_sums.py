"""Kinetic energies and energies of the plan-ranks of all GPU processes, added up without the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.fixed_point import ENERGY_SCALE
from pulsemd.engine.energies import N_SUMS, StepSums
from pulsemd.engine.gpu_part import DevicePart
from pulsemd.kernels.update.leapfrog import KINETIC_SUMS

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport


def step_sums(
    sums: NDArray[Any], fixed: bool, control: np.void, barostat_work: float, volume: float
) -> StepSums:
    """What the energies of a step follow from.

    Parameters
    ----------
    sums : (N_SUMS + 9,) int64 or float64
        Energies and virials over all ranks.
    fixed : bool
        They are in fixed point.
    control : record of `pulsemd.kernels.update.control`
    barostat_work : float, kJ/mol
    volume : float, nm^3
    """
    baths = control["baths"]
    return StepSums(
        sums.astype(np.float64) / (ENERGY_SCALE if fixed else 1.0),
        float(control["kinetic"]),
        float(control["work_then"]),
        barostat_work,
        volume,
        baths["kinetic"].copy() if len(baths) > 1 else np.zeros(0),
    )


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
        n_kinetic = KINETIC_SUMS * parts[0].update.kinetic.n_sums
        self._reduce_kinetic = transport.reduce(n_kinetic, kind, self._stream)
        self._reduce_sums = transport.reduce(N_SUMS + 9, kind)
        self._kinetic_shares = self._device.zeros((len(parts), n_kinetic), kind)
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


def sum_over_processes(transport: GpuTransport, values: list[int]) -> list[int]:
    """Sums over all processes of what each found; collective."""
    if transport.n_local == transport.size:
        return list(values)
    nothing = [0] * len(values)
    shares = transport.each(lambda local, control: control.allgather(values if local == 0 else nothing))[0]
    return [int(n) for n in np.sum(np.array(shares, np.int64), axis=0)]
