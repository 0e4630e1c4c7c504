"""Bonded terms, 1-4 pairs and restraints on a device, all kinds in one launch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pulsemd.device.cuda import CudaDevice
from pulsemd.kernels.bonded.cuda_programs import TERM_THREADS, bonded_program
from pulsemd.kernels.bonded.launch import KERNELS, kernel_parameters
from pulsemd.kernels.search.gpu_layout import Slots
from pulsemd.topology.terms import REFERENCED, Terms

_CODES = {
    "bond": 0,
    "angle": 1,
    "urey_bradley": 2,
    "proper": 3,
    "periodic_improper": 3,
    "improper": 4,
    "ryckaert_bellemans": 5,
    "lj14": 6,
    "position_restraint": 7,
    "cmap": 8,
    "quartic_bond": 9,
    "morse_bond": 10,
    "cubic_bond": 11,
    "fene_bond": 12,
    "harmonic_distance": 0,
    "restraint_bond": 13,
    "cosine_angle": 14,
    "bond_bond_cross": 15,
    "bond_angle_cross": 16,
    "quartic_angle": 17,
    "linear_angle": 18,
    "restricted_angle": 19,
    "fourier": 5,
    "restricted_dihedral": 20,
    "bending_torsion": 21,
    "dihedral_restraint": 22,
    "charged_pair14": 6,
    "pair_nb": 6,
    "flat_bottom": 23,
}
"""Number of each kind in the enumeration of terms.cu."""

_KIND = np.dtype(
    [
        ("kind", "<i4"),
        ("n_terms", "<i4"),
        ("first_block", "<i4"),
        ("slot", "<i4"),
        ("atoms", "<u8"),
        ("index", "<u8"),
        ("parameters", "<u8"),
        ("reference", "<u8"),
        ("n_parameters", "<i4"),
        ("n_atoms", "<i4"),
        ("n_grid", "<i4"),
        ("unused", "<i4"),
    ]
)
"""The struct ``Kind`` of terms.cu."""


class GpuBonded:
    """All bonded terms of a system.

    Parameters
    ----------
    device : CudaDevice
    terms, charge, coulomb_factor, slots, virial, reference
        As for `pulsemd.kernels.bonded.launch.BondedForces`.
    box : (3, 3) float64, nm
    fixed : bool
        int64 fixed point (reproducible mode).

    Attributes
    ----------
    n_terms : int
    """

    def __init__(
        self,
        device: CudaDevice,
        terms: Mapping[str, Terms],
        charge: np.ndarray,
        coulomb_factor: float,
        slots: Mapping[str, int],
        virial: int,
        reference: np.ndarray | None,
        box: np.ndarray,
        fixed: bool,
    ) -> None:
        self.device, self._virial = device, np.int32(virial)
        self._box = device.to_device(np.ravel(box), np.float64)
        self._error = device.zeros(1, np.int32)
        self._alive: list[Any] = []
        kinds = [kind for kind in terms if kind in KERNELS and len(terms[kind])]
        self.n_terms = sum(len(terms[kind]) for kind in kinds)
        rows, self._blocks = np.zeros(len(kinds), _KIND), 0
        for row, kind in zip(rows, kinds, strict=True):
            index, parameters = kernel_parameters(kind, terms[kind], charge, coulomb_factor)
            row["kind"], row["slot"] = _CODES[kind], slots[KERNELS[kind][1]]
            row["n_terms"], row["n_atoms"] = terms[kind].atoms.shape
            row["first_block"] = self._blocks
            row["n_parameters"] = parameters[0].size
            row["n_grid"] = len(parameters[0]) if kind == "cmap" else 0
            row["atoms"] = self._address(terms[kind].atoms, np.int32)
            row["index"] = self._address(index, np.int32)
            row["parameters"] = self._address(parameters, np.float64)
            if kind in REFERENCED:
                assert reference is not None
                row["reference"] = self._address(reference[terms[kind].atoms[:, 0]], np.int32)
            self._blocks += -(-len(terms[kind]) // TERM_THREADS)
        self._n_kinds = np.int32(len(kinds))
        self._kinds = device.to_device(rows.view(np.int64))
        self._kernels = [
            device.kernel(bonded_program(fixed, wanted), "bonded_forces") for wanted in (False, True)
        ]

    def _address(self, array: np.ndarray, dtype: Any) -> int:
        """Where a copy of the array is on the device; it lives as long as this object."""
        self._alive.append(self.device.to_device(array, dtype))
        return int(self._alive[-1].data.ptr)

    def settle_in(self, slots: Slots, forces: Any, sums: Any) -> None:
        """Take the slots of a search, the forces to add to, and the sums of energy steps.

        Parameters
        ----------
        slots : Slots
        forces : (capacity, 4) float32 or int64, device
        sums : float64 or int64, device
        """
        self._launch = [
            kernel.bind(
                self._blocks, TERM_THREADS, slots.x, self._box, slots.gid, slots.slot_of_gid, self._kinds,
                self._n_kinds, forces, sums, self._virial, self._error,
            )
            for kernel in self._kernels
        ]  # fmt: skip

    def add_forces(self, energies: bool) -> None:
        """Add the forces of all terms; on request also their energies and virial."""
        self._launch[energies]()

    def bad_atom(self) -> int:
        """Global id of an atom with an impossible force so far, or -1; waits for the device."""
        return int(self.device.to_host(self._error)[0]) - 1
