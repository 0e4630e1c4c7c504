"""Compiled variants of the pair kernel: modules written into the cache folder and imported from there.

Numba keeps compiled code only for functions that live in a file, and renews it when that file changes. A
variant therefore is a small module of its own, named by a hash of everything its code depends on.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType

import llvmlite
import numba

from pulsemd.base.cache import cache_folder, writing_to
from pulsemd.base.version import VERSION
from pulsemd.kernels.nonbonded.spec import KernelSpec

_PACKAGE = Path(__file__).parent
_SOURCES = (
    "formula.py",
    "spec.py",
    "tile.py",
    "accumulate.py",
    "generate.py",
    "user_formula.py",
    "trace/arithmetic.py",
    "trace/vector.py",
    "trace/memory.py",
    "trace/displacement.py",
)
_ARGUMENTS = "x, parameters, type_index, forces, j_cluster, pair_mask, constants, table, totals, n_types"
_TIME_STAMP = 1_000_000_000  # seconds; any fixed value
_LJ_ROWS = (0, 2, 4)
"""Kinds of tile loops, by how many rows of the i-cluster may have Lennard-Jones parameters."""

_HEAD = '''"""Pair kernel for {spec}; generated, do not edit."""

from numba import njit

from pulsemd.base.errors import ConfigError
from pulsemd.kernels.nonbonded.spec import KernelSpec
from pulsemd.kernels.nonbonded.tile import make_tile_loop
from pulsemd.kernels.nonbonded.user_formula import UserFormula

SPEC = {spec!r}
'''

_TILE = """
_emit_{name} = make_tile_loop(SPEC, masked={masked}, lj_rows={lj_rows})


@njit(cache=True, nogil=True)
def _{name}({arguments}, i_cluster, first, last):
    return _emit_{name}({arguments}, i_cluster, first, last)
"""

_DRIVER = '''

@njit(cache=True, nogil=True)
def pair_kernel({arguments}, entries, lj_rows):
    """Add the forces of all tiles of a list; returns 1 if a pair force was beyond the limit, else 0."""
    bad = 0
    for e in range(len(entries)):
        i_cluster, first, middle, last = entries[e, 0], entries[e, 1], entries[e, 2], entries[e, 3]
        n_lj = lj_rows[i_cluster]
{branches}
    return bad
'''


@cache
def load_pair_kernel(spec: KernelSpec):
    """The kernel ``pair_kernel`` of a variant; compiled at its first call unless an earlier run left it.

    Raises
    ------
    ConfigError
        If the cache folder cannot be written.
    """
    source = module_source(spec)
    digest = hashlib.sha256("\0".join((source, _fingerprint())).encode()).hexdigest()[:16]
    path = cache_folder("kernels") / f"pair_{digest}.py"
    if not path.exists():
        _write(path, source)
    return _import(f"pulsemd_pair_{digest}", path).pair_kernel


def module_source(spec: KernelSpec) -> str:
    """Text of the module of a variant: one function per kind of tile loop, and the loop over the list."""
    kinds = _LJ_ROWS[-1:] if spec.energies else _LJ_ROWS  # energies are wanted seldom: compile less
    masks = (True,) if spec.all_masked or spec.energies else (True, False)
    parts = [_HEAD.format(spec=spec)]
    for lj_rows in kinds:
        for masked in masks:
            name = _name(masked, lj_rows)
            parts.append(_TILE.format(name=name, masked=masked, lj_rows=lj_rows, arguments=_ARGUMENTS))
    parts.append(_DRIVER.format(arguments=_ARGUMENTS, branches=_branches(kinds, masks)))
    return "".join(parts)


def _name(masked: bool, lj_rows: int) -> str:
    return f"{'masked' if masked else 'plain'}_{lj_rows}"


def _branches(kinds: tuple[int, ...], masks: tuple[bool, ...]) -> str:
    lines = []
    for position, lj_rows in enumerate(kinds):
        keyword = "if" if position == 0 else "elif"
        lines.append(f"        {keyword} n_lj <= {lj_rows}:")
        for masked in masks:
            limits = "first, last" if len(masks) == 1 else "first, middle" if masked else "middle, last"
            lines.append(f"            bad |= _{_name(masked, lj_rows)}({_ARGUMENTS}, i_cluster, {limits})")
    return "\n".join(lines)


def _fingerprint() -> str:
    """What compiled code depends on beside the text of its module."""
    texts = [(_PACKAGE / name).read_text() for name in _SOURCES]
    return "\0".join([VERSION, numba.__version__, llvmlite.__version__, *texts])


def _write(path: Path, source: str) -> None:
    """Write a module that other processes may be writing too.

    Its name is a hash of its content and its time stamp is fixed, so it does not matter whose copy stays: the
    compiled code that Numba keeps beside it, marked with that stamp, fits each of them.
    """
    with writing_to(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w") as file:
            file.write(source)
        os.utime(temporary, (_TIME_STAMP, _TIME_STAMP))
        os.replace(temporary, path)


def _import(name: str, path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module
