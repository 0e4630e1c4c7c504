"""Kernel of the small all-reduce."""

# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-untyped-calls=False
# mypy: disable-error-code="call-arg, var-annotated"

from __future__ import annotations

from numba import njit

from pulsemd.halo.atomics import store_release
from pulsemd.halo.layout import STRIDE
from pulsemd.halo.signals import ARRIVED, wait_for


@njit(
    [
        f"int64(int64, {scalar}[:, :, ::1], {scalar}[::1], {scalar}[::1], int64[::1], int64[::1], int64, "
        "float64, int64)"
        for scalar in ("int64", "float64")
    ],
    cache=True,
    nogil=True,
)
def sum_slots(rank, slots, values, total, signals, abort, epoch, timeout, spin):
    """Sum ``values`` over all ranks, in rank order.

    Parameters
    ----------
    slots : (size, 2, width)
        Slot of each rank, double-buffered: a rank writes epoch e + 2 only after everybody has signalled e + 1, which
        they do after reading e.
    values : (width,)
    total : (width,)
        OUTPUT.
    signals, abort : (n,) int64
    epoch : int
        From 1.

    Returns
    -------
    int
        0, or ``outcome + 4 * missing_rank``.
    """
    half = epoch % 2
    for k in range(len(values)):
        slots[rank, half, k] = values[k]
        total[k] = 0
    store_release(signals, rank * STRIDE, epoch)
    for peer in range(slots.shape[0]):
        outcome = wait_for(signals, peer * STRIDE, epoch, abort, timeout, spin)
        if outcome != ARRIVED:
            return outcome + 4 * peer
        for k in range(len(total)):
            total[k] += slots[peer, half, k]
    return 0
