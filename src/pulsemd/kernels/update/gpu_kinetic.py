"""Kinetic energies on a device, and what thermostats make of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pulsemd.device.cuda import CudaDevice
from pulsemd.device.overlap import Wait
from pulsemd.kernels.search.gpu_layout import Slots
from pulsemd.kernels.update.control import as_control, heat_words
from pulsemd.kernels.update.cuda_programs import SUM_THREADS, kinetic_program, stop_program
from pulsemd.kernels.update.gpu_chains import GpuChains
from pulsemd.kernels.update.gpu_portions import GpuPortions
from pulsemd.kernels.update.gpu_tables import UpdateConstants
from pulsemd.kernels.update.leapfrog import KINETIC_SUMS

_BLOCKS_PER_MULTIPROCESSOR = 2


class GpuKinetic:
    """Launches of kinetic.cu.

    Parameters
    ----------
    device : CudaDevice
    constants : UpdateConstants
    control : device array, the record of control.py
    fixed : bool
        Sums in fixed point.

    Attributes
    ----------
    n_baths : int
        Coupling groups.
    group : (n_atoms,) int32, device, or None
        Coupling group of each atom, where there are several.
    thermostats : (n_baths, 10) float64, device
        `UpdateConstants.thermostat_words`.
    chains : GpuChains or None
    n_sums : int
        Groups that are summed: portions, or coupling groups.
    share : (6 n_sums,) int64 or float64, device, or None
        Where the sums of one rank of several go.
    stream : stream of the device, or None
        Where the sums run.
    """

    def __init__(self, device: CudaDevice, constants: UpdateConstants, control: Any, fixed: bool) -> None:
        self._portions = None if constants.portions is None else GpuPortions(device, constants.portions)
        self._device, self._control = device, control
        self._program = kinetic_program(fixed, self._portions is not None)
        self._dt, self.n_baths = np.float64(constants.dt), len(constants.thermostats)
        self.group = None if self.n_baths == 1 else device.to_device(constants.group, np.int32)
        self.n_sums = self.n_baths if self._portions is None else self._portions.n
        self.thermostats = device.to_device(constants.thermostat_words())
        self.chains = None if constants.chains is None else GpuChains(device, constants.chains)
        self._blocks = _BLOCKS_PER_MULTIPROCESSOR * device.n_multiprocessors
        kind = np.int64 if fixed else np.float64
        self._partial = device.empty((self.n_sums * self._blocks, KINETIC_SUMS), kind)
        self.share: Any = None
        self.stream: Any = None

    def put_heat(self, work: float, xi: np.ndarray, friction: np.ndarray) -> None:
        """Heat that the thermostats gave so far, kJ/mol, and Nose and Hoover's variables, of whole chains; waits."""
        words = self._device.to_host(self._control)
        record = as_control(words)
        record["work"] = work
        if self.chains is None:
            record["baths"]["xi"], record["baths"]["friction"] = xi, friction
        else:
            self.chains.put(xi, friction)
        self._control.set(words, stream=self._device.stream)

    @property
    def heat(self) -> tuple[Any, ...]:
        """What thermostats go on from, in device memory: work so far, and variables."""
        chains = () if self.chains is None else (self.chains.variables,)
        return *heat_words(self._control), *chains

    def read_heat(self) -> tuple[np.ndarray, np.ndarray]:
        """Those variables; waits for the device."""
        if self.chains is not None:
            return self.chains.read()
        baths = as_control(self._device.to_host(self._control))["baths"]
        return baths["xi"], baths["friction"]

    def _tables(self, flags: tuple[int, ...]) -> tuple[Any, ...]:
        chains = None if self.chains is None else self.chains.record
        return self._control, self.thermostats, chains, *(np.int32(flag) for flag in flags)

    @property
    def _of_portions(self) -> tuple[Any, ...]:
        return () if self._portions is None else (self._portions.table, np.int32(self._portions.n))

    def bind_sums(
        self, velocities: Any, mass: Any, slots: Slots, flags: tuple[int, ...], overlap: Wait | None
    ) -> Callable[[], None]:
        """A launch that sums the kinetic energy of each group and uses or shares it; one rank alone then stops several
        centres of mass.

        Parameters
        ----------
        velocities, mass : (n, 4) float32 and (n,) float64, device
        flags : offset of the step; whether after the move; steps between two actions of the thermostat, and two
            removals of the centre of mass' motion
        overlap : Wait or None, see `GpuUpdate.sum_kinetic`
        """
        n = len(velocities)
        blocks = min(self._blocks, -(-n // SUM_THREADS))
        group = self.group if self._portions is None else self._portions.of_atom
        launch = self._device.kernel(self._program, "kinetic").bind(
            (blocks, self.n_sums), SUM_THREADS, velocities, mass, np.int32(n), slots.gid, group,
            self._partial, *self._tables(flags), self.share, np.int32(overlap or Wait.FIRST), *self._of_portions,
            stream=self.stream, overlap=overlap is not None,
        )  # fmt: skip
        return launch if self.share is not None else self._then_stop(launch, velocities, mass, slots, flags)

    def bind_couple(
        self, totals: Any, velocities: Any, mass: Any, slots: Slots, flags: tuple[int, ...]
    ) -> Callable[[], None]:
        """A launch that uses the sums over all ranks, (6 n_sums,) on the device; other arguments as above."""
        kernel = self._device.kernel(self._program, "couple_ranks")
        launch = kernel.bind(1, 1, totals, *self._tables(flags), *self._of_portions, stream=self.stream)
        return self._then_stop(launch, velocities, mass, slots, flags)

    def _then_stop(
        self, launch: Callable[[], None], velocities: Any, mass: Any, slots: Slots, flags: tuple[int, ...]
    ) -> Callable[[], None]:
        """A launch, and where it may find several centres of mass to be stopped one that stops them."""
        offset, after, _, com_interval = flags
        if self._portions is None or after or com_interval == 0:
            return launch
        n = len(velocities)
        stop = self._device.kernel(stop_program(), "stop_groups").bind(
            -(-n // SUM_THREADS), SUM_THREADS, velocities, mass, np.int32(n), slots.gid, self._portions.of_atom,
            self._portions.table, self._control, np.int32(offset), np.int32(com_interval), stream=self.stream,
        )  # fmt: skip

        def launch_both() -> None:
            launch()
            stop()

        return launch_both

    def bind_groups(self, velocities: Any, forces: Any, mass: Any, slots: Slots) -> Callable[[], None]:
        """A launch that lets the thermostats of several groups act on velocities ahead of a move."""
        n = len(velocities)
        return self._device.kernel(self._program, "couple_groups").bind(
            -(-n // SUM_THREADS), SUM_THREADS, velocities, forces, mass, np.int32(n), slots.gid, self.group,
            self._control, self._dt,
        )  # fmt: skip
