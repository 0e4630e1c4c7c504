"""The CUDA variants of the pair kernel."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from pulsemd.device.program import CudaProgram
from pulsemd.kernels.nonbonded.cuda_formula import HEADER, pair_header
from pulsemd.kernels.nonbonded.ewald import ewald_coefficient, ewald_polynomial
from pulsemd.kernels.nonbonded.formula import LENNARD_JONES
from pulsemd.kernels.nonbonded.spec import CAPPED_FORCE, KernelSpec
from pulsemd.kernels.search.cuda_programs import CHUNKS

PAIR_WARPS = 4
"""Warps of a block of ``pair_forces``."""

PRUNE_WARPS = 4
"""Warps of a block of ``prune_pairs``, each with an entry of its own."""

_WARPS_RESIDENT = {
    ("fast", False): 28,
    ("fast", True): 20,
    ("reproducible", False): 28,
    ("reproducible", True): 12,
}
"""Warps of a multiprocessor that the registers must allow, by precision and energies."""


def blocks_resident(spec: KernelSpec, warps: int) -> int:
    """Blocks of a multiprocessor that the registers allow at least."""
    return max(1, _WARPS_RESIDENT[spec.precision, spec.energies] // warps)


def pair_program(
    spec: KernelSpec, warps: int = PAIR_WARPS, chunk: int = CHUNKS[0], halo: bool = False
) -> CudaProgram:
    """The program of one variant; its kernel is ``pair_forces``.

    Parameters
    ----------
    spec : KernelSpec
    warps : int
        Warps of a block; changes the launch shape, never a result in reproducible mode.
    chunk : int
        Groups of a full entry of the list.
    halo : bool
        It waits for the rows of ghosts by itself, see step.cuh.
    """
    exact = spec.precision == "reproducible"
    defines = {
        "CHUNK": chunk,
        "WARPS": warps,
        "MIN_BLOCKS": blocks_resident(spec, warps),
        "ENERGIES": int(spec.energies),
        "EXACT": int(exact),
        "RELATIVE": int(spec.displacement == "relative"),
        "ORTHORHOMBIC": str(spec.orthorhombic).lower(),
        "TABLE": int(spec.combination == "table"),
        "CAPPED": int(CAPPED_FORCE) if spec.capped else 0,
        "HALO": int(halo),
    }
    return CudaProgram(
        "pulsemd.kernels.nonbonded",
        "pair_forces.cu",
        tuple(defines.items()),
        (
            (
                HEADER,
                pair_header(
                    spec.combination,
                    exact,
                    spec.energies,
                    spec.ewald,
                    spec.ending,
                    spec.formula,
                    spec.shifted,
                ),
            ),
        ),
        exact,
        ("pulsemd.kernels.search", "pulsemd.halo.device"),
    )


def prune_program(spec: KernelSpec, chunk: int = CHUNKS[0], halo: bool = False) -> CudaProgram:
    """The program whose kernel ``prune_pairs`` prunes a list; only the displacements and the box of ``spec`` matter.
    ``halo``: both lists of a rank, see `pair_program`."""
    defines = {
        "CHUNK": chunk,
        "WARPS": PRUNE_WARPS,
        "RELATIVE": int(spec.displacement == "relative"),
        "ORTHORHOMBIC": str(spec.orthorhombic).lower(),
        "HALO": int(halo),
    }
    return CudaProgram(
        "pulsemd.kernels.nonbonded",
        "prune_pairs.cu",
        tuple(defines.items()),
        headers=("pulsemd.kernels.search", "pulsemd.halo.device"),
    )


def programs() -> Iterator[CudaProgram]:
    """Every variant that a run can ask for; of other launch shapes, which change two sizes only, and of other formulas
    some."""
    rules, booleans = ("geometric", "lorentz-berthelot", "table"), (False, True)
    for rule, orthorhombic, energies in product(rules, booleans, booleans):
        for displacement, precision in product(("relative", "pairwise"), ("fast", "reproducible")):
            yield pair_program(KernelSpec(precision, rule, displacement, orthorhombic, energies))
    for displacement, orthorhombic, chunk, halo in product(
        ("relative", "pairwise"), booleans, CHUNKS, booleans
    ):
        yield prune_program(KernelSpec("fast", "geometric", displacement, orthorhombic, False), chunk, halo)
    for precision, rule, energies, ending in product(
        ("fast", "reproducible"), rules, booleans, list(LENNARD_JONES)[1:]
    ):
        yield pair_program(KernelSpec(precision, rule, "relative", True, energies, ending=ending))
    polynomial = ewald_polynomial(ewald_coefficient(1.0, 1e-5))
    for precision, rule, energies in product(("fast", "reproducible"), rules, booleans):
        yield pair_program(KernelSpec(precision, rule, "relative", True, energies, ewald=polynomial))
    for rule in rules:
        yield pair_program(KernelSpec("reproducible", rule, "relative", True, True, capped=True))
    for precision, rule, energies in product(("fast", "reproducible"), rules, booleans):
        yield pair_program(KernelSpec(precision, rule, "relative", True, energies), halo=True)
    for precision, chunk in product(("fast", "reproducible"), CHUNKS[1:]):
        yield pair_program(KernelSpec(precision, "geometric", "relative", True, False), chunk=chunk)
