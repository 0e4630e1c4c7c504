"""Symmetric memory of NVSHMEM: the one module that imports nvshmem4py.

NVSHMEM may end a process when it cannot start, so before the first start on a machine it is tried in child processes:
``python -m pulsemd.halo.transports.nvshmem ORDINAL PROCESS N_PROCESSES``.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from pulsemd.base.cache import cache_folder
from pulsemd.base.errors import TransportError
from pulsemd.device.cuda import CudaDevice, Kernel
from pulsemd.device.program import CudaProgram
from pulsemd.halo.device.memory import NO_NETWORK, NVSHMEM, SymmetricBlock
from pulsemd.halo.network.build import nvshmem_root, shim_object
from pulsemd.halo.network.link import link

MINIMUM: Final = (3, 4)
GREATER_OR_EQUAL: Final = 5
SET: Final = 9
"""NVSHMEM_CMP_GE and NVSHMEM_SIGNAL_SET."""

_ALIGN: Final = 512
_INITIALIZED: Final = 2
_PROBE_SECONDS: Final = 60.0
Gather = Callable[[Any], list[Any]]


class NvshmemMemory:
    """Symmetric memory of the GPU processes of a job; made by `open_memory`.

    Parameters
    ----------
    device : CudaDevice
    process, n_processes : int
    gather : callable
        Collective over processes: the value of each, in order.
    peer_pointers : bool
        False hides the peers' addresses, so that rows to them take the way through the network on any machine.

    Attributes
    ----------
    network : int
        NO_NETWORK where puts cannot be compiled; then every peer is reached by loads and stores.
    """

    def __init__(
        self, device: CudaDevice, process: int, n_processes: int, gather: Gather, peer_pointers: bool = True
    ) -> None:
        self.device, self.process, self.n_processes = device, process, n_processes
        self.bindings = _bindings()
        self.peer_pointers = peer_pointers
        self.network = NVSHMEM
        self._gather = gather
        self._kernels: dict[tuple[CudaProgram, str], Kernel] = {}
        self._modules: dict[CudaProgram, Any] = {}
        self._blocks: list[SymmetricBlock] = []
        self._calls = 0
        self._history = b""
        self._check_network()

    def _check_network(self) -> None:
        """See which peers stores reach, and whether the others can be reached by puts."""
        block = self.allocate(_ALIGN)
        hidden = [peer for peer, address in enumerate(block.peers) if address == 0]
        self.free(block)
        error = None
        try:
            shim_object(nvshmem_root())
        except TransportError as problem:
            error = str(problem)
        errors = self._gather((error, hidden))
        for process, (reason, peers) in enumerate(errors):
            if reason is not None and peers:
                raise TransportError(f"process {process} cannot store to the GPU of {peers[0]}: {reason}")
        if any(reason is not None for reason, _ in errors):
            self.network = NO_NETWORK

    def allocate(self, n_bytes: int) -> SymmetricBlock:
        """A zeroed block; collective over processes, which all ask for the same size and return once all have it.

        Raises
        ------
        TransportError
            If processes do not make the same calls in the same order, or the memory is not there.
        """
        self._agree_on("allocate", n_bytes)
        address = int(self.bindings.align(_ALIGN, max(n_bytes, _ALIGN)))
        if 0 in self._gather(address):
            raise TransportError(f"nvshmem: {n_bytes} bytes of symmetric memory are not free on every GPU")
        xp = self.device.xp
        memory = xp.cuda.UnownedMemory(address, max(n_bytes, _ALIGN), self, self.device.ordinal)
        with self.device.current():
            local = xp.ndarray((n_bytes,), xp.uint8, xp.cuda.MemoryPointer(memory, 0))
            local.fill(0)
        self.device.synchronize()
        peers = [self._pointer(address, process) for process in range(self.n_processes)]
        block = SymmetricBlock(local, tuple(peers), (address,) * self.n_processes)
        self._blocks.append(block)
        self._gather(None)
        return block

    def _pointer(self, address: int, process: int) -> int:
        if process == self.process:
            return address
        return int(self.bindings.ptr(address, process)) if self.peer_pointers else 0

    def free(self, block: SymmetricBlock) -> None:
        """Give a block back; collective, after everything that uses it has ended on every process."""
        self._agree_on("free", block.local.nbytes)
        self._blocks.remove(block)
        self.bindings.free(block.puts[self.process])

    def _agree_on(self, call: str, n_bytes: int) -> None:
        """Raise TransportError unless all processes are in the same call, and came here by the same calls."""
        self._calls += 1
        self._history = hashlib.sha256(self._history + f"{call} {n_bytes}".encode()).digest()
        shares = self._gather((self._calls, call, n_bytes, self._history))
        for process, share in enumerate(shares):
            if share != shares[0]:
                here, there = (f"{c} of {n} bytes as call {k}" for k, c, n, _ in (shares[0], share))
                raise TransportError(
                    f"nvshmem: process 0 is in {here}, process {process} in {there}, or earlier calls differed; "
                    "symmetric memory is allocated by all processes in the same order"
                )

    def kernel(self, program: CudaProgram, name: str) -> Kernel:
        """A kernel of a program, loaded; one that puts is linked with NVSHMEM's device library."""
        if ("NETWORK", NVSHMEM) not in program.defines:
            return self.device.kernel(program, name)
        if (program, name) not in self._kernels:
            if program not in self._modules:
                code = self.device.core.ObjectCode.from_cubin(link(program, self.device.architecture))
                if self.bindings.culibrary_init(int(code.handle)) != 0:
                    raise TransportError(f"nvshmem: cannot prepare {program.name} for puts")
                self._modules[program] = code
            handle = self._modules[program].get_kernel(name)
            self._kernels[program, name] = Kernel(self.device, handle, name)
        return self._kernels[program, name]

    def close(self) -> None:
        """Free what is left and end NVSHMEM; collective."""
        for block in list(self._blocks):
            self.free(block)
        self.bindings.hostlib_finalize()


def open_memory(
    device: CudaDevice, process: int, n_processes: int, gather: Gather, peer_pointers: bool = True
) -> NvshmemMemory:
    """Start NVSHMEM with the processes of a job, or take the one that is running.

    Raises
    ------
    TransportError
        On every process, if NVSHMEM cannot be used on one of them, or runs with other processes already.
    """
    os.environ["NVSHMEM_DISABLE_NVLS"] = (
        "1"  # multicast brings nothing here, and can take GPUs out of service
    )
    _agree(gather, _find_problem())
    bindings = _bindings()
    running = bindings.init_status() >= _INITIALIZED
    if len({bool(state) for state in gather(running)}) > 1:
        raise TransportError("nvshmem: it runs on some of the processes already; start it on all or on none")
    if running:
        here = (bindings.my_pe(), bindings.n_pes())
        wrong = None
        if here != (process, n_processes):
            wrong = (
                f"it runs already as process {here[0]} of {here[1]}, "
                f"this job has process {process} of {n_processes}"
            )
        _agree(gather, wrong)
    else:
        _agree(gather, _try_in_children(device, process, n_processes, gather))
        identifier = gather(_new_identifier() if process == 0 else b"")[0]
        problem = None
        try:
            _start(process, n_processes, identifier)
        except bindings.NVSHMEMError as error:
            problem = f"it does not start: {error}"
        _agree(gather, problem)
    return NvshmemMemory(device, process, n_processes, gather, peer_pointers)


def _agree(gather: Gather, problem: str | None) -> None:
    """Raise TransportError on every process if one has a problem."""
    for process, text in enumerate(gather(problem)):
        if text is not None:
            raise TransportError(f"nvshmem: process {process}: {text}")


def _find_problem() -> str | None:
    """Why NVSHMEM cannot be used by this process, as far as files tell; None if it can."""
    try:
        bindings = _bindings()
    except TransportError as error:
        return str(error)
    numbers = [ctypes.c_int() for _ in range(3)]
    bindings.vendor_get_version_info(*(ctypes.addressof(number) for number in numbers))
    version = tuple(number.value for number in numbers)
    if version[:2] < MINIMUM:
        needed, found = (".".join(map(str, numbers)) for numbers in (MINIMUM, version))
        return f"NVSHMEM {needed} or later is needed, {found} is installed"
    return None


def _bindings() -> Any:
    """The module nvshmem.bindings, its library loaded."""
    try:
        import nvshmem.bindings as bindings
        from cuda.pathfinder import load_nvidia_dynamic_lib

        load_nvidia_dynamic_lib("nvshmem_host")
    except (ImportError, RuntimeError, OSError) as error:
        raise TransportError(
            f"nvshmem4py is not installed ({error}); pip install 'pulsemd[nvshmem]'"
        ) from error
    return bindings


def _new_identifier() -> bytes:
    bindings = _bindings()
    identifier = bindings.uniqueid()
    bindings.get_uniqueid(identifier.ptr)
    return bytes(identifier._data.tobytes())


def _start(process: int, n_processes: int, identifier: bytes) -> None:
    """Start NVSHMEM on the current GPU; collective."""
    bindings = _bindings()
    given = bindings.uniqueid()
    ctypes.memmove(given.ptr, identifier, len(identifier))
    attributes = bindings.InitAttr()
    bindings.set_attr_uniqueid_args(process, n_processes, given.ptr, attributes.ptr)
    bindings.hostlib_init_attr(bindings.Flags.INIT_WITH_UNIQUEID, attributes.ptr)


def _try_in_children(device: CudaDevice, process: int, n_processes: int, gather: Gather) -> str | None:
    """Start NVSHMEM once in children of all processes, unless it is known to work here; the problem, or None."""
    runtime = device.xp.cuda.runtime
    card = runtime.getDeviceProperties(device.ordinal)["uuid"]
    facts = (runtime.driverGetVersion(), card, str(nvshmem_root()), os.uname().nodename)
    everything = repr(gather(facts)).encode()
    marker = cache_folder("cuda") / f"nvshmem-works-{hashlib.sha256(everything).hexdigest()[:16]}"
    if all(gather(marker.exists())):
        return None
    problem = _try_in_child(device.ordinal, process, n_processes, gather)
    if not any(gather(problem)):
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()
    return problem


def _try_in_child(ordinal: int, process: int, n_processes: int, gather: Gather) -> str | None:
    command = [sys.executable, "-m", __name__, *map(str, (ordinal, process, n_processes))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(Path(p).resolve()) for p in sys.path)}
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        identifier = gather(child.stdout.readline().strip())[0]
        try:
            output, errors = child.communicate(identifier + "\n", timeout=_PROBE_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            return f"a trial start did not end within {_PROBE_SECONDS:g} s"
    if child.returncode == 0 and "works" in output:
        return None
    last = [line for line in errors.splitlines() if line.strip()][-1:] or ["no message"]
    return f"a trial start ended with exit code {child.returncode}: {last[0][:300]}"


def main(arguments: Sequence[str]) -> int:
    """The trial: start with the processes of the job, allocate, meet, end."""
    ordinal, process, n_processes = map(int, arguments)
    CudaDevice(ordinal).zeros(1, np.uint8)
    print(_new_identifier().hex() if process == 0 else "", flush=True)
    bindings = _bindings()
    _start(process, n_processes, bytes.fromhex(sys.stdin.readline()))
    address = bindings.malloc(1024)
    bindings.barrier_all()
    bindings.free(address)
    bindings.hostlib_finalize()
    print("works", flush=True)
    return 0 if address else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
