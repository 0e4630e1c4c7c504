"""Signal words and the one wait of the library.

A signal is one int64 word on cache lines of its own. It holds an epoch, never decreases, and is compared with ``>=``,
so a peer that runs ahead cannot make anybody miss it.
"""

# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-untyped-calls=False
# mypy: disable-error-code="call-arg, var-annotated"

from __future__ import annotations

from typing import Final

from numba import njit

from pulsemd.halo.atomics import load_acquire, monotonic, pause, sched_yield, store_release, usleep
from pulsemd.halo.layout import STRIDE

ARRIVED: Final = 0
ABORTED: Final = 1
EXPIRED: Final = 2

_YIELDS_PER_POLL: Final = 4
_NAP: Final = 50


@njit(cache=True, nogil=True)
def wait_for(words, index, epoch, abort, timeout, spin):
    """Wait until ``words[index] >= epoch``.

    Parameters
    ----------
    words, abort : (n,) int64
        Signals; ``abort[0]`` is non-zero once any rank has failed.
    index, epoch : int
    timeout : float, s
    spin : int
        Polls before the core is given away, first by yields, then by naps; small when there are more ranks than cores,
        where a napping rank gets its core back sooner than one that yields.

    Returns
    -------
    int
        ARRIVED, ABORTED or EXPIRED.
    """
    for _ in range(spin):
        if load_acquire(words, index) >= epoch:
            return ARRIVED
        pause()
    start = monotonic()
    turns = 0
    while load_acquire(words, index) < epoch:
        if load_acquire(abort, 0) != 0:
            return ABORTED
        if monotonic() - start > timeout:
            return EXPIRED
        if turns < _YIELDS_PER_POLL * spin:
            sched_yield()
        else:
            usleep(_NAP)
        turns += 1
    return ARRIVED


@njit("int64(int64, int64[::1], int64[::1], int64, float64, int64)", cache=True, nogil=True)
def meet(rank, arrivals, abort, epoch, timeout, spin):
    """Announce ``epoch`` in the own word of ``arrivals`` and wait for everybody's: a barrier.

    Returns
    -------
    int
        0, or ``outcome + 4 * missing_rank``.
    """
    store_release(arrivals, rank * STRIDE, epoch)
    for peer in range(len(arrivals) // STRIDE):
        outcome = wait_for(arrivals, peer * STRIDE, epoch, abort, timeout, spin)
        if outcome != ARRIVED:
            return outcome + 4 * peer
    return 0
