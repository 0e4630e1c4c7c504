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
    start, failed, count = time.perf_counter(), 0, 0
    for program in all_programs():
        if options.only not in program.name:
            continue
        for architecture in options.arch or ARCHITECTURES:
            count += 1
            failed += not _compiles(program, architecture, options.report)
    seconds = time.perf_counter() - start
    print(f"{count - failed} of {count} CUDA programs compiled in {seconds:.1f} s")
    return int(failed > 0 or count == 0)


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
