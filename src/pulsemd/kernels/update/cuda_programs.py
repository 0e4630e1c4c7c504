"""CUDA programs of the update."""

from __future__ import annotations

from pulsemd.device.program import CudaProgram

MOVE_THREADS = 64
"""Waters or free atoms of a block: small, so that a small system spreads over all multiprocessors."""

SUM_THREADS = 256
"""Threads of a block of the kinetic sums."""

_PACKAGE = "pulsemd.kernels.update"


def leapfrog_program(fixed: bool, energies: bool) -> CudaProgram:
    """Leap-frog with SETTLE; `fixed`: int64 forces and sums, no contraction; `energies`: the constraint virial too."""
    macros = (("FIXED", int(fixed)), ("ENERGIES", int(energies)), ("THREADS", MOVE_THREADS))
    return CudaProgram(_PACKAGE, "leapfrog.cu", macros, exact=fixed)


def kinetic_program(fixed: bool) -> CudaProgram:
    """Kinetic sums and what the coupling makes of them."""
    macros = (("FIXED", int(fixed)), ("ENERGIES", 0), ("THREADS", SUM_THREADS))
    return CudaProgram(_PACKAGE, "kinetic.cu", macros, exact=fixed)


def slots_program() -> CudaProgram:
    """Velocities, masses and lists in a new order of slots."""
    return CudaProgram(_PACKAGE, "slots.cu")


def programs() -> list[CudaProgram]:
    """Every variant that a run can ask for."""
    both = (False, True)
    moves = [leapfrog_program(fixed, energies) for fixed in both for energies in both]
    return [*moves, *(kinetic_program(fixed) for fixed in both), slots_program()]
