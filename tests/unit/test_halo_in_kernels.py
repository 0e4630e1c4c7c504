"""Code of kernels that exchange rows by themselves: positions that peers write are never read through the non-coherent
cache, which may hold what was there before the kernel waited.
"""

from __future__ import annotations

import importlib.util
import re

import pytest

from pulsemd.device.compile_all import all_programs
from pulsemd.device.program import CudaProgram, program_text

PASSED_ON = ("add", "sub", "mad", "shl", "mov", "cvta", "selp")
"""Operations whose result is an address if an operand is one."""


def ptx_of(program: CudaProgram) -> str:
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.bindings") is None:
        pytest.skip("cuda-bindings is not installed")
    from cuda.bindings import nvrtc

    _, handle = nvrtc.nvrtcCreateProgram(program_text(program).encode(), b"program.cu", 0, None, None)
    options = [b"--gpu-architecture=compute_90", b"--std=c++17", b"--device-as-default-execution-space"]
    (error,) = nvrtc.nvrtcCompileProgram(handle, len(options), options)
    assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS, program.name
    text = b" " * nvrtc.nvrtcGetPTXSize(handle)[1]
    nvrtc.nvrtcGetPTX(handle, text)
    return text.decode()


def loads_from(ptx: str, parameter: str) -> list[str]:
    """Operations that load from addresses made of a pointer that the kernel is given."""
    lines = [re.sub(r"^@!?%p\d+ ", "", line.strip()) for line in ptx.splitlines()]
    found = [match.groups() for line in lines if (match := re.match(r"([\w.]+)\s+(%\w+), (.*);$", line))]
    addresses: set[str] = set()
    known = -1
    while len(addresses) > known:
        known = len(addresses)
        for operation, result, operands in found:
            registers = set(re.findall(r"%\w+", operands))
            is_pointer = operation.startswith("ld.param") and operands == f"[{parameter}]"
            if is_pointer or (operation.split(".")[0] in PASSED_ON and registers & addresses):
                addresses.add(result)
    loads = [line.split()[0] for line in lines if line.startswith("ld.") and "ld.param" not in line]
    places = [
        re.findall(r"\[(%\w+)", line) for line in lines if line.startswith("ld.") and "ld.param" not in line
    ]
    return [load for load, place in zip(loads, places, strict=True) if set(place) & addresses]


def kernels_that_exchange() -> list[CudaProgram]:
    """One program of each file and precision."""
    chosen = {}
    for program in all_programs():
        macros = dict(program.defines)
        if macros.get("HALO") == 1:
            chosen.setdefault((program.file, program.exact), program)
    return list(chosen.values())


def test_kernels_that_exchange_read_positions_coherently() -> None:
    programs = kernels_that_exchange()
    assert {program.file for program in programs} == {"pair_forces.cu", "prune_pairs.cu", "leapfrog.cu"}
    for program in programs:
        name = program.file.removesuffix(".cu")
        loads = loads_from(ptx_of(program), f"{name}_param_0")
        assert loads, program.name
        assert not [load for load in loads if ".nc" in load], program.name


def test_a_read_only_pointer_is_found_by_this_test() -> None:
    text = (
        'extern "C" __global__ void copy(const int* __restrict__ from, int* __restrict__ to) {'
        " to[threadIdx.x] = from[threadIdx.x]; }"
    )
    program = CudaProgram("pulsemd.halo.device", "copy.cu", generated=(("copy.cu", text),))
    assert [load for load in loads_from(ptx_of(program), "copy_param_0") if ".nc" in load]
