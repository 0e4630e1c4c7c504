"""NVSHMEM as far as it can be judged without a GPU: the shim, the version, who may start it, who allocates what."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from pulsemd.base.errors import ConfigError, TransportError
from pulsemd.halo import launch, launch_gpus
from pulsemd.halo.conformance import Field, check_plan
from pulsemd.halo.network import build
from pulsemd.halo.network.link import link
from pulsemd.halo.rows import plan_from_ids
from pulsemd.halo.rungs.bench import bench_plan
from pulsemd.halo.transports import nvshmem


@pytest.mark.parametrize("version", build.shipped())
def test_shim_object_of_each_version_is_that_of_its_source(version: str) -> None:
    assert build.find_difference(build.FOLDER, version) is None


def test_shim_object_of_another_source_is_noticed(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "shim.cu"
    source.write_text(build.SOURCE.read_text() + "// changed\n")
    monkeypatch.setattr(build, "SOURCE", source)
    assert "built from another" in str(build.find_difference(build.FOLDER, build.shipped()[0]))


def test_program_that_puts_links_without_a_gpu() -> None:
    from pulsemd.device.program import CudaProgram

    try:
        build.nvshmem_root()
        pytest.importorskip("cuda.bindings.nvjitlink").version()
    except (TransportError, RuntimeError) as error:
        pytest.skip(str(error))
    text = (
        'extern "C" __device__ int pulsemd_signal(unsigned long long*, unsigned long long, int);\n'
        'extern "C" __global__ void k(unsigned long long* word) { pulsemd_signal(word, 1, 0); }\n'
    )
    program = CudaProgram("pulsemd.halo.network", "k.cu", generated=(("k.cu", text),))
    assert link(program, "sm_90").startswith(b"\x7fELF")


class Bindings:
    """The part of nvshmem.bindings that is called before memory is used."""

    class NVSHMEMError(Exception):
        pass

    def __init__(self, version: tuple[int, int, int], running: tuple[int, int] | None = None) -> None:
        self._version, self._running = version, running

    def vendor_get_version_info(self, *addresses: int) -> None:
        for address, number in zip(addresses, self._version, strict=True):
            ctypes.c_int.from_address(address).value = number

    def init_status(self) -> int:
        return 2 if self._running else 0

    def my_pe(self) -> int:
        assert self._running
        return self._running[0]

    def n_pes(self) -> int:
        assert self._running
        return self._running[1]


def alone(value: Any) -> list[Any]:
    """Gather of two processes that agree."""
    return [value, value]


def open_with(monkeypatch: pytest.MonkeyPatch, bindings: Bindings) -> None:
    monkeypatch.setattr(nvshmem, "_bindings", lambda: bindings)
    nvshmem.open_memory(None, 0, 2, alone)  # type: ignore[arg-type]


def test_old_nvshmem_is_refused_with_both_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TransportError, match=r"3\.4 or later is needed, 3\.3\.20 is installed"):
        open_with(monkeypatch, Bindings((3, 3, 20)))


def test_running_nvshmem_of_other_processes_is_refused_with_both_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(TransportError, match="process 0 of 4, this job has process 0 of 2"):
        open_with(monkeypatch, Bindings((3, 4, 5), running=(0, 4)))


def test_missing_nvshmem_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Any:
        raise TransportError("nvshmem4py is not installed; pip install 'pulsemd[nvshmem]'")

    monkeypatch.setattr(nvshmem, "_bindings", absent)
    with pytest.raises(TransportError, match=r"process 0: nvshmem4py is not installed; pip install"):
        nvshmem.open_memory(None, 0, 2, alone)  # type: ignore[arg-type]


@pytest.mark.parametrize("other", [("allocate", 4096), ("free", 1024)])
def test_allocation_that_differs_between_processes_is_refused(other: tuple[str, int]) -> None:
    memory = object.__new__(nvshmem.NvshmemMemory)
    memory._calls, memory._history = 0, b""
    memory._gather = lambda share: [share, (share[0], *other, b"another history")]
    with pytest.raises(TransportError, match=rf"allocate of 1024 .* process 1 in {other[0]} of {other[1]}"):
        memory._agree_on("allocate", 1024)


def test_same_call_after_different_calls_is_refused() -> None:
    histories = {}
    for first in (512, 1024):
        memory = object.__new__(nvshmem.NvshmemMemory)
        memory._calls, memory._history = 0, b""
        memory._gather = lambda share: [share]
        memory._agree_on("allocate", first)
        memory._agree_on("allocate", 2048)
        histories[first] = memory._history
    assert histories[512] != histories[1024]


def test_launch_on_gpus_without_a_driver_is_refused_before_anything_starts() -> None:
    from pulsemd.device.cuda import find_device_problem

    if find_device_problem() is None:
        pytest.skip("this machine has a GPU")
    with pytest.raises(TransportError, match="no GPU can be used: ") as caught:
        launch_gpus(2, "os:getpid")
    assert caught.value.exit_code == 4


def test_rung_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(ConfigError, match="nvshmem-fused"):
        launch_gpus(2, "os:getpid", transport="shmem")


def exchange_bench_plans(transport: Any, grid: tuple[int, ...]) -> list[int]:
    """The plan of `pulsemd bench halo`, and a direct one of the same rows, under the suite's checks."""
    plan, ids = bench_plan(grid, transport.rank, 64)
    check_plan(Field(transport, plan, ids, "int32", 4, "staged"))
    direct, local = plan_from_ids(transport, ids[: plan.n_owned], ids[plan.n_owned :])
    check_plan(Field(transport, direct, local, "int32", 4, "direct"))
    return [len(plan.pulses), sum(p.n_send for p in plan.pulses), plan.n_local - direct.n_local]


@pytest.mark.parametrize(("grid", "pulses"), [((2,), 1), ((2, 2), 2), ((2, 2, 2), 3), ((1, 2, 4), 2)])
def test_bench_plan_exchanges_what_it_says(grid: tuple[int, ...], pulses: int) -> None:
    found = launch(
        int(np.prod(grid)), f"{__name__}:exchange_bench_plans", grid, transport="loopback", timeout=30.0
    )
    assert found == [pulses, 64 * pulses, 0]
