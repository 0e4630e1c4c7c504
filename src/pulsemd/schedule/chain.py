"""How the kernels of a step that are launched one behind the other on a GPU overlap."""

from __future__ import annotations

from pulsemd.device.overlap import Wait


class KernelChain:
    """Says of each kernel of a chain where it waits for the one ahead: all but the first run beside that first one."""

    def __init__(self) -> None:
        self._next: Wait | None = None

    def begin(self, overlaps: bool) -> None:
        """A chain begins; `overlaps`: its first kernel may begin while the kernel ahead of it in the stream ends."""
        self._next = Wait.LATER if overlaps else None

    def join(self, first: Wait = Wait.LATER, then: Wait = Wait.LAST) -> Wait | None:
        """Where the next kernel waits; None: it begins when the one ahead has ended.

        Parameters
        ----------
        first : Wait
            Where it waits as the first of the chain.
        then : Wait
            Where the one behind it has to wait for it.
        """
        wait, self._next = self._next, then
        return first if wait is Wait.LATER else wait
