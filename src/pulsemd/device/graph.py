"""A captured CUDA graph: launched as a whole, and asked for its nodes and its longest chain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pulsemd.base.errors import TransportError


class CudaGraph:
    """Work recorded from a stream and those that branch off it; calling the object launches it on that stream.

    Parameters
    ----------
    driver : module ``cuda.bindings.driver``
    handle : CUgraph
        As the capture returned it; owned from now on.
    stream : CUstream
    alive : object, optional
        What the nodes refer to; kept as long as the graph.
    priorities : bool
        Kernels keep the priorities of the streams they were recorded from; else all have that of ``stream``.

    Attributes
    ----------
    nodes : int
    critical_path : int
        Nodes of the longest chain of dependencies.
    """

    def __init__(
        self, driver: Any, handle: Any, stream: Any, alive: Any = None, priorities: bool = False
    ) -> None:
        self._driver, self._stream, self._alive = driver, stream, alive
        self.nodes, self.critical_path = self._measure(handle)
        flags = 0
        if priorities:
            flags = int(driver.CUgraphInstantiate_flags.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)
        try:
            (self._executable,) = checked(driver, driver.cuGraphInstantiate(handle, flags))
        finally:
            checked(driver, driver.cuGraphDestroy(handle))
        checked(driver, driver.cuGraphUpload(self._executable, stream))

    def _measure(self, handle: Any) -> tuple[int, int]:
        driver = self._driver
        _, n_nodes = checked(driver, driver.cuGraphGetNodes(handle))
        if n_nodes == 0:
            return 0, 0
        nodes, _ = checked(driver, driver.cuGraphGetNodes(handle, n_nodes))
        *_, n_edges = checked(driver, driver.cuGraphGetEdges(handle))
        begin: list[Any] = []
        end: list[Any] = []
        if n_edges:
            begin, end, *_ = checked(driver, driver.cuGraphGetEdges(handle, n_edges))
        edges = [(int(a), int(b)) for a, b in zip(begin, end, strict=True)]
        return n_nodes, longest_chain([int(node) for node in nodes], edges)

    def __call__(self) -> None:
        """Launch; does not wait."""
        error = self._driver.cuGraphLaunch(self._executable, self._stream)[0]
        if error != 0:
            checked(self._driver, (error,))

    def __del__(self) -> None:
        if hasattr(self, "_executable"):
            self._driver.cuGraphExecDestroy(self._executable)


def longest_chain(nodes: Iterable[int], edges: Iterable[tuple[int, int]]) -> int:
    """Nodes of the longest path of a directed graph without cycles."""
    later: dict[int, list[int]] = {node: [] for node in nodes}
    missing = dict.fromkeys(later, 0)
    for a, b in edges:
        later[a].append(b)
        missing[b] += 1
    ready = [node for node, count in missing.items() if count == 0]
    length = dict.fromkeys(later, 1)
    while ready:
        node = ready.pop()
        for other in later[node]:
            length[other] = max(length[other], length[node] + 1)
            missing[other] -= 1
            if missing[other] == 0:
                ready.append(other)
    return max(length.values(), default=0)


def checked(driver: Any, result: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a call of the driver returned, without its error code.

    Raises
    ------
    TransportError
        If the call failed.
    """
    error, *values = result
    if error != driver.CUresult.CUDA_SUCCESS:
        _, name = driver.cuGetErrorName(error)
        raise TransportError(f"--device cuda: the driver refused a graph: {name.decode()}")
    return tuple(values)
