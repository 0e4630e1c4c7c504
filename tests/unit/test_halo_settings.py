"""Names, time-outs and faults as a user writes them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from pulsemd.base.errors import ConfigError, InputError, TransportError
from pulsemd.halo import launch, open_transport
from pulsemd.halo.agreement import received, sendable
from pulsemd.halo.control import Control
from pulsemd.halo.faults import Fault, parse_faults
from pulsemd.halo.transport import wait_limit


def test_open_transport_with_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"'ucx' does not exist; use one of loopback, shmem, mpi"):
        open_transport("ucx")


def test_rung_between_gpus_asked_of_cpus_is_refused_with_what_takes_it() -> None:
    for ask in (lambda: open_transport("nccl"), lambda: launch(2, "module:function", transport="nccl")):
        with pytest.raises(ConfigError, match="between GPUs are for launch_gpus"):
            ask()


def test_launch_with_a_target_that_is_no_function_is_refused() -> None:
    for target in ("module.function", print):
        with pytest.raises(ConfigError, match="'module:function', a string"):
            launch(2, target)  # type: ignore[arg-type]


@pytest.mark.parametrize("transport", ["loopback", "shmem"])
def test_launch_of_a_function_that_is_not_there_says_where_it_was_looked_for(transport: str) -> None:
    with pytest.raises(ConfigError, match=r"no 'fmode' in module 'fractions' of the ranks, .*fractions\.py"):
        launch(2, "fractions:fmode", transport=transport)


def test_wait_limit_comes_from_the_argument_then_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULSEMD_TIMEOUT", "7.5")
    assert wait_limit(2.0) == 2.0
    assert wait_limit(None) == 7.5
    monkeypatch.setenv("PULSEMD_TIMEOUT", "soon")
    with pytest.raises(ConfigError, match="PULSEMD_TIMEOUT is 'soon'"):
        wait_limit(None)
    with pytest.raises(ConfigError, match="timeout is -1; give a number of seconds"):
        wait_limit(-1)


def test_faults_are_read_as_written() -> None:
    faults = parse_faults("delay rank=1 pulse=0 us=20; skip wait=credit channel=x")
    assert faults == (Fault("delay", rank=1, pulse=0, us=20), Fault("skip", wait="credit", channel="x"))
    assert faults[0].concerns(1, "x")
    assert not faults[0].concerns(0, "x")
    assert not faults[1].concerns(0, "y")


@pytest.mark.parametrize("text", ["explode", "delay us=much", "skip wait=nothing", "delay where=1"])
def test_faults_that_do_not_exist_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="faults"):
        parse_faults(text)


def test_control_block_keeps_the_first_cause() -> None:
    memory = np.zeros(Control.n_bytes(3), np.uint8)
    first, second = Control(memory, 3), Control(memory, 3)
    assert first.origin() is None
    first.stop(2, "rank 2 fell over")
    second.stop(1, "rank 1 noticed")
    assert second.origin() == 2
    assert second.cause() == "rank 2 fell over"


def test_error_sent_to_another_rank_keeps_its_type_and_names_its_rank() -> None:
    error = received(sendable(InputError("bad line", "a.top", 3)), 5)
    assert isinstance(error, InputError)
    assert str(error) == "a.top:3: bad line"
    assert error.__notes__ == ["raised on rank 5"]


def test_error_that_cannot_be_pickled_is_sent_as_text() -> None:
    class LocalError(ConfigError):
        pass

    error = received(sendable(LocalError("too small")), 1)
    assert isinstance(error, TransportError)
    assert "LocalError: too small" in str(error)


def test_import_of_the_library_needs_neither_mpi_nor_a_compiler() -> None:
    code = "import pulsemd.halo, sys; print([m for m in ('mpi4py', 'numba') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_control_plane_of_processes_with_gpus_leaves_the_exchange_of_cpus_uncompiled() -> None:
    code = "import pulsemd.halo.transports.shmem, sys; print('pulsemd.halo.exchange' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_launch_of_mpi_without_mpi4py_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsemd.halo.mpirun.find_spec", lambda name: None)
    with pytest.raises(TransportError, match=r"mpi4py is not installed; pip install 'pulsemd\[mpi\]'"):
        launch(2, "math:fmod", transport="mpi")
