"""What the error words of a device say of a run that blew up."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from pulsemd.device.mirror import Array
from pulsemd.domain.atoms import LocalAtoms
from pulsemd.engine.blowup import BONDED_OUT_OF_RANGE, CANNOT_MOVE, OVERLAPS, Failure, longest
from pulsemd.kernels.update.control import NO_ERROR, as_control


def failure_on_device(
    words: list[Array], start: int, first: int, last: int, rows: Callable[[], LocalAtoms]
) -> Failure | None:
    """The first failure of the atoms of a device, or of a plan-rank there.

    Parameters
    ----------
    words : list of three arrays on the host
        Error words of the pair forces and of bonded terms, and the record of the update.
    start, first, last : int
        Step at which the run began, and steps between which words without a step of their own were set.
    rows : function
        The owned atoms now; called only where the fastest has to be found.
    """
    overlaps, bad_atom, control = words
    error = int(as_control(control)["error"])
    if error != NO_ERROR:
        return _failure(start + (error >> 32), error & 0xFFFFFFFF, CANNOT_MOVE)
    since = f" (in one of the steps {first} to {last})"
    if overlaps[0]:
        return _failure(first, _fastest(rows()), OVERLAPS + since)
    if bad_atom[0]:
        return _failure(first, int(bad_atom[0]) - 1, BONDED_OUT_OF_RANGE + since)
    return None


def first_failure(
    words: list[Array], steps: tuple[int, int, int], rows_of: Callable[[int], LocalAtoms]
) -> Failure | None:
    """The first failure of several plan-ranks: three words of each, the steps and the rows of `failure_on_device`."""
    found = (
        failure_on_device(words[3 * k : 3 * k + 3], *steps, partial(rows_of, k))
        for k in range(len(words) // 3)
    )
    return min((f for f in found if f is not None), key=lambda f: f.urgency, default=None)


def _fastest(atoms: LocalAtoms) -> int:
    """Global id of the fastest atom; a velocity that is not finite counts as largest."""
    return int(atoms.gid[longest(atoms.v)]) if len(atoms) else 0


def _failure(step: int, gid: int, reason: str) -> Failure:
    return Failure(step, gid, reason, float("nan"), None, np.zeros(0, np.int32), np.zeros((0, 3), np.int32))
