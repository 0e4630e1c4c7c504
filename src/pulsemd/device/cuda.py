"""A CUDA device: arrays, streams, kernels, events and captured graphs, over CuPy and cuda.core."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from pulsemd.base.errors import ConfigError, TransportError
from pulsemd.device.graph import CudaGraph, checked
from pulsemd.device.program import CudaProgram, compile_program, load_core

SHARED_BYTES = 48 * 1024
"""Shared memory that a block has on every device without asking."""


class Kernel:
    """A loaded kernel of a device.

    Attributes
    ----------
    registers, shared_bytes : int
        Per thread, per block.
    """

    def __init__(self, device: CudaDevice, handle: Any, name: str) -> None:
        self._device, self._handle, self.name = device, handle, name
        attributes = handle.attributes
        self.registers = int(attributes.num_regs)
        self.shared_bytes = int(attributes.shared_size_bytes)

    def blocks_per_multiprocessor(self, block: int) -> int:
        """Blocks of ``block`` threads that find a place on one multiprocessor together."""
        return int(self._handle.occupancy.max_active_blocks_per_multiprocessor(block, 0))

    def bind(
        self,
        grid: int | tuple[int, ...],
        block: int,
        *arguments: Any,
        shared: int = 0,
        stream: Any = None,
        overlap: bool = False,
    ) -> Callable[[], None]:
        """A function that launches the kernel with these arguments.

        Parameters
        ----------
        grid, block : int
            Blocks, and threads of a block. A grid of 0 blocks makes a launch that does nothing.
        *arguments : device arrays (their addresses are passed), NumPy scalars (passed by value) or None (null)
        shared : int
            Bytes of dynamic shared memory, with the kernel's own at most `CudaDevice.most_shared_bytes`.
        stream : stream of `CudaDevice.new_stream`, optional
            Default: the device's main stream.
        overlap : bool
            Let it begin before the kernel ahead of it in the stream has ended; its source says with
            `wait_for_earlier` from where on it needs that kernel's results (see overlap.cuh).

        Notes
        -----
        The arrays are kept alive by the function. Preparing once and launching often costs the host least.
        """
        blocks = grid if isinstance(grid, tuple) else (grid,)
        if 0 in blocks:
            return lambda: None
        device = self._device
        if self.shared_bytes + shared > SHARED_BYTES:
            self._allow_shared(shared)
        early = {"programmatic_stream_serialization": True} if overlap and device.can_overlap else {}
        config = device.core.LaunchConfig(grid=blocks, block=block, shmem_size=shared, **early)
        values = [_argument(value) for value in arguments]
        launch, target, handle = device.core.launch, device.launch_stream_of(stream), self._handle

        def run(_alive: tuple[Any, ...] = arguments) -> None:
            launch(target, config, handle, *values)

        return run

    def _allow_shared(self, n_bytes: int) -> None:
        from cuda.bindings import driver

        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        device = driver.CUdevice(self._device.ordinal)
        checked(driver, driver.cuKernelSetAttribute(attribute, n_bytes, self._handle.handle, device))

    def __call__(self, grid: int | tuple[int, ...], block: int, *arguments: Any, shared: int = 0) -> None:
        """Launch once; see `bind`."""
        self.bind(grid, block, *arguments, shared=shared)()


def _argument(value: Any) -> Any:
    """What cuda.core passes to a kernel: an address for arrays, NumPy scalars by value."""
    if value is None:
        return 0
    if isinstance(value, np.generic):
        return value
    if hasattr(value, "data") and hasattr(value.data, "ptr"):
        return int(value.data.ptr)
    raise TypeError(f"a kernel argument must be a device array or a NumPy scalar, not {type(value).__name__}")


class CudaDevice:
    """One GPU with a main stream, on which everything runs in order that is not given another stream.

    Parameters
    ----------
    ordinal : int

    Attributes
    ----------
    name : str, such as 'NVIDIA H200'
    architecture : str, such as 'sm_90'
    n_multiprocessors : int
    xp : module
        CuPy, for code that works on device arrays; use it inside ``with device.current():``.
    can_overlap : bool
        Whether a kernel can begin before the one ahead of it ends.
    most_shared_bytes : int
        Shared memory that a block can have.
    stream : cupy.cuda.Stream
        The main stream.

    Notes
    -----
    Nothing here waits for the device except `to_host`, `synchronize` and `elapsed`.
    """

    def __init__(self, ordinal: int = 0) -> None:
        self.core, self.xp = load_core()[0], load_cupy()
        _check_ordinal(self.xp, ordinal)
        self.ordinal = ordinal
        handle = self.core.Device(ordinal)
        handle.set_current()
        self.name = str(handle.name)
        self.architecture = f"sm_{handle.arch}"
        self.can_overlap = int(handle.arch) >= 90
        self.n_multiprocessors = int(handle.properties.multiprocessor_count)
        self.most_shared_bytes = int(handle.properties.max_shared_memory_per_block_optin)
        self._streams: dict[int, tuple[Any, Any]] = {}
        self.stream = self.new_stream()
        self._kernels: dict[tuple[CudaProgram, str], Kernel] = {}
        self._modules: dict[CudaProgram, Any] = {}

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this device and its stream the ones CuPy uses.

        Raises
        ------
        TransportError
            If its memory is full.
        """
        with self.xp.cuda.Device(self.ordinal), self.stream:
            try:
                yield
            except self.xp.cuda.memory.OutOfMemoryError as error:
                raise TransportError(
                    f"--device cuda: the memory of GPU {self.ordinal} is full ({error}); end what else runs there, "
                    "use more GPUs (--ranks), fewer atoms, or --device cpu"
                ) from error

    def kernel(self, program: CudaProgram, name: str) -> Kernel:
        """The kernel ``name`` of a program, compiled or taken from the cache, and loaded once."""
        found = self._kernels.get((program, name))
        if found is None:
            if program not in self._modules:
                code = compile_program(program, self.architecture)
                self._modules[program] = self.core.ObjectCode.from_cubin(code, name=program.file)
            found = Kernel(self, self._modules[program].get_kernel(name), name)
            self._kernels[program, name] = found
        return found

    # ---- arrays ---------------------------------------------------------------------------------------------

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """An uninitialised device array."""
        with self.current():
            return self.xp.empty(shape, dtype)

    def zeros(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """A device array of zeros."""
        with self.current():
            return self.xp.zeros(shape, dtype)

    def full(self, shape: int | tuple[int, ...], value: Any, dtype: Any) -> Any:
        """A device array of one value."""
        with self.current():
            return self.xp.full(shape, value, dtype)

    def to_device(self, host: Any, dtype: Any = None) -> Any:
        """A copy of a host array on the device."""
        with self.current():
            return self.xp.asarray(np.ascontiguousarray(host, dtype))

    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        """A copy of a device array on the host; waits for the stream."""
        with self.current():
            return np.asarray(self.xp.asnumpy(array))

    @property
    def bytes_held(self) -> int:
        """Memory of the device that this process has taken for arrays, in use or kept for the next ones."""
        return int(self.xp.get_default_memory_pool().total_bytes())

    def pinned(self, n_bytes: int) -> tuple[np.ndarray[Any, Any], int]:
        """Memory of the host that the device can write to: as (n_bytes,) uint8, and its address on the device."""
        with self.current():
            memory = self.xp.cuda.alloc_pinned_memory(n_bytes)
        return np.frombuffer(memory, np.uint8, n_bytes), int(memory.ptr)

    def clear(self, array: Any) -> None:
        """Set all bytes of a contiguous device array to zero, in stream order."""
        array.data.memset_async(0, array.nbytes, self.stream)

    def fill_ones(self, array: Any) -> None:
        """Set all bits of a contiguous device array, in stream order; integers become -1."""
        array.data.memset_async(0xFF, array.nbytes, self.stream)

    # ---- streams, order and time ----------------------------------------------------------------------------

    def new_stream(self, priority: int = 0) -> Any:
        """Another stream (CuPy's), for work beside the main stream; it lives as long as the device.

        Parameters
        ----------
        priority : int
            Blocks of kernels on a stream of lower number go first; 0 is the lowest priority.
        """
        with self.xp.cuda.Device(self.ordinal):
            stream = self.xp.cuda.Stream(non_blocking=True, priority=priority)
        self._streams[stream.ptr] = stream, self.core.Stream.from_handle(stream.ptr)
        return stream

    def launch_stream_of(self, stream: Any = None) -> Any:
        """The stream as cuda.core has it; None: the main stream."""
        return self._streams[(self.stream if stream is None else stream).ptr][1]

    def follow(self, later: Any, earlier: Any) -> None:
        """Make ``later`` wait for all that was launched on ``earlier`` so far; the host does not wait."""
        event = self.new_event()
        event.record(earlier)
        later.wait_event(event)

    def fork(self, branch: Any) -> None:
        """Let a branch begin after what the main stream has so far; in a capture it becomes part of the graph."""
        self.follow(branch, self.stream)

    def join(self, branch: Any) -> None:
        """Let the main stream go on only after what the branch has so far; ends a branch of a capture."""
        self.follow(self.stream, branch)

    def synchronize(self) -> None:
        """Wait until everything launched on the main stream so far is done."""
        self.stream.synchronize()

    def new_event(self) -> Any:
        """An event (CuPy's) that takes no time, not yet recorded."""
        with self.xp.cuda.Device(self.ordinal):
            return self.xp.cuda.Event(disable_timing=True)

    def event(self) -> Any:
        """Record an event in the main stream."""
        with self.current():
            event = self.xp.cuda.Event()
        event.record(self.stream)
        return event

    def elapsed(self, first: Any, last: Any) -> float:
        """Seconds between two events; waits for the second."""
        last.synchronize()
        return 1e-3 * float(self.xp.cuda.get_elapsed_time(first, last))

    def capture(self, work: Callable[[], None], priorities: bool = False) -> CudaGraph:
        """Record what ``work`` launches as a graph, which is a function that launches all of it.

        ``work`` must neither allocate, synchronise nor copy to the host. Streams that it forks off the main stream
        belong to the graph and must be joined before it returns. With `priorities` their kernels keep the streams'.
        """
        from cuda.bindings import driver

        stream = driver.CUstream(self.stream.ptr)
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        with self.current():
            checked(driver, driver.cuStreamBeginCapture(stream, mode))
            try:
                work()
            finally:
                (handle,) = checked(driver, driver.cuStreamEndCapture(stream))
            return CudaGraph(driver, handle, stream, work, priorities)


@cache
def load_cupy() -> Any:
    """The module cupy."""
    try:
        import cupy
    except ImportError as error:
        raise TransportError(
            f"--device cuda: CuPy is not installed ({error}); install pulsemd[cuda]"
        ) from error
    return cupy


def _check_ordinal(cupy: Any, ordinal: int) -> None:
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise TransportError(
            f"--device cuda: no usable GPU ({error}); run where a driver and a GPU are"
        ) from error
    if ordinal >= count:
        raise TransportError(f"--device cuda: GPU {ordinal} was asked for, but this machine has {count}")


def count_devices() -> int:
    """GPUs that this process sees."""
    return int(load_cupy().cuda.runtime.getDeviceCount())


def processes_per_gpu() -> int:
    """How many processes may share a GPU: PULSEMD_PROCESSES_PER_GPU, else 1.

    More are for tests of what passes between processes where there are fewer GPUs than processes. The processes take
    turns on a GPU, which makes each exchange last milliseconds, unless MPS runs.

    Raises
    ------
    ConfigError
        If it is not a whole number of 1 or more.
    """
    text = os.environ.get("PULSEMD_PROCESSES_PER_GPU") or "1"
    if not (text.isdecimal() and int(text) > 0):
        raise ConfigError(f"PULSEMD_PROCESSES_PER_GPU is {text!r}; give a whole number of 1 or more")
    return int(text)


def describe_devices() -> str:
    """Names of the GPUs, the driver's version, and which reach each other's memory."""
    runtime, count = load_cupy().cuda.runtime, count_devices()
    driver = int(runtime.driverGetVersion())
    names = [CudaDevice(ordinal).name for ordinal in range(count)]
    apart = [f"{a} and {b}" for a in range(count) for b in range(a) if not runtime.deviceCanAccessPeer(a, b)]
    reach = f"; no direct access between {', '.join(apart)}" if apart else ""
    reach = reach or ("; all reach each other directly" if count > 1 else "")
    return f"{', '.join(names)}; driver for CUDA {driver // 1000}.{driver % 1000 // 10}{reach}"


def has_driver() -> bool:
    """Whether the library of the NVIDIA driver is here; without it nothing else needs to be tried."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def free_memory() -> None:
    """Give the memory of arrays that nothing refers to any more back to the GPU, for other programs and libraries."""
    gc.collect()  # what refers to itself, as phases of a step do
    load_cupy().get_default_memory_pool().free_all_blocks()


def find_device_problem() -> str | None:
    """Why no CUDA device can be used here, and what would help; None if one can."""
    if not has_driver():
        return "this machine has no NVIDIA driver; run where a GPU and its driver are"
    try:
        load_core()
        _check_ordinal(load_cupy(), 0)
    except TransportError as error:
        return str(error).removeprefix("--device cuda: ")
    return None
