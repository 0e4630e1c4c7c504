"""GPU processes that are threads of this process: for tests and measurements without a launcher."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from pulsemd.device.cuda import CudaDevice
from pulsemd.halo.device.memory import local_memories
from pulsemd.halo.device.transport import ExchangeOptions, GpuTransport
from pulsemd.halo.transports.loopback import loopback_world


def local_transports(
    name: str,
    n_ranks: int,
    ordinals: Sequence[int] = (0,),
    timeout: float | None = None,
    faults: str | None = None,
    options: ExchangeOptions | None = None,
) -> list[GpuTransport]:
    """Transports of ``n_ranks`` plan-ranks that are dealt to seats in this process.

    Parameters
    ----------
    name, timeout, faults, options : as for `GpuTransport`
    n_ranks : int
    ordinals : sequence of int
        GPU of each seat; their number divides ``n_ranks``.
    """
    memories = local_memories(ordinals)
    controls = loopback_world(n_ranks)
    each = n_ranks // len(ordinals)

    def join(seat: int) -> GpuTransport:
        own = controls[seat * each : (seat + 1) * each]
        return GpuTransport(name, memories[seat], own, timeout, faults, options)

    return _in_threads([memory.device for memory in memories], join)


def on_every_seat(transports: Sequence[GpuTransport], function: Callable[[GpuTransport], Any]) -> list[Any]:
    """``function(transport)`` on every seat at once; raises the first error."""
    return _in_threads([t.device for t in transports], lambda seat: function(transports[seat]))


def _in_threads(devices: Sequence[CudaDevice], function: Callable[[int], Any]) -> list[Any]:
    """``function(seat)`` in a thread for each seat, with its device current; raises the error that came first."""
    results: list[Any] = [None] * len(devices)
    errors: list[BaseException] = []

    def run(seat: int) -> None:
        try:
            devices[seat].core.Device(devices[seat].ordinal).set_current()
            with devices[seat].current():
                results[seat] = function(seat)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(seat,), daemon=True) for seat in range(len(devices))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
