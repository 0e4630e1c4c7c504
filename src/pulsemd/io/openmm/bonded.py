"""Bonded forces of OpenMM as terms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pulsemd.io.openmm.document import Force, columns
from pulsemd.io.openmm.draft import SystemDraft

Float64 = NDArray[np.float64]


def harmonic_bonds(draft: SystemDraft, force: Force) -> None:
    """k/2 (r - d)^2."""
    parameters = force.columns("Bonds", ("d", "k"))
    kept = parameters[:, 1] != 0
    draft.add("bond", force.atoms("Bonds", ("p1", "p2"))[kept], parameters[kept])


def harmonic_angles(draft: SystemDraft, force: Force) -> None:
    """k/2 (theta - a)^2."""
    parameters = force.columns("Angles", ("a", "k"))
    parameters[:, 0] = np.degrees(parameters[:, 0])
    kept = parameters[:, 1] != 0
    draft.add("angle", force.atoms("Angles", ("p1", "p2", "p3"))[kept], parameters[kept])


def periodic_torsions(draft: SystemDraft, force: Force) -> None:
    """k (1 + cos(n phi - phase))."""
    parameters = force.columns("Torsions", ("phase", "k", "periodicity"))
    parameters[:, 0] = np.degrees(parameters[:, 0])
    kept = parameters[:, 1] != 0
    draft.add("proper", torsion_atoms(force)[kept], parameters[kept])


def rb_torsions(draft: SystemDraft, force: Force) -> None:
    """sum_n c_n cos^n(phi - 180 degrees)."""
    parameters = force.columns("Torsions", [f"c{n}" for n in range(6)])
    kept = (parameters != 0).any(1)
    draft.add("ryckaert_bellemans", torsion_atoms(force)[kept], parameters[kept])


def torsion_atoms(force: Force) -> NDArray[np.int32]:
    """(m, 4) int32."""
    return force.atoms("Torsions", ("p1", "p2", "p3", "p4"))


def cmap_torsions(draft: SystemDraft, force: Force) -> None:
    """Maps over two dihedrals that share three atoms.

    OpenMM's grids begin at 0 degrees with the first angle fastest, ours at -180 degrees with the first angle in rows.

    Raises
    ------
    TopologyError
        If two dihedrals are not four atoms each of a chain of five, or maps differ in size.
    """
    atoms = force.atoms("Torsions", ("a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4"))
    if len(atoms) == 0:
        return
    apart = np.flatnonzero((atoms[:, 1:4] != atoms[:, 4:7]).any(1))
    if len(apart):
        raise force.error(
            f"map term {apart[0]} is over the dihedrals {atoms[apart[0], :4].tolist()} and "
            f"{atoms[apart[0], 4:].tolist()}, which do not share three atoms",
            "only maps over the dihedrals of a chain of five atoms are supported",
        )
    maps = force.rows("Maps")
    sizes = {int(found.get("size", "0")) for found in maps}
    if len(sizes) != 1:
        raise force.error(f"its maps have different sizes: {sorted(sizes)}", "give all maps the same size")
    n = sizes.pop()
    if n % 2:
        raise force.error(
            f"its maps have {n} points, which leaves none at -180 degrees", "use an even number of points"
        )
    grids = np.stack([_map_from_minus_180(columns(found, ("e",)), n) for found in maps])
    index = force.columns("Torsions", ("map",))[:, 0].astype(int)
    draft.add("cmap", atoms[:, [0, 1, 2, 3, 7]], grids[index])


def _map_from_minus_180(energy: Float64, n: int) -> Float64:
    """(n * n,): OpenMM's energies of one map with both angles from -180 degrees on, the first in rows."""
    return np.roll(energy.reshape(n, n).T, (n // 2, n // 2), (0, 1)).ravel()
