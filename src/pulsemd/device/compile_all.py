"""Compile every CUDA program of the package for every architecture, without a GPU.

Run as ``python -m pulsemd.device.compile_all [--report]``. A package of kernels lists its programs in a module
``cuda_programs`` by a function ``programs()``; such modules are found by name, because this layer lies below
theirs.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product

from pulsemd.base.cores import usable_cores
from pulsemd.device.program import ARCHITECTURES, CudaProgram, compile_program

_ROOTS = ("pulsemd.device", "pulsemd.kernels", "pulsemd.domain", "pulsemd.halo")
_CATALOG = "cuda_programs"


def all_programs() -> Iterator[CudaProgram]:
    """Every program that some ``cuda_programs`` module lists."""
    for root in _ROOTS:
        package = importlib.import_module(root)
        for module in pkgutil.walk_packages(package.__path__, prefix=f"{root}."):
            if module.name.rpartition(".")[2] == _CATALOG:
                yield from importlib.import_module(module.name).programs()


def main(arguments: list[str] | None = None) -> int:
    """Compile all programs; prints one line for each that fails and returns 1 if any did."""
    parser = argparse.ArgumentParser(description="Compile every CUDA program without a GPU.")
    parser.add_argument("--report", action="store_true", help="print registers and spills of each kernel")
    parser.add_argument("--arch", action="append", choices=ARCHITECTURES, help="only this architecture")
    parser.add_argument("--only", default="", help="only programs whose name holds this text")
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    programs = [program for program in dict.fromkeys(all_programs()) if options.only in program.name]
    jobs = list(product(programs, options.arch or ARCHITECTURES))
    # The compiler is thread-safe and leaves Python's lock alone; reports have to stay whole.
    with ThreadPoolExecutor(1 if options.report else usable_cores()) as threads:
        compiled = sum(threads.map(lambda job: _compiles(job[0], job[1], options.report), jobs))
    seconds = time.perf_counter() - start
    print(f"{compiled} of {len(jobs)} CUDA programs compiled in {seconds:.1f} s")
    return int(compiled < len(jobs) or not jobs)


def _compiles(program: CudaProgram, architecture: str, report: bool) -> bool:
    if report:
        print(f"--- {architecture} {program.name}", flush=True)
    try:
        compile_program(program, architecture, logs=sys.stdout if report else None)
    except Exception as error:  # the compiler raises its own kinds; each is reported and counted
        print(f"{architecture} {program.name}: {error}", file=sys.stderr)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
