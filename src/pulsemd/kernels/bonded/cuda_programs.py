"""CUDA programs of bonded terms and of the corrections of excluded pairs."""

from __future__ import annotations

from pulsemd.device.program import CudaProgram
from pulsemd.kernels.nonbonded.exclusions_gpu import ALL, GHOSTS, OWNED, exclusion_program

TERM_THREADS = 128
"""Terms of a block."""


def bonded_program(fixed: bool, energies: bool, owned: bool = False) -> CudaProgram:
    """All bonded terms; `fixed`: int64 fixed point without contraction; `energies`: energies and virial too;
    `owned`: only those of a rank of several."""
    macros = (("FIXED", int(fixed)), ("ENERGIES", int(energies)), ("THREADS", TERM_THREADS))
    headers = ("pulsemd.kernels.nonbonded",)
    macros += (("OWNED", int(owned)),)
    return CudaProgram("pulsemd.kernels.bonded", "terms.cu", macros, exact=fixed, headers=headers)


def owner_program() -> CudaProgram:
    """The choice of the terms of a rank of several."""
    macros = (("THREADS", TERM_THREADS),)
    return CudaProgram("pulsemd.kernels.bonded", "owners.cu", macros, headers=("pulsemd.kernels.search",))


def programs() -> list[CudaProgram]:
    """Every variant that a run can ask for."""
    booleans = (False, True)
    variants = [(fixed, energies) for fixed in booleans for energies in booleans]
    terms = [bonded_program(*variant, owned) for variant in variants for owned in booleans]
    exclusions = [exclusion_program(*variant, part) for variant in variants for part in (ALL, OWNED, GHOSTS)]
    return [*terms, owner_program(), *exclusions]
