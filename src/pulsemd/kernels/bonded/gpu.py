"""Bonded terms, 1-4 pairs and restraints on a device, all kinds in one launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pulsemd.device.cuda import CudaDevice
from pulsemd.kernels.bonded.cuda_programs import TERM_THREADS, bonded_program, owner_program
from pulsemd.kernels.bonded.launch import KERNELS, kernel_parameters
from pulsemd.kernels.search.gpu_layout import Slots
from pulsemd.topology.restraints import ReferencePositions
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
    "distance_restraint": 13,
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
    "angle_restraint": 24,
    "angle_restraint_z": 25,
}
"""Number of each kind in the enumeration of terms.cu."""

_EXCLUDED = 26
"""The same of excluded pairs, which are no terms."""


def kinds_without_kernel(terms: Mapping[str, Terms]) -> list[str]:
    """Kinds of terms that have forces and that only CPUs compute."""
    return [kind for kind in terms if kind in KERNELS and kind not in _CODES and len(terms[kind])]


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
        ("rigid", "<u8"),
        ("n_parameters", "<i4"),
        ("n_atoms", "<i4"),
        ("n_grid", "<i4"),
        ("first_term", "<i4"),
    ]
)
"""The struct ``Kind`` of kinds.cuh."""


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
    excluded : (k, 2) int32, optional
        Global ids of excluded pairs whose long-range electrostatics is added in steps without energies.
    field : device array, optional
        `GpuExclusions.field`, for these.

    Attributes
    ----------
    box : (9,) float64, device
    n_terms : int
        Without excluded pairs.
    terms_by_kind : dict of kind to int
    """

    def __init__(
        self,
        device: CudaDevice,
        terms: Mapping[str, Terms],
        charge: np.ndarray,
        coulomb_factor: float,
        slots: Mapping[str, int],
        virial: int,
        reference: ReferencePositions | None,
        box: np.ndarray,
        fixed: bool,
        excluded: np.ndarray | None = None,
        field: Any = None,
    ) -> None:
        self.device, self._virial = device, np.int32(virial)
        self.box = device.to_device(np.ravel(box), np.float64)
        self._error = device.zeros(1, np.int32)
        self._alive: list[Any] = []
        kinds = [kind for kind in terms if kind in KERNELS and len(terms[kind])]
        self.terms_by_kind = {kind: len(terms[kind]) for kind in kinds}
        self.n_terms = sum(self.terms_by_kind.values())
        self._n_excluded = 0 if excluded is None else len(excluded)
        rows, self._blocks = np.zeros(len(kinds) + 1, _KIND), 0
        rows["first_term"] = np.cumsum([0, *self.terms_by_kind.values()])
        for row, kind in zip(rows, kinds, strict=False):
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
                x, rigid = reference.of(terms[kind].atoms[:, 0])
                row["reference"], row["rigid"] = self._address(x, np.int32), self._address(rigid, np.float64)
            self._blocks += -(-len(terms[kind]) // TERM_THREADS)
        self._n_kinds = len(kinds)
        if excluded is not None and len(excluded):
            self._add_excluded(rows[-1], excluded, field)
        self._kinds = device.to_device(rows.view(np.int64))
        self._fixed = fixed

    def _add_excluded(self, row: np.ndarray, pairs: np.ndarray, field: Any) -> None:
        row["kind"], row["n_terms"], row["n_atoms"] = _EXCLUDED, len(pairs), 2
        row["first_block"], row["parameters"] = self._blocks, field.data.ptr
        row["atoms"] = self._address(pairs, np.int32)
        row["index"] = self._address(np.zeros(len(pairs)), np.int32)
        self._alive.append(field)

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
        self._launches = {
            (wanted, overlap): self._bind(wanted, slots, forces, sums, overlap=overlap)
            for wanted in (False, True)
            for overlap in (False, True)
        }

    def settle_in_part(self, slots: Slots, forces: Any, sums: Any, stream: Any) -> None:
        """The same for one rank of several; `stream`: of the terms that have a ghost."""
        kinds, device = self._n_kinds, self.device
        self._chosen, self._count = (
            device.empty((2, self.n_terms), np.int32),
            device.zeros((2, kinds), np.int32),
        )
        self._own = device.kernel(owner_program(), "own_terms").bind(
            self._blocks, TERM_THREADS, self._kinds, np.int32(kinds), np.int32(self.n_terms), slots.slot_of_gid,
            slots.leader, self._chosen, self._count,
        )  # fmt: skip
        self._parts = [
            [self._bind(wanted, slots, forces, sums, part, (None, stream)[part]) for wanted in (False, True)]
            for part in range(2)
        ]

    def _bind(
        self,
        energies: bool,
        slots: Slots,
        forces: Any,
        sums: Any,
        part: int | None = None,
        stream: Any = None,
        overlap: bool = False,
    ) -> Callable[[], None]:
        program = bonded_program(self._fixed, energies, part is not None)
        chosen = () if part is None else (self._chosen[part], self._count[part])
        excluded = 0 if energies or part is not None else self._n_excluded
        kinds = np.int32(self._n_kinds + (excluded > 0))
        return self.device.kernel(program, "bonded_forces").bind(
            self._blocks - (-excluded // TERM_THREADS), TERM_THREADS, slots.x, self.box, slots.gid,
            slots.slot_of_gid, self._kinds, kinds, forces, sums, self._virial, self._error,
            *(chosen or (None, None)), stream=stream, overlap=overlap,
        )  # fmt: skip

    def choose(self) -> None:
        """Take this rank's share of the terms after a search."""
        if self.n_terms:
            self.device.clear(self._count)
            self._own()

    @property
    def chosen(self) -> Any:
        """(2, kinds) int32, device: terms of each kind that `choose` took, of owned atoms and with a ghost."""
        return self._count

    def has_work(self, energies: bool) -> bool:
        """Whether `add_forces` launches anything."""
        return self.n_terms > 0 or (self._n_excluded > 0 and not energies)

    def add_forces(self, energies: bool, overlap: bool = False) -> None:
        """Add the forces of all terms; on request also their energies and virial, else the excluded pairs.

        Parameters
        ----------
        overlap : bool
            Begin while the kernel ahead in the stream ends. Kernels launched next may run beside this one.
        """
        self._launches[energies, overlap]()

    def add_part(self, part: int, energies: bool) -> None:
        """The same for one rank of several: of terms of owned atoms (0), or with a ghost (1)."""
        self._parts[part][energies]()

    @property
    def error_word(self) -> Any:
        """(1,) int32 on the device: global id + 1 of an atom with an impossible force so far, or 0."""
        return self._error

    def bad_atom(self) -> int:
        """Global id of an atom with an impossible force so far, or -1; waits for the device."""
        return int(self.device.to_host(self._error)[0]) - 1
