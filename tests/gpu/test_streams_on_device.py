"""Streams, branches and graphs of a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.gpu


def test_capture_of_two_branches_runs_both_and_counts_its_nodes(device: Any) -> None:
    branch = device.new_stream(priority=-1)
    a, b = device.full(1 << 20, 7, np.int32), device.full(1 << 20, 7, np.int32)

    def work() -> None:
        device.fork(branch)
        b.data.memset_async(0, b.nbytes, branch)
        a.data.memset_async(0, a.nbytes, device.stream)
        device.join(branch)
        a.data.copy_from_device_async(b.data, 4, device.stream)

    graph = device.capture(work)
    assert int(device.to_host(a)[1]) == 7
    assert (graph.nodes, graph.critical_path) == (3, 2)
    graph()
    device.synchronize()
    assert not device.to_host(a).any()
    assert not device.to_host(b).any()
