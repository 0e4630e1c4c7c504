"""Fixed point of reproducible mode: int64 units of what is added up, so that the order does not matter.

device/fixed_point.cuh and kernels/update/kinetic.cu have the same numbers.
"""

from __future__ import annotations

from typing import Final

ENERGY_SCALE: Final = 2.0**20
"""Of energies and virials, units per kJ/mol."""

FORCE_SCALE: Final = 2.0**32
"""Of forces, units per kJ/mol/nm."""

MOMENTUM_SCALE: Final = 2.0**32
"""Of momenta, units per amu nm/ps."""
