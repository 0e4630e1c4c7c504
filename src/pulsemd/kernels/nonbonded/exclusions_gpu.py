"""Long-range electrostatics of excluded pairs on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pulsemd.device.cuda import CudaDevice
from pulsemd.device.program import CudaProgram
from pulsemd.kernels.nonbonded.settings import PairConstants
from pulsemd.kernels.search.gpu_layout import Slots

_THREADS = 128


ALL, OWNED, GHOSTS = range(3)
"""Parts of the work, see exclusions.cu."""


def exclusion_program(fixed: bool, energies: bool, part: int = ALL) -> CudaProgram:
    """Corrections of excluded pairs; `fixed`: int64 fixed point without contraction."""
    macros = (("FIXED", int(fixed)), ("ENERGIES", int(energies)), ("THREADS", _THREADS), ("PART", part))
    headers = ("pulsemd.kernels.bonded", "pulsemd.kernels.search")
    return CudaProgram("pulsemd.kernels.nonbonded", "exclusions.cu", macros, exact=fixed, headers=headers)


class GpuExclusions:
    """Corrections of all excluded pairs of a system; they also clear the forces.

    Parameters
    ----------
    device : CudaDevice
    offset, partner : (n_atoms + 1,) int64, (k,) int32
        Excluded partners of each atom by global id; symmetric, sorted.
    waters : (m, k) int32, global ids
        Rigid waters with the virtual sites that they carry along.
    box : (3, 3) float64, nm
    constants : PairConstants
    fixed : bool
        int64 fixed point (reproducible mode).
    in_moves : bool
        Moves end with the positions that the next forces are of.

    Attributes
    ----------
    field : device array
        The box, (9,) float64, then constants.
    water_field : device array or None
        What the update needs to start the forces of the waters itself; None if it cannot, because some water has
        excluded pairs beyond its own.
    field : device array
        The struct ``LongRange`` of exclusions.cuh.
    rest : (k, 2) int32
        Global ids of the excluded pairs that are not inside such waters, each once.
    """

    def __init__(
        self,
        device: CudaDevice,
        offset: np.ndarray,
        partner: np.ndarray,
        waters: np.ndarray,
        box: np.ndarray,
        constants: PairConstants,
        fixed: bool,
        in_moves: bool = True,
    ) -> None:
        self.device = device
        self._offset, self._partner = device.to_device(offset, np.int64), device.to_device(partner, np.int32)
        c = constants
        reach2 = np.inf if c.beta else c.cutoff**2
        field = np.concatenate([np.ravel(box), [c.k_rf, c.c_rf, reach2, c.beta]])
        self.field = device.to_device(field)
        closed = in_moves and excludes_itself_only(offset, partner, waters)
        started = np.zeros(len(offset) - 1, np.uint8)
        started[np.ravel(waters)] = closed
        self.water_field = self.field if closed else None
        self._started, self._all_started = device.to_device(started), bool(started.all())
        first = np.repeat(np.arange(len(started)), np.diff(offset))
        rest = np.flatnonzero((first < partner) & (started[first] == 0))
        self.rest = np.column_stack([first[rest], partner[rest]]).astype(np.int32)
        self._adds_rest = False
        self._fixed = fixed
        self.pairs_found = device.zeros(1, np.int64)

    def settle_in(self, slots: Slots, forces: Any, sums: Any, rest_is_added: bool = False) -> None:
        """Take the slots of a search, the forces to write, and the sums of energy steps.

        Parameters
        ----------
        slots : Slots
        forces : (capacity, 4) float32 or int64, device
        sums : (11,) float64 or int64, device: lj, coulomb, virial
        rest_is_added : bool
            Something else adds what `rest` gives in steps without energies; then moves must leave 0 as the force of
            every atom that is in no rigid water.
        """
        part = ALL if slots.leader is None else OWNED
        self._adds_rest = rest_is_added
        of_whole = self._started if self._adds_rest else None
        self._whole = self._bind(part, False, slots, of_whole, forces, sums, others=False)
        self._with_energies = self._bind(part, True, slots, None, forces, sums)
        self._rest = self._bind(part, False, slots, self._started, forces, sums)

    def settle_in_ghosts(self, slots: Slots, forces: Any, sums: Any, stream: Any) -> None:
        """The same for the part with ghosts, which runs on its own stream."""
        self._of_ghosts = [
            self._bind(GHOSTS, wanted, slots, None, forces, sums, stream) for wanted in (False, True)
        ]
        program = exclusion_program(self._fixed, False, GHOSTS)
        self._count_pairs = self.device.kernel(program, "count_exclusions").bind(
            -(-slots.capacity // _THREADS), _THREADS, slots.gid, np.int32(slots.capacity), slots.slot_of_gid,
            self._offset, self._partner, slots.leader, self.pairs_found,
        )  # fmt: skip

    def _bind(
        self,
        part: int,
        energies: bool,
        slots: Slots,
        started: Any,
        forces: Any,
        sums: Any,
        stream: Any = None,
        others: bool = True,
    ) -> Callable[[], None]:
        kernel = self.device.kernel(exclusion_program(self._fixed, energies, part), "exclusion_forces")
        return kernel.bind(
            -(-slots.capacity // _THREADS), _THREADS, slots.x, slots.gid, np.int32(slots.capacity),
            slots.slot_of_gid, self._offset, self._partner, started, np.int32(others), self.field, forces, sums,
            slots.leader, slots.counters, stream=stream,
        )  # fmt: skip

    @property
    def starts_in_moves(self) -> bool:
        """Whether moves start the next forces of all atoms, so that steps without energies launch nothing here."""
        return self.water_field is not None and self._all_started

    def start_forces(self, energies: bool, waters_started: bool) -> None:
        """Write the corrections into the forces of all slots, 0 where there are none; of one rank of several into
        those of owned atoms.

        Parameters
        ----------
        energies : bool
            Add the sums, too.
        waters_started : bool
            The last move wrote those of the waters, for the positions there are now.
        """
        if energies:
            self._with_energies()
        elif self.water_field is None or not waters_started:
            self._whole()
        elif not self._all_started and not self._adds_rest:
            self._rest()

    @property
    def ghosts_start_at_zero(self) -> bool:
        """Whether no excluded pair has a ghost, so that their forces can be started before their positions come."""
        return self._all_started

    @property
    def rest_can_be_added(self) -> bool:
        """Whether moves start the forces of waters, and there are other excluded pairs."""
        return self.water_field is not None and len(self.rest) > 0

    def start_ghost_forces(self, energies: bool) -> None:
        """Write the forces of ghosts, and add what pairs with a ghost do to owned atoms."""
        self._of_ghosts[energies]()

    def count_pairs(self) -> None:
        """Count the excluded pairs that belong to this rank since the search."""
        self.device.clear(self.pairs_found)
        self._count_pairs()


def excludes_itself_only(offset: np.ndarray, partner: np.ndarray, waters: np.ndarray) -> bool:
    """Whether the excluded pairs of all waters are just those inside each; `waters` (m, k): the k atoms of each."""
    n = waters.shape[1]
    if not (np.diff(offset)[waters] == n - 1).all():
        return False
    atoms = np.sort(waters, axis=1)
    others = atoms[:, [[j for j in range(n) if j != i] for i in range(n)]]
    found = partner[offset[atoms][..., None] + np.arange(n - 1)]
    return bool((found == others).all())
