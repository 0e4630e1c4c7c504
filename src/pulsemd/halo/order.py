"""The order of the calls of a channel."""

from __future__ import annotations

from pulsemd.base.errors import TransportError


class CallOrder:
    """One exchange of a channel at a time: it is under way until its end.

    Parameters
    ----------
    channel : str
    rank : int
    """

    def __init__(self, channel: str, rank: int) -> None:
        self._channel, self._rank = channel, rank
        self._under_way = ""

    def step(self, before: str, after: str, call: str) -> None:
        """Go from one exchange under way to another, '' being none.

        Raises
        ------
        TransportError
            If another one is under way.
        """
        if self._under_way != before:
            raise TransportError(
                f"channel {self._channel!r}, rank {self._rank}: {call} while {self._under_way or 'nothing'} is under "
                "way; call begin, end, begin, end"
            )
        self._under_way = after
