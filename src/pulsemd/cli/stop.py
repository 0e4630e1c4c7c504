"""Requests to end a run, by Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class StopRequest:
    """While entered, the first SIGINT or SIGTERM is remembered and the second ends the program at once.

    Python lets only the main thread handle signals; in others this does nothing.

    Parameters
    ----------
    quiet : bool
        Say nothing: for all ranks but the first, which get the signal too.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.number, self._quiet = 0, quiet
        self._earlier: dict[int, Any] = {}

    def asked(self) -> bool:
        """Whether a signal came."""
        return self.number != 0

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._earlier[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._earlier.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            raise KeyboardInterrupt
        self.number = number
        if self._quiet:
            return
        name = signal.Signals(number).name
        print(
            f"{name}: stopping at the next neighbor search; once more ends at once",
            file=sys.stderr,
            flush=True,
        )
