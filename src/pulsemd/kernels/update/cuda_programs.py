"""CUDA programs of the update."""

from __future__ import annotations

from pulsemd.device.program import CudaProgram

MOVE_THREADS = 64
"""Waters or free atoms of a block: small, so that a small system spreads over all multiprocessors."""

SUM_THREADS = 256
"""Threads of a block of the kinetic sums."""

GROUP_THREADS = 64
"""Constrained groups of a block."""

MAX_WATER_SITES = 2
"""Most virtual sites of a rigid water that are moved together with it."""

GROUP_SIZES = (8, 32, 128)
"""Most atoms of a constrained group by variant; the constraints of bonds to hydrogens make groups of at most five."""

MAX_STAR_ATOMS = 5
"""Atoms of a star whose constraints are solved in registers."""

NETWORK_THREADS = (64, 512)
"""Threads of a block that solves one network of constraints, by variant."""

MAX_BATHS = 16
"""Most coupling groups with baths of their own: the last block of the kinetic sums has all of them."""

MAX_PORTIONS = 64
"""Most portions of them, for the same reason; see portions.py."""

_PACKAGE = "pulsemd.kernels.update"
_HEADERS = (
    *(f"pulsemd.kernels.{name}" for name in ("bonded", "constraints", "nonbonded", "search", "update")),
    "pulsemd.halo.device",
)


def leapfrog_program(
    fixed: bool, energies: bool, sites: int = 0, stars: bool = False, halo: bool = False
) -> CudaProgram:
    """Leap-frog with SETTLE; `fixed`: int64 forces and sums, no contraction; `energies`: the constraint virial too;
    `sites`: virtual sites of each water; `stars`: groups around one atom too, in fast mode without energies; `halo`:
    waters are exchanged with other ranks, see step.cuh."""
    macros = (("FIXED", int(fixed)), ("ENERGIES", int(energies)), ("THREADS", MOVE_THREADS), ("SITES", sites))
    macros += (("STARS", int(stars)), ("MAX_STAR_ATOMS", MAX_STAR_ATOMS), ("HALO", int(halo)))
    return CudaProgram(_PACKAGE, "leapfrog.cu", macros, exact=fixed, headers=_HEADERS)


def shake_program(fixed: bool, energies: bool, max_atoms: int = GROUP_SIZES[0]) -> CudaProgram:
    """Leap-frog with SHAKE; arguments as for `leapfrog_program`; `max_atoms`: one of `GROUP_SIZES`."""
    macros = (("FIXED", int(fixed)), ("ENERGIES", int(energies)), ("THREADS", GROUP_THREADS))
    macros += (("MAX_ATOMS", max_atoms),)
    return CudaProgram("pulsemd.kernels.constraints", "shake.cu", macros, exact=fixed, headers=_HEADERS)


def rattle_program(fixed: bool, energies: bool, max_atoms: int) -> CudaProgram:
    """Velocities of full steps by RATTLE; arguments as for `shake_program`."""
    macros = (("FIXED", int(fixed)), ("ENERGIES", int(energies)), ("THREADS", GROUP_THREADS))
    macros += (("MAX_ATOMS", max_atoms),)
    return CudaProgram("pulsemd.kernels.constraints", "rattle.cu", macros, exact=fixed, headers=_HEADERS)


def full_steps_program(fixed: bool, energies: bool, sites: int) -> CudaProgram:
    """Velocities of full steps of rigid waters and free atoms; arguments as for `leapfrog_program`."""
    macros = (("FIXED", int(fixed)), ("ENERGIES", int(energies)), ("THREADS", MOVE_THREADS), ("SITES", sites))
    return CudaProgram(_PACKAGE, "full_steps.cu", macros, exact=fixed, headers=_HEADERS)


def lincs_program(fixed: bool, energies: bool, threads: int) -> CudaProgram:
    """Leap-frog with LINCS; arguments as for `leapfrog_program`; `threads`: one of `NETWORK_THREADS`."""
    macros = (("FIXED", int(fixed)), ("ENERGIES", int(energies)), ("THREADS", threads))
    return CudaProgram("pulsemd.kernels.constraints", "lincs.cu", macros, exact=fixed, headers=_HEADERS)


def sites_program(fixed: bool, energies: bool) -> CudaProgram:
    """Virtual sites that no rigid water carries along; arguments as for `leapfrog_program`."""
    macros = (("FIXED", int(fixed)), ("ENERGIES", int(energies)), ("THREADS", GROUP_THREADS))
    return CudaProgram("pulsemd.kernels.constraints", "sites.cu", macros, exact=fixed, headers=_HEADERS)


def kinetic_program(fixed: bool, portions: bool = False) -> CudaProgram:
    """Kinetic sums and what the coupling makes of them; `portions`: several centres of mass are stopped."""
    macros = (("FIXED", int(fixed)), ("ENERGIES", 0), ("THREADS", SUM_THREADS), ("MAX_BATHS", MAX_BATHS))
    macros += (("PORTIONS", int(portions)), ("MAX_SUMS", MAX_PORTIONS if portions else MAX_BATHS))
    return CudaProgram(_PACKAGE, "kinetic.cu", macros, exact=fixed, headers=_HEADERS)


def stop_program() -> CudaProgram:
    """Centres of mass of several groups."""
    return CudaProgram(_PACKAGE, "stop_groups.cu", headers=_HEADERS)


def cell_program(fixed: bool) -> CudaProgram:
    """The periodic cell and its barostat."""
    macros = (("FIXED", int(fixed)), ("ENERGIES", 0))
    return CudaProgram(_PACKAGE, "cell.cu", macros, exact=fixed, headers=_HEADERS)


def annealing_program(fixed: bool) -> CudaProgram:
    """Temperatures that follow points in time; `fixed`: no contraction."""
    return CudaProgram(_PACKAGE, "annealing.cu", exact=fixed, headers=_HEADERS)


def noise_program(fixed: bool) -> CudaProgram:
    """Friction and noise of stochastic dynamics."""
    macros = (("FIXED", int(fixed)), ("ENERGIES", 0))
    return CudaProgram(_PACKAGE, "noise.cu", macros, exact=fixed, headers=_HEADERS)


def clock_program() -> CudaProgram:
    """The step counter."""
    return CudaProgram(_PACKAGE, "clock.cu")


def slots_program() -> CudaProgram:
    """Velocities, masses and lists in a new order of slots."""
    return CudaProgram(_PACKAGE, "slots.cu", headers=_HEADERS)


def programs() -> list[CudaProgram]:
    """Every variant that a run can ask for."""
    both = (False, True)
    of_groups = (leapfrog_program, shake_program, sites_program)
    moves = [f(fixed, energies) for f in of_groups for fixed in both for energies in both]
    waters = [
        leapfrog_program(fixed, energies, sites, halo=halo)
        for fixed in both
        for energies in both
        for sites in range(MAX_WATER_SITES + 1)
        for halo in both
    ]
    large = [
        shake_program(fixed, energies, size)
        for fixed in both
        for energies in both
        for size in GROUP_SIZES[1:]
    ]
    full_steps = [
        program(fixed, energies, size)
        for program, sizes in (
            (rattle_program, GROUP_SIZES),
            (full_steps_program, range(MAX_WATER_SITES + 1)),
        )
        for fixed in both
        for energies in both
        for size in sizes
    ]
    networks = [
        lincs_program(fixed, energies, threads)
        for fixed in both
        for energies in both
        for threads in NETWORK_THREADS
    ]
    return [
        *moves,
        *large,
        *networks,
        *full_steps,
        *waters,
        *(kinetic_program(fixed, portions) for fixed in both for portions in both),
        *(program(fixed) for program in (cell_program, noise_program, annealing_program) for fixed in both),
        *(leapfrog_program(False, False, sites, stars=True) for sites in range(MAX_WATER_SITES + 1)),
        slots_program(),
        clock_program(),
        stop_program(),
    ]
