"""PulseMD: molecular dynamics on many ranks and GPUs, from Python.

Importing the package needs neither a GPU nor MPI, and loads nothing: each part is imported where it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pulsemd.base.cache import place_numba_cache
from pulsemd.base.version import VERSION

if TYPE_CHECKING:
    from pulsemd.engine.api import Simulation, Snapshot
    from pulsemd.engine.minimise import Minimum
    from pulsemd.kernels.nonbonded.formula import exp, maximum, minimum, rsqrt, sqrt, where
    from pulsemd.kernels.nonbonded.potential import PairPotential

__version__ = VERSION

place_numba_cache()

__all__ = [
    "Minimum",
    "PairPotential",
    "Simulation",
    "Snapshot",
    "exp",
    "maximum",
    "minimum",
    "rsqrt",
    "sqrt",
    "where",
]

_FORMULA = "pulsemd.kernels.nonbonded.formula"
_HOMES = dict.fromkeys(("exp", "maximum", "minimum", "rsqrt", "sqrt", "where"), _FORMULA) | {
    "Minimum": "pulsemd.engine.minimise",
    "PairPotential": "pulsemd.kernels.nonbonded.potential",
    "Simulation": "pulsemd.engine.api",
    "Snapshot": "pulsemd.engine.api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pulsemd' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
