"""Water boxes of any size, cut from replicas of the bundled equilibrated box.

The bundled box is periodic, so whole replicas of it are equilibrated as they stand. For any other size a
cube is cut from the replicas. Molecules then meet across its new faces that never met before: those that
come too close are removed, the cube is cut a little larger to make up for them, and the oxygens are scaled
back to the density asked for (molecules stay rigid). The seam's disorder heats such a box for a few ps, until
the thermostat has taken it out; a time step of 2 fs holds from the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import ConfigError, InputError
from pulsemd.base.units import ATOMIC_MASS_PER_NM3
from pulsemd.io.gromacs.gro import read_gro
from pulsemd.systems.catalog import system_files

DENSITY: Final = 998.0
"""Density of every box [kg/m^3], that of the bundled one."""

MOLECULE_MASS: Final = 15.9994 + 2 * 1.008
"""Mass of a water molecule in the bundled topology [amu]."""

MINIMUM_ATOMS: Final = 1500
"""Smallest box: an edge of 2.47 nm holds a cut-off of 1.0 nm and its buffer twice."""

# The closest contacts, nm, met in the bundled box are about these; a pair below one is an overlap.
_CONTACT: Final = np.array([[0.245, 0.155, 0.155], [0.155, 0.165, 0.165], [0.155, 0.165, 0.165]])
_REACH: Final = (
    0.38  # two oxygens further apart than this touch through no atom: 0.1 + 0.1 + 0.165, rounded up
)
_ROWS_PER_CHUNK: Final = 500_000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class WaterBox:
    """What `build_water` wrote.

    Attributes
    ----------
    n_atoms : int
        Three times the number of molecules: the number asked for, rounded to whole molecules.
    edge : float
        Edge of the cubic box [nm].
    configuration, topology, parameters : Path
        ``conf.gro``, ``topol.top`` and ``run.mdp``.
    """

    n_atoms: int
    edge: float
    configuration: Path
    topology: Path
    parameters: Path


@dataclass(frozen=True)
class _Molecules:
    """Rigid water molecules: where the oxygens are, and which molecule of the bundled box each one copies."""

    oxygen: Floats  # (n, 3) nm
    copy_of: NDArray[np.int32]  # (n,)
    hydrogen: Floats  # (n_bundled, 2, 3) nm, relative to the oxygen

    def atoms(self, rows: slice | NDArray[np.int64]) -> Floats:
        """Positions (rows, 3, 3) [nm] of O, H1, H2."""
        oxygen = self.oxygen[rows][:, None, :]
        return np.concatenate([oxygen, oxygen + self.hydrogen[self.copy_of[rows]]], axis=1)


def build_water(n_atoms: int, directory: str | Path) -> WaterBox:
    """Write ``conf.gro``, ``topol.top`` and ``run.mdp`` of a cubic water box at 998 kg/m^3.

    The configuration has no velocities: the parameters ask for them to be drawn at 300 K.

    Parameters
    ----------
    n_atoms : int
        Wanted number of atoms, at least `MINIMUM_ATOMS`; rounded to whole molecules.
    directory : path
        Created if absent.

    Returns
    -------
    WaterBox

    Raises
    ------
    ConfigError
        If `n_atoms` is too small.
    InputError
        If one of the three files is there already.
    """
    if n_atoms < MINIMUM_ATOMS:
        raise ConfigError(f"a water box needs at least {MINIMUM_ATOMS} atoms, not {n_atoms}")
    bundled, folder = system_files("water"), Path(directory)
    paths = [folder / name for name in ("conf.gro", "topol.top", "run.mdp")]
    for path in paths:
        if path.exists():
            raise InputError("exists already and is not overwritten; choose another directory", path)
    n_molecules = round(n_atoms / 3)
    edge = float(np.cbrt(n_molecules * MOLECULE_MASS * ATOMIC_MASS_PER_NM3 / DENSITY))
    molecules = _fill(n_molecules, edge, bundled.configuration)

    folder.mkdir(parents=True, exist_ok=True)
    _write_gro(paths[0], molecules, edge)
    head, _, _ = bundled.topology.read_text(encoding="utf-8").rpartition("SOL")
    paths[1].write_text(f"{head}SOL  {n_molecules}\n", encoding="utf-8")
    paths[2].write_bytes(bundled.parameters.read_bytes())
    return WaterBox(3 * n_molecules, edge, *paths)


def _fill(n_molecules: int, edge: float, bundled: Path) -> _Molecules:
    """Exactly `n_molecules` molecules in a periodic cube of the given edge [nm]."""
    tile, tile_edge = _read_tile(bundled)
    replicas = round(edge / tile_edge)
    if n_molecules == replicas**3 * len(tile.oxygen):
        return _cut(tile, tile_edge, replicas * tile_edge)
    cut = edge
    for _ in range(30):
        molecules = _cut(tile, tile_edge, cut)
        closeness = _closeness(molecules, cut)
        spare = len(closeness) - np.count_nonzero(closeness < 1.0) - n_molecules
        if 0 <= spare <= 5 + 0.005 * n_molecules:
            break
        wanted = n_molecules + 2 + 0.002 * n_molecules
        cut *= float(np.cbrt(wanted / (n_molecules + spare)))
    else:
        raise RuntimeError(f"no cut of the bundled box gives {n_molecules} molecules without overlap")
    kept = np.sort(np.argpartition(-closeness, n_molecules - 1)[:n_molecules])
    return _Molecules(molecules.oxygen[kept] * (edge / cut), molecules.copy_of[kept], tile.hydrogen)


def _read_tile(path: Path) -> tuple[_Molecules, float]:
    """The bundled box with whole molecules, oxygens in [0, edge), and its edge [nm]."""
    frame = read_gro(path)
    edge, atoms = float(frame.box[0, 0]), frame.positions.reshape(-1, 3, 3)
    hydrogen = atoms[:, 1:] - atoms[:, :1]
    hydrogen -= edge * np.rint(hydrogen / edge)
    return _Molecules(atoms[:, 0] % edge, np.arange(len(atoms), dtype=np.int32), hydrogen), edge


def _cut(tile: _Molecules, tile_edge: float, edge: float) -> _Molecules:
    """Molecules whose oxygen lies in the cube [0, edge) of space filled with replicas of `tile`."""
    count = int(np.ceil(edge / tile_edge - 1e-9))
    oxygens, copies = [], []
    for shift in np.ndindex(count, count, count):
        oxygen = tile.oxygen + np.array(shift) * tile_edge
        inside = np.flatnonzero((oxygen < edge).all(axis=1))
        oxygens.append(oxygen[inside])
        copies.append(tile.copy_of[inside])
    return _Molecules(np.concatenate(oxygens), np.concatenate(copies), tile.hydrogen)


def _closeness(molecules: _Molecules, edge: float) -> Floats:
    """How close each molecule comes to one across a face, as a part of the allowed contact.

    Below 1 is an overlap, infinity means nothing in reach. Only the molecule at the upper face of a pair is
    charged with it, so that removing all below 1 leaves no overlap.
    """
    closeness = np.full(len(molecules.oxygen), np.inf)
    for dim in range(3):
        lower = np.flatnonzero(molecules.oxygen[:, dim] < _REACH)
        upper = np.flatnonzero(molecules.oxygen[:, dim] >= edge - _REACH)
        for first, second in _pairs_in_reach(molecules.oxygen, lower, upper, dim, edge):
            difference = molecules.atoms(first)[:, :, None, :] - molecules.atoms(second)[:, None, :, :]
            difference -= edge * np.rint(difference / edge)
            distance = np.sqrt((difference**2).sum(axis=-1))
            np.minimum.at(closeness, second, (distance / _CONTACT).min(axis=(1, 2)))
    return closeness


def _pairs_in_reach(
    oxygen: Floats, lower: NDArray[np.int64], upper: NDArray[np.int64], dim: int, edge: float
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Pairs (of lower, of upper) with oxygens within `_REACH` across face `dim`, by columns normal to it."""
    n = int(edge / _REACH)
    plane = [d for d in range(3) if d != dim]
    column = np.minimum((oxygen[:, plane] / edge * n).astype(np.int64), n - 1)
    key = column[upper] @ np.array([n, 1])
    order = np.argsort(key, kind="stable")
    upper, key = upper[order], key[order]
    pairs = []
    for shift in np.ndindex(3, 3):
        wanted = (column[lower] + np.array(shift) - 1) % n @ np.array([n, 1])
        start = np.searchsorted(key, wanted, side="left")
        count = np.searchsorted(key, wanted, side="right") - start
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        first, second = np.repeat(lower, count), upper[np.repeat(start, count) + within]
        apart = oxygen[first] - oxygen[second]
        apart -= edge * np.rint(apart / edge)
        near = (apart**2).sum(axis=1) < _REACH**2
        pairs.append((first[near], second[near]))
    return pairs


def _write_gro(path: Path, molecules: _Molecules, edge: float) -> None:
    """Write a ``.gro`` file without velocities; fields come from tables of their text, for speed."""
    number = np.array([f"{i:5d}" for i in range(100_000)], dtype="S5")
    first = -200  # hydrogens reach at most 0.1 nm out of the box
    coordinate = np.array([f"{i / 1000:8.3f}" for i in range(first, int(edge * 1000) + 300)], dtype="S8")
    line = np.dtype([("residue", "S5"), ("name", "S10"), ("atom", "S5"), ("x", "S8", 3), ("end", "S1")])
    n = len(molecules.oxygen)
    with open(path, "xb") as handle:
        handle.write(f"SPC/E water, {n} molecules at {DENSITY:g} kg m^-3\n{3 * n:5d}\n".encode())
        for start in range(0, n, _ROWS_PER_CHUNK):
            atoms = molecules.atoms(slice(start, start + _ROWS_PER_CHUNK))
            index = np.arange(start, start + len(atoms))
            rows = np.empty((len(atoms), 3), dtype=line)
            rows["residue"] = number[(index + 1) % 100_000][:, None]
            rows["name"] = np.array([b"SOL     OW", b"SOL    HW1", b"SOL    HW2"])
            rows["atom"] = number[(3 * index[:, None] + np.arange(1, 4)) % 100_000]
            rows["x"] = coordinate[np.rint(atoms * 1000).astype(np.int64) - first]
            rows["end"] = b"\n"
            handle.write(rows.tobytes())
        handle.write(f"{edge:10.5f}{edge:10.5f}{edge:10.5f}\n".encode())
