"""The CUDA variants of the pair kernel."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from pulsemd.device.program import CudaProgram
from pulsemd.kernels.nonbonded.cuda_formula import HEADER, pair_header
from pulsemd.kernels.nonbonded.formula import LENNARD_JONES
from pulsemd.kernels.nonbonded.spec import KernelSpec
from pulsemd.kernels.search.cuda_programs import CHUNKS

_MIDDLE = range(900, 6000)
"""Numbers of superclusters for which blocks of two warps measured faster than of four."""

_WARPS_RESIDENT = {
    ("fast", False): 28,
    ("fast", True): 20,
    ("reproducible", False): 28,
    ("reproducible", True): 12,
}
"""Warps of a multiprocessor that the registers must allow, by precision and energies."""


def warps_for(n_superclusters: int) -> int:
    """Warps of a block, by measurement."""
    return 2 if n_superclusters in _MIDDLE else 4


def blocks_resident(spec: KernelSpec, warps: int) -> int:
    """Blocks of a multiprocessor that the registers allow at least."""
    return max(1, _WARPS_RESIDENT[spec.precision, spec.energies] // warps)


def pair_program(
    spec: KernelSpec, prune: bool = False, warps: int = 4, chunk: int = CHUNKS[0]
) -> CudaProgram:
    """The program of one variant; its kernel is ``pair_forces``.

    Parameters
    ----------
    spec : KernelSpec
    prune : bool
        Read the masks of the search and write those within the inner radius; fast mode only.
    warps : int
        Warps of a block; changes the launch shape, never a result in reproducible mode.
    chunk : int
        Groups of a full entry of the list.
    """
    exact = spec.precision == "reproducible"
    defines = {
        "CHUNK": chunk,
        "WARPS": warps,
        "MIN_BLOCKS": blocks_resident(spec, warps),
        "ENERGIES": int(spec.energies),
        "PRUNE": int(prune),
        "EXACT": int(exact),
        "RELATIVE": int(spec.displacement == "relative"),
        "ORTHORHOMBIC": str(spec.orthorhombic).lower(),
        "TABLE": int(spec.combination == "table"),
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
        ("pulsemd.kernels.search",),
    )


def programs() -> Iterator[CudaProgram]:
    """Every variant that a run can ask for; of other launch shapes, which change two sizes only, and of other formulas
    some."""
    rules, booleans = ("geometric", "lorentz-berthelot", "table"), (False, True)
    for rule, orthorhombic, energies in product(rules, booleans, booleans):
        for displacement, prune in product(("relative", "pairwise"), booleans):
            yield pair_program(KernelSpec("fast", rule, displacement, orthorhombic, energies), prune)
            if not prune:
                yield pair_program(KernelSpec("reproducible", rule, displacement, orthorhombic, energies))
    for precision, rule, energies, ending in product(
        ("fast", "reproducible"), rules, booleans, list(LENNARD_JONES)[1:]
    ):
        yield pair_program(KernelSpec(precision, rule, "relative", True, energies, ending=ending))
    for warps, chunk in ((2, CHUNKS[0]), (4, CHUNKS[1])):
        yield pair_program(KernelSpec("fast", "geometric", "relative", True, False), False, warps, chunk)
        yield pair_program(
            KernelSpec("reproducible", "geometric", "relative", True, False), False, warps, chunk
        )
