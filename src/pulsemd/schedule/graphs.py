"""Runs of steps as CUDA graphs: recorded when they come a second time, launched as a whole from then on."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

from pulsemd.device.cuda import CudaDevice
from pulsemd.device.graph import CudaGraph

LIMIT = 64
"""Graphs kept; patterns beyond it are launched kernel by kernel."""


class StepGraphs:
    """The graphs of a run, one for each pattern of consecutive steps.

    Parameters
    ----------
    device : CudaDevice
    priorities : bool
        Kernels keep the priorities of their streams.

    Notes
    -----
    A graph refers to the arrays there were when it was recorded: call `clear` whenever one is replaced.
    """

    def __init__(self, device: CudaDevice, priorities: bool = False) -> None:
        self._capture = partial(device.capture, priorities=True) if priorities else device.capture
        self._graphs: dict[Hashable, CudaGraph] = {}
        self._seen: set[Hashable] = set()
        self._longest: tuple[int, CudaGraph] | None = None

    def run(self, pattern: Hashable, n_steps: int, work: Callable[[], None]) -> None:
        """Do what ``work`` launches; equal patterns must launch the same.

        Parameters
        ----------
        pattern : hashable
        n_steps : int
            Steps that ``work`` makes, for the report.
        work : function
            Called to launch everything, or to have it recorded.
        """
        graph = self._graphs.get(pattern)
        if graph is None:
            if pattern not in self._seen or len(self._graphs) >= LIMIT:
                if len(self._seen) < 4 * LIMIT:
                    self._seen.add(pattern)
                work()  # loads the kernels too, which a recording must not
                return
            graph = self._graphs[pattern] = self._capture(work)
            if self._longest is None or n_steps > self._longest[0]:
                self._longest = n_steps, graph
        graph()

    def clear(self) -> None:
        """Forget all graphs."""
        self._graphs.clear()
        self._seen.clear()
        self._longest = None

    def report(self) -> dict[str, int] | str:
        """Nodes and longest chain of the graph of the most steps; or why there is none."""
        if self._longest is None:
            return "none: no run of steps came twice"
        steps, graph = self._longest
        return {
            "nodes": graph.nodes,
            "critical_path": graph.critical_path,
            "steps": steps,
            "graphs": len(self._graphs),
        }
