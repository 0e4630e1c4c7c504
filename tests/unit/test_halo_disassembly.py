"""Machine code of kernels that run while peers write to this GPU: nothing is read through the non-coherent cache.

Kernels that read ghost rows but no signals start after the exchange has ended, which waits for every row, and end
before a peer may write there again: to them such rows are constant, and they are not looked at here.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from pulsemd.device.compile_all import all_programs
from pulsemd.device.program import CudaProgram, compile_program
from pulsemd.halo.device.cuda_programs import programs

ARCHITECTURE = "sm_90"
NON_COHERENT = re.compile(r"\bLDG\.\S*CONSTANT|\bLDG\.\S*\.NC\b|\bTLD|\bTEX\b")
SYSTEM_STORE = re.compile(r"\bST\S*\.STRONG\.SYS\b|\bST\.E\.\S*SYS\b")


def disassembler() -> str:
    """Path of nvdisasm; without it tests are skipped."""
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.core") is None:
        pytest.skip("cuda-core is not installed")
    from cuda.pathfinder import find_nvidia_binary_utility

    path = find_nvidia_binary_utility("nvdisasm")
    if path is None:
        pytest.skip("nvdisasm is not installed: pip install nvidia-cuda-nvdisasm")
    return path


def disassemble(programs: Sequence[CudaProgram], folder) -> list[str]:
    """Machine code of programs as text; on every core."""
    tool = disassembler()

    def code(number: int) -> str:
        cubin = folder / f"{number}.cubin"
        cubin.write_bytes(compile_program(programs[number], ARCHITECTURE))
        command = [tool, "--print-code", str(cubin)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        return list(threads.map(code, range(len(programs))))


EXCHANGES = {"forward.cu", "reverse.cu", "reduce.cu", "array_sum.cu", "barrier.cu", "direct.cu", "step.cu"}
"""Of rows, sums and plans."""
INBOXES = {"migrate.cu", "ghosts.cu", "verdict.cu"}
"""Of searches on the device, whose atoms, rows and words peers store."""
UNPACKING = {"rows.cu"}
"""Of rungs that the host drives."""


@pytest.mark.parametrize("file", sorted(EXCHANGES | INBOXES | UNPACKING))
def test_kernels_that_peers_write_to_have_no_non_coherent_load(file, tmp_path):
    found = [program for program in all_programs() if program.file == file]
    assert found
    for program, code in zip(found, disassemble(found, tmp_path), strict=True):
        assert "LD" in code
        assert not NON_COHERENT.findall(code), program.name


def test_every_program_of_the_exchange_is_looked_at():
    package = {p.file for p in all_programs() if p.package.startswith(("pulsemd.halo", "pulsemd.domain"))}
    assert package == EXCHANGES | INBOXES | UNPACKING


def test_a_read_only_pointer_is_found_by_this_test(tmp_path):
    text = (
        'extern "C" __global__ void copy(const int* __restrict__ from, int* __restrict__ to) {'
        " to[threadIdx.x] = from[threadIdx.x]; }"
    )
    program = CudaProgram("pulsemd.halo.device", "copy.cu", generated=(("copy.cu", text),))
    (code,) = disassemble([program], tmp_path)
    assert NON_COHERENT.findall(code)


def test_signals_are_stored_at_system_scope(tmp_path):
    program = next(program for program in programs() if program.file == "forward.cu")
    (code,) = disassemble([program], tmp_path)
    assert SYSTEM_STORE.findall(code)
