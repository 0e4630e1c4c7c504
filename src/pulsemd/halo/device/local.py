"""GPU processes that are threads of this process: for tests and measurements without a launcher."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

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
    transports: dict[int, Any] = {}

    def join(seat: int) -> None:
        own = controls[seat * each : (seat + 1) * each]
        try:
            with memories[seat].device.current():
                transports[seat] = GpuTransport(name, memories[seat], own, timeout, faults, options)
        except BaseException as error:
            transports[seat] = error

    threads = [threading.Thread(target=join, args=(seat,), daemon=True) for seat in range(len(ordinals))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seat in sorted(transports):
        if isinstance(transports[seat], BaseException):
            raise transports[seat]
    return [transports[seat] for seat in sorted(transports)]
