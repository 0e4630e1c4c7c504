"""The CUDA variants of the pair kernel."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from pulsemd.device.program import CudaProgram
from pulsemd.kernels.nonbonded.cuda_formula import HEADER, pair_header
from pulsemd.kernels.nonbonded.spec import KernelSpec

WARPS = {"fast": 4, "reproducible": 4}
"""Warps of a block; even, two for each group of j-clusters in flight."""

_MIN_BLOCKS = {("fast", False): 8, ("fast", True): 5, ("reproducible", False): 4, ("reproducible", True): 3}


def pair_program(spec: KernelSpec, prune: bool = False, warps: int | None = None) -> CudaProgram:
    """The program of one variant; its kernel is ``pair_forces``.

    Parameters
    ----------
    spec : KernelSpec
    prune : bool
        Read the masks of the search and write those within the inner radius; fast mode only.
    warps : int, optional
        Warps of a block instead of `WARPS`; changes the launch shape, never a result in reproducible mode.
    """
    exact = spec.precision == "reproducible"
    defines = {
        "WARPS": warps or WARPS[spec.precision],
        "MIN_BLOCKS": _MIN_BLOCKS[spec.precision, spec.energies]
        * WARPS[spec.precision]
        // (warps or WARPS[spec.precision]),
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
        ((HEADER, pair_header(spec.combination, not exact, spec.energies)),),
        exact,
        ("pulsemd.kernels.search",),
    )


def programs() -> Iterator[CudaProgram]:
    """Every variant that a run can ask for."""
    rules, booleans = ("geometric", "lorentz-berthelot", "table"), (False, True)
    for rule, orthorhombic, energies in product(rules, booleans, booleans):
        for displacement, prune in product(("relative", "pairwise"), booleans):
            yield pair_program(KernelSpec("fast", rule, displacement, orthorhombic, energies), prune)
        yield pair_program(KernelSpec("reproducible", rule, "pairwise", orthorhombic, energies))
