"""Ctrl-C that waits for the end of what must not be cut short."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupt_held_back() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end of the block, not inside; a second Ctrl-C does not wait."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = signal.getsignal(signal.SIGINT)
    asked = []

    def note(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, earlier)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, earlier)
    if asked:
        raise KeyboardInterrupt
