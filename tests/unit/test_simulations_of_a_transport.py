"""Two simulations of one transport between GPUs: the later one has the arrays."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pulsemd.base.errors import ConfigError
from pulsemd.engine.gpu_control import control_of, take_fields
from pulsemd.halo import open_transport


def test_fields_between_gpus_of_an_earlier_simulation_are_refused_once_there_is_another() -> None:
    gpus = SimpleNamespace(name="nvshmem-fused", path="", ranks=range(2), size=4, n_simulations=0)
    first = take_fields(control_of(gpus))
    first()
    second = take_fields(control_of(gpus))
    second()
    with pytest.raises(ConfigError, match=r"nvshmem-fused: another simulation .* open a transport for each"):
        first()


def test_fields_on_cpus_stay_with_every_simulation() -> None:
    with open_transport("loopback") as transport:
        first = take_fields(transport)
        take_fields(transport)()
        first()
