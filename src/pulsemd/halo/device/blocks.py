"""How many blocks share the rows of a message."""

from __future__ import annotations

from typing import Final

from pulsemd.halo.device.cuda_programs import THREADS
from pulsemd.halo.device.tables import MOST_PARTS

_MOST_TURNS: Final = {"forward": 32, "reverse": 8}
"""Units of each thread beyond which more blocks than multiprocessors are faster: forward, four are in flight."""


def blocks_of_message(direction: str, units: int, messages: int, multiprocessors: int) -> int:
    """Blocks of each message of a launch.

    As many as give each thread one unit, but all messages together no more than one for each multiprocessor, unless
    threads then had many units each.

    Parameters
    ----------
    direction : {'forward', 'reverse'}
    units : int
        Of the largest message; a thread copies one at a time.
    messages : int
        Of all local plan-ranks in one launch.
    multiprocessors : int
        Of the smallest GPU.
    """
    enough = -(-units // THREADS)
    each = max(1, multiprocessors // messages, enough // _MOST_TURNS[direction])
    return min(MOST_PARTS, max(1, enough), each)
