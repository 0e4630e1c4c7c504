"""Tables on the device whose addresses stay while they fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from pulsemd.device.cuda import CudaDevice
from pulsemd.halo.device.tables import ITEM, HostTables

TABLES: Final = ("messages", "groups", "waits", "items", "more")
"""Fields of `HostTables`, in the order in which kernels take them."""

_GROWTH: Final = 1.25


def table_room(direction: str, n_local: int, n_pulses: int, most: int) -> dict[str, int]:
    """Bytes of the tables of direct plans with at most ``most`` rows in a pulse, where the device makes them."""
    rows = n_local * n_pulses * most
    if rows == 0:
        return {}
    if direction == "forward":
        return {"items": 8 * rows}
    return {"items": 2 * ITEM.itemsize * rows, "groups": 16 * n_local * n_pulses, "waits": 4 * n_pulses}


class TableBuffers:
    """Tables of one direction of a channel, as bytes on the device."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._buffers: dict[str, Any] = {name: device.zeros(16, np.uint8) for name in TABLES}

    def upload(self, tables: HostTables, room: Mapping[str, int]) -> bool:
        """Copy tables to the device, in stream order, with ``room`` bytes at least; whether an address changed."""
        moved = False
        for name in TABLES:
            host = np.ascontiguousarray(getattr(tables, name)).reshape(-1).view(np.uint8)
            need = max(len(host), room.get(name, 0))
            if need > len(self._buffers[name]):
                grown = need if len(self._buffers[name]) <= 16 else int(_GROWTH * need)
                self._buffers[name] = self._device.zeros(grown, np.uint8)
                moved = True
            if len(host):
                with self._device.current():
                    self._buffers[name][: len(host)].set(host)
        return moved

    @property
    def messages(self) -> Any:
        """The messages."""
        return self._buffers["messages"]

    def address(self, name: str) -> int:
        """Where a table begins: messages, groups, waits, items or more."""
        return int(self._buffers[name].data.ptr)

    def arrays(self) -> list[Any]:
        """All tables, in the order of `TABLES`."""
        return [self._buffers[name] for name in TABLES]
