"""Networks of constraints on a device: LINCS, with a block of threads for each network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pulsemd.device.cuda import CudaDevice
from pulsemd.kernels.constraints.lincs import couple_constraints
from pulsemd.kernels.constraints.shared_moves import SharedMoves
from pulsemd.kernels.search.gpu_layout import Slots
from pulsemd.kernels.update.control import turn_in
from pulsemd.kernels.update.cuda_programs import NETWORK_THREADS, lincs_program
from pulsemd.topology.groups import update_groups


@dataclass(frozen=True, eq=False)
class NetworkTable:
    """The networks of a system, and how LINCS solves them.

    Parameters
    ----------
    atoms : (k,) int32, global ids
    inverse_mass : (k,) float64, 1/amu
    pairs : (c, 2) int32, rows of `atoms`
    lengths, weights : (c,) float64, nm, and 1/sqrt(1/m_i + 1/m_j)
    order, iterations : int
    warn_cosine : float
        Of the angle by which a constraint turns in a step that is worth a warning.
    """

    atoms: np.ndarray
    inverse_mass: np.ndarray
    pairs: np.ndarray
    lengths: np.ndarray
    weights: np.ndarray
    order: int
    iterations: int
    warn_cosine: float

    def sorted_by_network(self) -> tuple[NetworkTable, np.ndarray, np.ndarray]:
        """The same with atoms and constraints of each network together, in their order; and where networks begin."""
        first, atoms = update_groups(len(self.atoms), self.pairs.astype(np.int64))
        place, network = np.empty(len(atoms), np.int32), np.empty(len(atoms), np.int64)
        place[atoms] = np.arange(len(atoms))
        network[atoms] = np.repeat(np.arange(len(first) - 1), np.diff(first))
        of_bond = network[self.pairs[:, 0]]
        order = np.argsort(of_bond, kind="stable")
        table = replace(
            self,
            atoms=self.atoms[atoms],
            inverse_mass=self.inverse_mass[atoms],
            pairs=place[self.pairs[order]],
            lengths=self.lengths[order],
            weights=self.weights[order],
        )
        return table, first, np.searchsorted(of_bond[order], np.arange(len(first)))


class GpuNetworks:
    """LINCS of one rank.

    Parameters
    ----------
    device : CudaDevice
    table : NetworkTable, with one constraint at least
    control : device array, the record of `pulsemd.kernels.update.control`
    fixed : bool
        int64 fixed-point forces and virial (reproducible mode).

    Attributes
    ----------
    shared : SharedMoves or None
        Where atoms may be other ranks'.
    """

    shared: SharedMoves | None = None

    def __init__(self, device: CudaDevice, table: NetworkTable, control: Any, fixed: bool) -> None:
        self.device, self._control, self._fixed = device, control, fixed
        self.sorted, first_atoms, first_bonds = table.sorted_by_network()
        table = self.sorted
        n, bonds = len(table.atoms), len(table.pairs)
        by_atom = np.argsort(table.pairs.ravel(), kind="stable")  # twice the constraint, plus the side
        offset = np.concatenate([[0], np.cumsum(np.bincount(table.pairs.ravel(), minlength=n))])
        every = np.arange(bonds, dtype=np.int32)
        start, neighbors, factors = couple_constraints(
            every,
            every,
            table.pairs,
            offset,
            (by_atom // 2).astype(np.int32),
            table.weights,
            table.inverse_mass,
        )
        self._n_networks = len(first_atoms) - 1
        largest = int(np.diff(first_bonds).max())
        self._threads = next((t for t in NETWORK_THREADS if largest <= t), NETWORK_THREADS[-1])
        arrays = (
            *(first_atoms, first_bonds, table.atoms, table.pairs, table.lengths, table.weights),
            *(start, neighbors, factors, offset, by_atom, table.inverse_mass),
        )
        kinds = [np.float64 if array.dtype == np.float64 else np.int32 for array in arrays]
        self._table = [device.to_device(a, kind) for a, kind in zip(arrays, kinds, strict=True)]
        self._atoms, self._inverse_mass = self._table[2], self._table[-1]
        self._numbers = [np.int32(k) for k in (n, bonds, table.order, table.iterations)]
        self._work = (
            device.empty(n, np.int32),
            device.empty((n + 2 * bonds, 3), np.float64),
            device.empty(4 * bonds + max(len(neighbors), 1), np.float64),
        )

    def share(self, shared: SharedMoves) -> None:
        """Be one rank of several from now on; compiles or loads the kernels."""
        self.shared = shared
        programs = [lincs_program(self._fixed, energies, self._threads) for energies in (False, True)]
        for program in programs:
            for name in ("leapfrog_lincs", "complete_lincs"):
                self.device.kernel(program, name)
        for name in ("share_moves", "share_velocities"):
            self.device.kernel(lincs_program(self._fixed, False, NETWORK_THREADS[0]), name)

    def turned(self, control: np.void) -> tuple[np.ndarray, float] | None:
        """Global ids (2,) of a constraint that turned by more than lincs-warnangle in a step, and the cosine of the
        angle, in a copy of the record; None: there is none."""
        found = turn_in(control)
        if found is None:
            return None
        number, cosine = found
        return self.sorted.atoms[self.sorted.pairs[number]], cosine

    @property
    def _others(self) -> tuple[Any, Any]:
        """What all ranks have told, and the stream where it is used; of one rank that has all atoms None."""
        return (None, None) if self.shared is None else (self.shared.total, self.shared.stream)

    def bind_share_velocities(
        self, slots: Slots, velocities: Any, f: Any, mass: Any, step: Any
    ) -> Callable[[], None]:
        """The same as `bind_share` before velocities are completed; arguments as for `bind_complete`."""
        assert self.shared is not None
        n, threads = self._numbers[0], NETWORK_THREADS[0]
        return self.device.kernel(lincs_program(self._fixed, False, threads), "share_velocities").bind(
            -(-int(n) // threads), threads, slots.x, velocities, f, self._atoms, n, slots.slot_of_gid,
            np.int32(slots.capacity), slots.counters, mass, step, self.shared.own, stream=self.shared.stream,
        )  # fmt: skip

    def bind_share(
        self, slots: Slots, moved: tuple[Any, Any, Any], offset: int, coupled: bool
    ) -> Callable[[], None]:
        """A launch that tells others of the atoms of this rank, in the stream of `shared`; arguments as for `bind`."""
        assert self.shared is not None
        v, f, step = moved
        n, threads = self._numbers[0], NETWORK_THREADS[0]
        return self.device.kernel(lincs_program(self._fixed, False, threads), "share_moves").bind(
            -(-int(n) // threads), threads, slots.x, v, f, self._atoms, self._inverse_mass, n, slots.slot_of_gid,
            np.int32(slots.capacity), slots.counters, slots.gid, step, self._control, np.int32(offset),
            np.int32(coupled), self.shared.own, stream=self.shared.stream,
        )  # fmt: skip

    def bind(
        self,
        slots: Slots,
        moved: tuple[Any, Any, Any],
        offset: int,
        coupled: bool,
        virial: Any,
        clear: bool,
        stream: Any,
    ) -> Callable[[], None]:
        """A launch that moves the atoms of networks; `moved`: velocities, forces, the struct ``Step``.

        Parameters
        ----------
        virial : (9,) float64 or int64, device, or None
            OUTPUT, added to.
        clear : bool
            Leave 0 as the forces.
        stream : stream of the device, of one rank that has all atoms
        """
        v, f, step = moved
        program, (total, beside) = lincs_program(self._fixed, virial is not None, self._threads), self._others
        return self.device.kernel(program, "leapfrog_lincs").bind(
            self._n_networks, self._threads, slots.x, v, f, *self._table, *self._numbers, *self._work,
            slots.slot_of_gid, slots.gid, step, self._control, np.int32(offset), np.int32(coupled), virial,
            np.float64(self.sorted.warn_cosine), total, np.int32(slots.capacity), slots.counters, np.int32(clear),
            stream=beside or stream,
        )  # fmt: skip

    def bind_complete(
        self, slots: Slots, velocities: Any, f: Any, mass: Any, step: Any, virial: Any
    ) -> Callable[[], None]:
        """A launch that completes the velocities (capacity, 4) of networks; see `GpuFullSteps.bind_groups`."""
        program, (total, stream) = lincs_program(self._fixed, virial is not None, self._threads), self._others
        return self.device.kernel(program, "complete_lincs").bind(
            self._n_networks, self._threads, slots.x, velocities, f, *self._table, *self._numbers, *self._work,
            slots.slot_of_gid, mass, step, virial, total, np.int32(slots.capacity), slots.counters, stream=stream,
        )  # fmt: skip
