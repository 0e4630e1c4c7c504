"""Tables on the device whose addresses stay while they fit."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pulsemd.device.cuda import CudaDevice
from pulsemd.halo.device.tables import HostTables

_NAMES: Final = ("messages", "groups", "waits", "items", "more")
_GROWTH: Final = 1.25


class TableBuffers:
    """Tables of one direction of a channel, as bytes on the device."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._buffers: dict[str, Any] = {name: device.zeros(16, np.uint8) for name in _NAMES}

    def upload(self, tables: HostTables) -> bool:
        """Copy tables to the device, in stream order; whether an address changed."""
        moved = False
        for name in _NAMES:
            host = np.ascontiguousarray(getattr(tables, name)).reshape(-1).view(np.uint8)
            if len(host) > len(self._buffers[name]):
                grown = len(host) if len(self._buffers[name]) <= 16 else int(_GROWTH * len(host))
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

    def arrays(self) -> list[Any]:
        """All tables, in the order in which kernels take them."""
        return [self._buffers[name] for name in _NAMES]
