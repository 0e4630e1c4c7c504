"""Boxes of any size, cut from replicas of a bundled equilibrated box.

A bundled box is periodic, so whole replicas of it are equilibrated as they stand. For any other size a cube is cut
from the replicas. Molecules then meet across its new faces that never met before: the closest are removed, the cube is
cut a little larger to make up for them, and the molecules are moved together to the density of the bundled box (each
stays rigid). The seam's disorder heats such a box for a few ps, until the thermostat has taken it out; a time step of
2 fs holds from the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import ConfigError, InputError
from pulsemd.base.units import ATOMIC_MASS_PER_NM3
from pulsemd.io.gromacs.gro import read_gro
from pulsemd.io.gromacs.gro_writer import write_gro
from pulsemd.io.gromacs.system import read_top
from pulsemd.io.output import make_folder, replacing, write_whole
from pulsemd.systems.catalog import SystemFiles, system_files
from pulsemd.topology.records import MoleculeType

BUILDABLE: Final = ("water", "water-ethanol")
"""Bundled liquids in cubic boxes; a solute does not come in other sizes."""

MINIMUM_ATOMS: Final = 1500
"""Smallest box: an edge of 2.47 nm holds a cut-off of 1.0 nm and its buffer twice."""

MAXIMUM_ATOMS: Final = 2**31 - 1
"""Ids of atoms are int32."""

_CONTACT: Final = {"OO": 0.245, "HO": 0.155, "HH": 0.165, "CO": 0.28, "CH": 0.22, "CC": 0.32}
"""About the closest contacts between molecules, nm, met in the bundled boxes; a pair below one is an overlap."""

_CUT_STEP: Final = 0.002
"""Steps of the tried cuts, as a part of the edge."""

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class BuiltSystem:
    """What `build_system` wrote.

    Attributes
    ----------
    n_atoms : int
        The number asked for, rounded to whole molecules.
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
    """Rigid molecules of one kind: where their first atoms are, and which molecule of the bundled box each copies."""

    kind: MoleculeType
    first: Floats  # (n, 3) nm
    copy_of: NDArray[np.int32]  # (n,)
    shape: Floats  # (n_bundled, atoms of a molecule, 3) nm, relative to the first atom

    def __len__(self) -> int:
        return len(self.first)

    def atoms(self, rows: slice | Rows) -> Floats:
        """Positions (rows, atoms of a molecule, 3) [nm]."""
        positions: Floats = self.first[rows][:, None, :] + self.shape[self.copy_of[rows]]
        return positions

    @property
    def extent(self) -> float:
        """Largest distance of an atom from the first one, nm."""
        return float(np.sqrt((self.shape**2).sum(axis=-1)).max())


@dataclass(frozen=True)
class _Tile:
    """A bundled box: its molecules by kind, its edge [nm], and density [kg/m^3] to one decimal."""

    molecules: tuple[_Molecules, ...]
    edge: float
    density: float

    @property
    def counts(self) -> Rows:
        return np.array([len(kind) for kind in self.molecules])


def build_system(name: str, n_atoms: int, directory: str | Path) -> BuiltSystem:
    """Write ``conf.gro``, ``topol.top`` and ``run.mdp`` of a bundled liquid in a cubic box of another size.

    The box has the composition and the density of the bundled one. The configuration has no velocities: the parameters
    ask for them to be drawn at 300 K.

    Parameters
    ----------
    name : one of `BUILDABLE`
    n_atoms : int
        Wanted number of atoms, from `MINIMUM_ATOMS` to `MAXIMUM_ATOMS`; rounded to whole molecules.
    directory : path
        Created if absent.

    Returns
    -------
    BuiltSystem

    Raises
    ------
    ConfigError
        If the system cannot be built or `n_atoms` is too small or too large.
    InputError
        If one of the three files is there already.
    OutputError
        If they cannot be written.
    """
    if name not in BUILDABLE:
        raise ConfigError(f"'{name}' comes in one size only; there are others of: {', '.join(BUILDABLE)}")
    if n_atoms < MINIMUM_ATOMS:
        raise ConfigError(f"a box of {name} needs at least {MINIMUM_ATOMS} atoms, not {n_atoms}")
    if n_atoms > MAXIMUM_ATOMS:
        raise ConfigError(f"a system holds at most {MAXIMUM_ATOMS} atoms, not {n_atoms}")
    bundled, folder = system_files(name), Path(directory)
    paths = [folder / file for file in ("conf.gro", "topol.top", "run.mdp")]
    for path in paths:
        if path.exists():
            raise InputError("exists already and is not overwritten; choose another directory", path)
    tile = _read_tile(bundled)
    counts = _wanted_counts(tile, n_atoms)
    mass = sum(n * kind.kind.mass.sum() for n, kind in zip(counts, tile.molecules, strict=True))
    edge = float(np.cbrt(mass * ATOMIC_MASS_PER_NM3 / tile.density))
    molecules = _fill(tile, counts, edge)

    make_folder(folder)
    head, section, _ = bundled.topology.read_text(encoding="utf-8").rpartition("[ molecules ]\n")
    rows = "".join(f"{kind.kind.name}  {len(kind)}\n" for kind in molecules)
    write_whole(paths[1], [(head + section + rows).encode()])
    write_whole(paths[2], [bundled.parameters.read_bytes()])
    topology, _ = read_top(paths[1])
    positions = np.concatenate([kind.atoms(slice(None)).reshape(-1, 3) for kind in molecules])
    title = (
        f"{bundled.description.split(',')[0]}, {topology.n_molecules} molecules at {tile.density:g} kg m^-3"
    )
    with replacing(paths[0]) as temporary:
        write_gro(temporary, topology, positions, None, np.eye(3) * edge, title)
    return BuiltSystem(topology.n_atoms, edge, *paths)


def _read_tile(files: SystemFiles) -> _Tile:
    """The bundled box with whole molecules, their first atoms in [0, edge)."""
    frame, (topology, _) = read_gro(files.configuration), read_top(files.topology)
    edge, molecules = float(frame.box[0, 0]), []
    for block in topology.blocks:
        kind = topology.molecule_types[block.molecule_type]
        last = block.first_atom + block.n_molecules * kind.n_atoms
        atoms = frame.positions[block.first_atom : last].reshape(-1, kind.n_atoms, 3)
        shape = atoms - atoms[:, :1]
        shape -= edge * np.rint(shape / edge)
        copies = np.arange(block.n_molecules, dtype=np.int32)
        molecules.append(_Molecules(kind, atoms[:, 0] % edge, copies, shape))
    density = round(float(topology.mass.sum()) / edge**3 * ATOMIC_MASS_PER_NM3, 1)
    return _Tile(tuple(molecules), edge, density)


def _wanted_counts(tile: _Tile, n_atoms: int) -> list[int]:
    """Molecules of each kind: the rarer kinds by their share, the most frequent one fills up."""
    sizes = np.array([kind.kind.n_atoms for kind in tile.molecules])
    counts = np.rint(tile.counts * (n_atoms / (tile.counts @ sizes))).astype(np.int64)
    major = int(np.argmax(tile.counts))
    counts[major] += round((n_atoms - int(counts @ sizes)) / sizes[major])
    return [int(n) for n in counts]


def _fill(tile: _Tile, counts: Sequence[int], edge: float) -> list[_Molecules]:
    """Exactly `counts` molecules of each kind in a periodic cube of the given edge [nm].

    Of the cuts from `edge` upwards, the one whose closest contact is the farthest after all is moved together: a larger
    cut has fewer overlaps to keep, and shrinks more. The first without any ends the search.
    """
    replicas = round(edge / tile.edge)
    if list(counts) == (replicas**3 * tile.counts).tolist():
        return _cut(tile, np.zeros(3), replicas * tile.edge)
    origin = _best_origin(tile, counts, edge)
    best, result = 0.0, None
    for cut in edge * np.arange(1.0, 1.3, _CUT_STEP):
        molecules = _cut(tile, origin, cut)
        closeness = _closeness(molecules, cut)
        if any(len(kind) < n for kind, n in zip(molecules, counts, strict=True)):
            continue
        kept = [np.sort(np.argpartition(-c, n - 1)[:n]) for c, n in zip(closeness, counts, strict=True)]
        worst = min(float(c[rows].min()) for c, rows in zip(closeness, kept, strict=True))
        if min(worst, 1.0) * edge / cut > best:
            best = min(worst, 1.0) * edge / cut
            result = [
                _Molecules(kind.kind, kind.first[rows] * (edge / cut), kind.copy_of[rows], kind.shape)
                for kind, rows in zip(molecules, kept, strict=True)
            ]
        if worst >= 1.0:
            break
    if result is None:
        raise RuntimeError(f"no cut of the bundled box holds {counts} molecules")
    return result


def _best_origin(tile: _Tile, counts: Sequence[int], edge: float) -> Floats:
    """Corner of the cube at which its composition is closest to the wanted one: a small cut may lack a rare kind."""
    if len(counts) == 1:
        return np.zeros(3)
    best, origin = 0.0, np.zeros(3)
    for corner in np.ndindex(6, 6, 6):
        here = np.array(corner) * tile.edge / 6
        inside = [_count_inside(kind.first, tile.edge, here, edge) for kind in tile.molecules]
        least = min(n / wanted for n, wanted in zip(inside, counts, strict=True))
        if least > best:
            best, origin = least, here
    return origin


def _count_inside(first: Floats, tile_edge: float, origin: Floats, edge: float) -> int:
    """Replicas of the points `first` in the cube [origin, origin + edge)."""
    below = np.ceil((origin - first) / tile_edge)
    return int(np.prod(np.ceil((origin + edge - first) / tile_edge) - below, axis=1).sum())


def _cut(tile: _Tile, origin: Floats, edge: float) -> list[_Molecules]:
    """Molecules whose first atom is in the cube [origin, origin + edge) of replicas of `tile`; relative to origin."""
    count = int(np.ceil(edge / tile.edge - 1e-9))
    result = []
    for kind in tile.molecules:
        points, copies = [], []
        start = (kind.first - origin) % tile.edge
        for shift in np.ndindex(count, count, count):
            first = start + np.array(shift) * tile.edge
            inside = np.flatnonzero((first < edge).all(axis=1))
            points.append(first[inside])
            copies.append(kind.copy_of[inside])
        result.append(_Molecules(kind.kind, np.concatenate(points), np.concatenate(copies), kind.shape))
    return result


def _closeness(molecules: Sequence[_Molecules], edge: float) -> list[Floats]:
    """How close each molecule comes to one across a face, as a part of the allowed contact, by kind.

    Below 1 is an overlap; a molecule with nothing in reach gets a large number, different for each, so that a surplus
    is taken from everywhere. Only the molecule at the upper face of a pair is charged with it, so that removing all
    below 1 leaves no overlap.
    """
    closeness = [_spread(len(kind)) for kind in molecules]
    for a in molecules:
        for b, of_b in zip(molecules, closeness, strict=True):
            contact = _contacts(a.kind, b.kind)
            reach = a.extent + b.extent + float(contact.max())
            for dim in range(3):
                lower = np.flatnonzero(a.first[:, dim] < reach)
                upper = np.flatnonzero(b.first[:, dim] >= edge - reach)
                for first, second in _pairs_in_reach(a.first, b.first, lower, upper, dim, edge, reach):
                    difference = a.atoms(first)[:, :, None, :] - b.atoms(second)[:, None, :, :]
                    difference -= edge * np.rint(difference / edge)
                    distance = np.sqrt((difference**2).sum(axis=-1))
                    np.minimum.at(of_b, second, (distance / contact).min(axis=(1, 2)))
    return closeness


def _spread(n: int) -> Floats:
    """Numbers in [1000, 1001) without order (fractional parts of multiples of the golden ratio)."""
    return 1e3 + np.arange(n, dtype=np.float64) * 0.618033988749895 % 1.0


def _contacts(a: MoleculeType, b: MoleculeType) -> Floats:
    """Allowed contact of each atom of `a` with each of `b`, nm, by the first letters of their names."""
    return np.array([[_CONTACT["".join(sorted(i[0] + j[0]))] for j in b.atom_name] for i in a.atom_name])


def _pairs_in_reach(
    a: Floats, b: Floats, lower: Rows, upper: Rows, dim: int, edge: float, reach: float
) -> list[tuple[Rows, Rows]]:
    """Pairs (of a's lower, of b's upper) within `reach` across face `dim`, by columns normal to it."""
    n = int(edge / reach)
    plane = [d for d in range(3) if d != dim]

    def column(points: Floats) -> Rows:
        return np.minimum((points[:, plane] / edge * n).astype(np.int64), n - 1)

    key = column(b[upper]) @ np.array([n, 1])
    order = np.argsort(key, kind="stable")
    upper, key = upper[order], key[order]
    pairs = []
    for shift in np.ndindex(3, 3):
        wanted = (column(a[lower]) + np.array(shift) - 1) % n @ np.array([n, 1])
        start = np.searchsorted(key, wanted, side="left")
        count = np.searchsorted(key, wanted, side="right") - start
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        first, second = np.repeat(lower, count), upper[np.repeat(start, count) + within]
        apart = a[first] - b[second]
        apart -= edge * np.rint(apart / edge)
        near = (apart**2).sum(axis=1) < reach**2
        pairs.append((first[near], second[near]))
    return pairs
