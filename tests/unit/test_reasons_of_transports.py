"""A run says why it does not use a faster transport."""

from __future__ import annotations

from types import SimpleNamespace

from pulsemd.cli.rank import why_not_faster
from pulsemd.engine.gpu_control import control_of
from pulsemd.halo import open_transport


def test_transport_that_was_passed_over_is_named_with_the_reason() -> None:
    gpus = SimpleNamespace(name="nccl", path="nccl", ranks=range(2), size=4)
    assert why_not_faster(control_of(gpus)) == ""
    gpus.reasons = ("nvshmem-step: nvshmem4py is not installed",)
    assert why_not_faster(control_of(gpus)) == "\nnote: nvshmem-step: nvshmem4py is not installed"


def test_ranks_on_cpus_pass_over_nothing() -> None:
    with open_transport("loopback") as transport:
        assert why_not_faster(transport) == ""
