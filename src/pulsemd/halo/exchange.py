"""The exchange itself: puts, epochs and credits on memory that every rank can address.

Forward, per pulse: wait until the receiver has read the ghost rows of the last exchange (its credit), store the rows
straight into its array, release-store the epoch into its signal word. Rows that are forwarded wait for exactly the
pulse that brings them. Reverse, in reverse pulse order: store the ghost rows into the owner's staging rows, signal; the
owner adds them in a fixed order, then grants the credit that lets the staging rows be overwritten.

Every function is one call without the interpreter lock and returns 0 or `status`: outcome, kind of wait and pulse.
"""

# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-untyped-calls=False
# mypy: disable-error-code="call-arg, var-annotated"

from __future__ import annotations

from typing import Final

from numba import njit

from pulsemd.halo.atomics import store_release, usleep
from pulsemd.halo.layout import STRIDE
from pulsemd.halo.signals import ARRIVED, wait_for

# Kinds of signal word, one of each per rank and pulse; FORWARDED is a wait on the ARRIVAL word of an earlier pulse.
ARRIVAL, CREDIT, REVERSE_ARRIVAL, REVERSE_CREDIT, FORWARDED = range(5)
N_KINDS: Final = 4
N_WAITS: Final = 5

# Columns of `pulses`, one row a pulse.
SEND_RANK, RECV_RANK, N_SEND, N_RECV, RECV_START, STAGING, REMOTE_STAGING, DELAY, REPEATS = range(9)
N_COLUMNS: Final = 9

# Columns of `sends`, one row per group of rows of a pulse that wait for the same earlier pulse.
PULSE, DEPENDS, BEGIN, END, LAST = range(5)


@njit(cache=True, nogil=True)
def _word(signals, n_ranks, rank, kind, pulse):
    slots = len(signals) // (n_ranks * N_KINDS * STRIDE)
    return ((rank * N_KINDS + kind) * slots + pulse) * STRIDE


@njit(cache=True, nogil=True)
def _status(outcome, kind, pulse):
    return outcome + 4 * (kind + 8 * pulse)


@njit(cache=True, nogil=True)
def _wait(signals, n_ranks, rank, kind, pulse, epoch, waits, wait_kind, abort, timeout, spin):
    """Wait for a signal of this rank; 0 or a status. ``waits`` is all ones but for injected faults."""
    if waits[wait_kind, pulse] == 0:
        return 0
    outcome = wait_for(signals, _word(signals, n_ranks, rank, kind, pulse), epoch, abort, timeout, spin)
    return 0 if outcome == ARRIVED else _status(outcome, wait_kind, pulse)


@njit(cache=True, nogil=True)
def _signal(signals, n_ranks, rank, kind, pulse, epoch, repeats):
    for _ in range(1 + repeats):
        store_release(signals, _word(signals, n_ranks, rank, kind, pulse), epoch)


@njit(cache=True, nogil=True)
def _copy_rows(source, rows, begin, end, target):
    """target[rows[1, k]] = source[rows[0, k]]; width 3 spelled out, as its inner loop costs more than the copy."""
    width = source.shape[1]
    if width == 3:
        for k in range(begin, end):
            row, place = rows[0, k], rows[1, k]
            target[place, 0] = source[row, 0]
            target[place, 1] = source[row, 1]
            target[place, 2] = source[row, 2]
    else:
        for k in range(begin, end):
            row, place = rows[0, k], rows[1, k]
            for word in range(width):
                target[place, word] = source[row, word]


@njit(cache=True, nogil=True)
def _send(rank, send, field, rows, pulses, sends, waits, signals, abort, epoch, settled, timeout, spin):
    """Put one group of rows; after the last group of a pulse, signal. 0 or a status."""
    n_ranks = field.shape[0]
    pulse = sends[send, PULSE]
    peer = pulses[pulse, SEND_RANK]
    if epoch - 1 > settled:
        status = _wait(signals, n_ranks, rank, CREDIT, pulse, epoch - 1, waits, CREDIT, abort, timeout, spin)
        if status != 0:
            return status
    if pulses[pulse, DELAY] > 0:
        usleep(pulses[pulse, DELAY])
    _copy_rows(field[rank], rows, sends[send, BEGIN], sends[send, END], field[peer])
    if sends[send, LAST] != 0:
        # Completes this pulse's puts; awaited in `forward_end` of the peer (ARRIVAL, or FORWARDED by its later pulses).
        # The peer's rows may be overwritten again once it has granted CREDIT for this epoch.
        _signal(signals, n_ranks, peer, ARRIVAL, pulse, epoch, pulses[pulse, REPEATS])
    return 0


@njit(
    "void(int64, int64[:, ::1], int64[::1], int64)",
    cache=True,
    nogil=True,
)
def grant(n_ranks, pulses, signals, epoch):
    """Tell every sender that the ghost rows of ``epoch`` have been read here."""
    for pulse in range(len(pulses)):
        store_release(signals, _word(signals, n_ranks, pulses[pulse, RECV_RANK], CREDIT, pulse), epoch)


_FORWARD: Final = [
    f"int64(int64, {word}[:, :, ::1], int32[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[::1], "
    "int64[::1], int64, int64, float64, int64)"
    for word in ("int32", "int64")
]


@njit(_FORWARD, cache=True, nogil=True)
def forward_begin(rank, field, rows, pulses, sends, waits, signals, abort, epoch, settled, timeout, spin):
    """Send all owned rows.

    Parameters
    ----------
    rank : int
    field : (size, capacity, words) int32 or int64
        The symmetric array of all ranks, as words.
    rows : (2, n) int32
        Row here and ghost row at the peer, pulse by pulse and within a pulse grouped by what they wait for.
    pulses : (n_pulses, N_COLUMNS) int64
    sends : (n_groups, 5) int64
    waits : (N_WAITS, n_pulses) int64
        0 where an injected fault skips a wait, else 1.
    signals, abort : (n,) int64
    epoch : int
        Number of this exchange on this channel, from 1.
    settled : int
        Epoch up to which a barrier has proved all ghost rows read.
    timeout : float, s
    spin : int

    Returns
    -------
    int
        0 or a status.
    """
    for send in range(len(sends)):
        if sends[send, DEPENDS] < 0:
            status = _send(
                rank, send, field, rows, pulses, sends, waits, signals, abort, epoch, settled, timeout, spin
            )
            if status != 0:
                return status
    return 0


@njit(_FORWARD, cache=True, nogil=True)
def forward_end(rank, field, rows, pulses, sends, waits, signals, abort, epoch, settled, timeout, spin):
    """Forward ghost rows as they arrive, then wait for all arrivals; arguments as `forward_begin`."""
    n_ranks = field.shape[0]
    for send in range(len(sends)):
        source = sends[send, DEPENDS]
        if source >= 0:
            status = _wait(
                signals, n_ranks, rank, ARRIVAL, source, epoch, waits, FORWARDED, abort, timeout, spin
            )
            if status == 0:
                status = _send(
                    rank,
                    send,
                    field,
                    rows,
                    pulses,
                    sends,
                    waits,
                    signals,
                    abort,
                    epoch,
                    settled,
                    timeout,
                    spin,
                )
            if status != 0:
                return status
    for pulse in range(len(pulses)):
        status = _wait(signals, n_ranks, rank, ARRIVAL, pulse, epoch, waits, ARRIVAL, abort, timeout, spin)
        if status != 0:
            return status
    return 0


@njit(cache=True, nogil=True)
def _send_back(rank, pulse, field, staging, pulses, waits, signals, abort, epoch, settled, timeout, spin):
    """Put the ghost rows of one pulse into the staging rows of the rank they came from, and signal."""
    n_ranks = field.shape[0]
    peer = pulses[pulse, RECV_RANK]
    if epoch - 1 > settled:
        status = _wait(
            signals,
            n_ranks,
            rank,
            REVERSE_CREDIT,
            pulse,
            epoch - 1,
            waits,
            REVERSE_CREDIT,
            abort,
            timeout,
            spin,
        )
        if status != 0:
            return status
    if pulses[pulse, DELAY] > 0:
        usleep(pulses[pulse, DELAY])
    first, place, count = pulses[pulse, RECV_START], pulses[pulse, REMOTE_STAGING], pulses[pulse, N_RECV]
    ghosts = field[rank, first : first + count].reshape(-1)
    target = staging[peer, place : place + count].reshape(-1)
    for k in range(len(ghosts)):
        target[k] = ghosts[k]
    # Completes the put; awaited in `reverse_end` of the owner, which grants REVERSE_CREDIT once it has added the rows.
    _signal(signals, n_ranks, peer, REVERSE_ARRIVAL, pulse, epoch, pulses[pulse, REPEATS])
    return 0


@njit(cache=True, nogil=True)
def _add_rows(target, rows, source, start, count):
    """target[rows[k]] += source[k] for ``count`` rows k from ``start``, in order: a row may occur twice."""
    width = target.shape[1]
    if width == 3:
        for k in range(start, start + count):
            row = rows[k]
            target[row, 0] += source[k, 0]
            target[row, 1] += source[k, 1]
            target[row, 2] += source[k, 2]
    else:
        for k in range(start, start + count):
            row = rows[k]
            for column in range(width):
                target[row, column] += source[k, column]


_REVERSE: Final = [
    f"int64(int64, {scalar}[:, :, ::1], {scalar}[:, :, ::1], int32[::1], int64[:, ::1], int64[::1], int64[:, ::1], "
    "int64[::1], int64[::1], int64, int64, float64, int64)"
    for scalar in ("int32", "int64", "float32", "float64")
]


@njit(_REVERSE, cache=True, nogil=True)
def reverse_begin(
    rank, field, staging, rows, pulses, early, waits, signals, abort, epoch, settled, timeout, spin
):
    """Send back the ghost rows of the pulses in ``early``: those of which this rank forwards nothing.

    Parameters
    ----------
    field, staging : (size, capacity, width), the channel's dtype
        Rows and staging rows of all ranks.
    rows : (n,) int32
        Rows of each pulse in the plan's order, which is the order of its staging rows.
    early : (n,) int64
        Pulses to send at once.
    other : as in `forward_begin`

    Returns
    -------
    int
        0 or a status.
    """
    for pulse in early:
        status = _send_back(
            rank, pulse, field, staging, pulses, waits, signals, abort, epoch, settled, timeout, spin
        )
        if status != 0:
            return status
    return 0


@njit(_REVERSE, cache=True, nogil=True)
def reverse_end(
    rank, field, staging, rows, pulses, early, waits, signals, abort, epoch, settled, timeout, spin
):
    """Add what comes back, last pulse first; send back the rest on the way. Arguments as `reverse_begin`.

    A pulse whose ghost rows were forwarded is later than none of the pulses that forwarded them, so its rows are
    complete when its turn comes.
    """
    n_ranks = field.shape[0]
    for pulse in range(len(pulses) - 1, -1, -1):
        late = True
        for sent in early:
            late = late and sent != pulse
        status = 0
        if late:
            status = _send_back(
                rank, pulse, field, staging, pulses, waits, signals, abort, epoch, settled, timeout, spin
            )
        if status == 0:
            status = _wait(
                signals,
                n_ranks,
                rank,
                REVERSE_ARRIVAL,
                pulse,
                epoch,
                waits,
                REVERSE_ARRIVAL,
                abort,
                timeout,
                spin,
            )
        if status != 0:
            return status
        _add_rows(field[rank], rows, staging[rank], pulses[pulse, STAGING], pulses[pulse, N_SEND])
        peer = pulses[pulse, SEND_RANK]
        store_release(signals, _word(signals, n_ranks, peer, REVERSE_CREDIT, pulse), epoch)
    return 0
