"""Join a kernel compiled at run time with the shim and NVSHMEM's device library."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from pulsemd.base.errors import TransportError
from pulsemd.device.program import CudaProgram, compile_program
from pulsemd.halo.network.build import nvshmem_root, shim_object


def link(program: CudaProgram, architecture: str) -> bytes:
    """Machine code (cubin) of a program that calls the functions of ``network.cuh``; needs neither GPU nor driver.

    NVSHMEM has to be told of the loaded module before its kernels run.

    Raises
    ------
    TransportError
        If NVSHMEM or the linker is not installed, or NVSHMEM has a version without a shim.
    """
    code = compile_program(replace(program, relocatable=True), architecture)
    shim, library = _objects()
    nvjitlink = _linker()
    kind = nvjitlink.InputType
    handle = nvjitlink.create(1, [f"-arch={architecture}"])
    try:
        for what, blob in ((kind.CUBIN, code), (kind.OBJECT, shim), (kind.LIBRARY, library)):
            nvjitlink.add_data(handle, what, blob, len(blob), program.file)
        nvjitlink.complete(handle)
        linked = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, linked)
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, log)
        raise TransportError(f"nvshmem: cannot link {program.name}: {error}: {log.decode()}") from error
    finally:
        nvjitlink.destroy(handle)
    return bytes(linked)


@cache
def _objects() -> tuple[bytes, bytes]:
    root = nvshmem_root()
    return shim_object(root), (root / "lib" / "libnvshmem_device.a").read_bytes()


@cache
def _linker() -> Any:
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()
    except (ImportError, RuntimeError) as error:
        raise TransportError(
            f"nvshmem: the CUDA linker is missing ({error}); pip install 'pulsemd[nvshmem]'"
        ) from error
    return nvjitlink
