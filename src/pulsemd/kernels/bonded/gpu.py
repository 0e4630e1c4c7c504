"""Bonded terms on a device, all kinds in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pulsemd.device.cuda import CudaDevice
from pulsemd.kernels.bonded.cuda_programs import TERM_THREADS, bonded_program
from pulsemd.kernels.search.gpu_layout import Slots

KINDS = ("bond", "angle", "urey_bradley", "proper", "improper", "ryckaert_bellemans", "pair14")
"""Kinds in the order of the enumeration in terms.cu; what each computes is in terms.py."""

_KIND = np.dtype(
    [
        ("kind", "<i4"),
        ("n_terms", "<i4"),
        ("first_block", "<i4"),
        ("slot", "<i4"),
        ("atoms", "<u8"),
        ("index", "<u8"),
        ("parameters", "<u8"),
        ("n_parameters", "<i4"),
        ("unused", "<i4"),
    ]
)


@dataclass(frozen=True, eq=False)
class TermTable:
    """Terms of one kind.

    Parameters
    ----------
    kind : one of `KINDS`
    atoms : (m, k) int32, global ids
    index : (m,) int32, row of `parameters`
    parameters : (p, c) float64, as in terms.py: angles in radians
    slot : int
        Where the energy goes in the sums; 1-4 pairs also use the next one.
    """

    kind: str
    atoms: np.ndarray
    index: np.ndarray
    parameters: np.ndarray
    slot: int


class GpuBonded:
    """All bonded terms of a system.

    Parameters
    ----------
    device : CudaDevice
    tables : sequence of TermTable
    box : (3, 3) float64, nm
    fixed : bool
        int64 fixed point (reproducible mode).
    """

    def __init__(
        self, device: CudaDevice, tables: Sequence[TermTable], box: np.ndarray, fixed: bool
    ) -> None:
        self._box = device.to_device(np.ravel(box), np.float64)
        self._alive: list[Any] = []
        rows, blocks = np.zeros(len(tables), _KIND), 0
        for row, table in zip(rows, tables, strict=True):
            arrays = [
                device.to_device(array, dtype)
                for array, dtype in (
                    (table.atoms, np.int32),
                    (table.index, np.int32),
                    (table.parameters, np.float64),
                )
            ]
            self._alive += arrays
            row["kind"], row["n_terms"] = KINDS.index(table.kind), len(table.atoms)
            row["first_block"], row["slot"] = blocks, table.slot
            row["n_parameters"] = table.parameters.shape[1]
            row["atoms"], row["index"], row["parameters"] = (array.data.ptr for array in arrays)
            blocks += -(-len(table.atoms) // TERM_THREADS)
        self._blocks, self._n_kinds = blocks, np.int32(len(tables))
        self._kinds = device.to_device(rows.view(np.int64))
        self._kernels = [
            device.kernel(bonded_program(fixed, wanted), "bonded_forces") for wanted in (False, True)
        ]

    def settle_in(self, slots: Slots, forces: Any, sums: Any, virial: int) -> None:
        """Take the slots of a search, the forces to add to, and the sums of energy steps.

        Parameters
        ----------
        slots : Slots
        forces : (capacity, 4) float32 or int64, device
        sums : float64 or int64, device
        virial : int, where in the sums the nine elements of sum r (x) f start
        """
        self._launch = [
            kernel.bind(
                self._blocks, TERM_THREADS, slots.x, self._box, slots.slot_of_gid, self._kinds,
                self._n_kinds, forces, sums, np.int32(virial),
            )
            for kernel in self._kernels
        ]  # fmt: skip

    def add_forces(self, energies: bool) -> None:
        """Add the forces of all terms; on request also their energies and virial."""
        self._launch[energies]()
