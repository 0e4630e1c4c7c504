"""CUDA programs of bonded terms and of the corrections of excluded pairs."""

from __future__ import annotations

from pulsemd.device.program import CudaProgram
from pulsemd.kernels.nonbonded.exclusions_gpu import exclusion_program

TERM_THREADS = 128
"""Terms of a block."""


def bonded_program(fixed: bool, energies: bool) -> CudaProgram:
    """All bonded terms; `fixed`: int64 fixed point without contraction; `energies`: energies and virial too."""
    macros = (("FIXED", int(fixed)), ("ENERGIES", int(energies)), ("THREADS", TERM_THREADS))
    return CudaProgram("pulsemd.kernels.bonded", "terms.cu", macros, exact=fixed)


def programs() -> list[CudaProgram]:
    """Every variant that a run can ask for."""
    variants = [(fixed, energies) for fixed in (False, True) for energies in (False, True)]
    return [f(*variant) for f in (bonded_program, exclusion_program) for variant in variants]
