"""Requests to end a run, by Ctrl-C or SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

INTERRUPTED = 130
"""Exit code."""

_ONE_REQUEST = 1.0
"""Seconds in which signals are one request: a queue or systemd signals every process, and a launcher its ranks too."""


@contextmanager
def ended_at_once(out: str | None) -> Iterator[None]:
    """SIGINT and SIGTERM end the program at once where nothing inside takes them over, as a run does that has begun.

    An exception raised in the middle of imports would come out of them as another one. Folders that were made for
    ``out`` and are empty go, also when there is an error.
    """
    missing = [] if out is None else [f for f in (Path(out), *Path(out).parents) if not os.path.exists(f)]

    def tidy() -> None:
        for folder in missing:
            with suppress(OSError):  # it is not there, or not empty
                folder.rmdir()

    def end(number: int, frame: FrameType | None) -> NoReturn:
        os.write(2, b"interrupted\n")  # print may be what was interrupted
        tidy()
        os._exit(INTERRUPTED)

    in_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if in_main else ()
    earlier = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    except BaseException:
        tidy()
        raise
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


class StopRequest:
    """While entered, the first SIGINT or SIGTERM is remembered, and one that comes later ends the program at once.

    Python lets only the main thread handle signals; in others this does nothing.

    Parameters
    ----------
    quiet : bool
        Say nothing: for all ranks but the first, which get the signal too.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.number, self._quiet, self._since = 0, quiet, 0.0
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
            if monotonic() < self._since + _ONE_REQUEST:
                return
            raise KeyboardInterrupt
        self.number, self._since = number, monotonic()
        if self._quiet:
            return
        name = signal.Signals(number).name
        print(
            f"{name}: stopping at the next neighbor search; once more ends at once",
            file=sys.stderr,
            flush=True,
        )
