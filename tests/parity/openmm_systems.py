"""Systems recorded from OpenMM: what `oracles/openmm_systems.py` wrote, as systems of the engine."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pulsemd.engine.openmm_system import system_from_openmm
from pulsemd.engine.system import System
from pulsemd.io.openmm import OpenMMSystem, read_openmm

DATA = Path(__file__).parent / "data" / "openmm"
NAMES = ("dipeptide", "tip4pew", "charmm36", "popc", "pme", "sulfonamide", "parmed", "zoo")
"""Alanine dipeptide, ff14SB and TIP3P; five residues, TIP4P-Ew; CHARMM36 with correction maps and NBFIX; a bilayer,
lipid17; ff19SB, OPC and PME; a ligand, CGenFF; OPLS-AA of GROMACS files through ParmEd; every kind of site and of
custom force."""

ENERGIES = {
    "HarmonicBondForce": ("bond",),
    "HarmonicAngleForce": ("angle",),
    "PeriodicTorsionForce": ("proper",),
    "RBTorsionForce": ("ryckaert_bellemans",),
    "CMAPTorsionForce": ("cmap",),
    "CustomTorsionForce": ("improper",),
    "CustomBondForce": ("harmonic_distance",),
    "CustomAngleForce": ("angle",),
    "CustomExternalForce": ("position_restraint",),
    "CosineTorsion": ("proper",),
    "GromosBond": ("quartic_bond",),
    "GromosAngle": ("cosine_angle",),
}
"""Energies of ours that are those of one force; the others are sums of pairs, see `PAIRS`."""

PAIRS = ("NonbondedForce", "CustomNonbondedForce", "LennardJones", "LennardJones14")
ENERGY = 1e-5
"""Relative tolerance of the total and of each force; measured: 1e-6 at most. Small ones: 1e-3 kJ/mol."""

OUR_PAIRS = ("lj", "coulomb", "lj14", "coulomb14", "coulomb_recip", "dispersion_correction")


@dataclass(frozen=True, eq=False)
class Recorded:
    """Energies by force [kJ/mol], and forces (n, 3) [kJ/mol/nm], of OpenMM's Reference platform."""

    energies: dict[str, float]
    forces: NDArray[np.float32]


def read(name: str) -> tuple[OpenMMSystem, Recorded]:
    """A recorded system, and what is recorded."""
    with np.load(DATA / f"{name}.npz") as archive, TemporaryDirectory() as folder:
        path = Path(folder) / "system.xml"
        path.write_bytes(archive["system"].tobytes())
        topology = pdb_names(archive["topology"].tobytes().decode())
        found = read_openmm(path, archive["positions"], box=archive["box"], names=topology)
        energies = dict(zip(archive["names"].tolist(), archive["energies"].tolist(), strict=True))
        return found, Recorded(energies, archive["forces"])


def single_point(name: str, **settings: Any) -> System:
    """The system for an evaluation at the positions as they are."""
    return system_from_openmm(read(name)[0], {"continuation": True, "nsteps": 0, **settings})


def pdb_names(text: str) -> SimpleNamespace:
    """What `read_openmm` asks of an ``openmm.app.Topology``, from the text of a PDB file."""
    residues: dict[tuple[str, str], SimpleNamespace] = {}
    atoms = []
    for line in io.StringIO(text):
        if line.startswith(("ATOM", "HETATM")):
            key = line[17:27], line[21]
            number = len(residues)
            residue = residues.setdefault(
                key, SimpleNamespace(index=number, name=line[17:20].strip(), id=line[22:26].strip())
            )
            atoms.append(SimpleNamespace(name=line[12:16].strip(), residue=residue))
    return SimpleNamespace(atoms=lambda: atoms)


def assert_energies(ours, recorded):
    """Each force of OpenMM has its energy, and all together the total."""
    assert ours["potential"] == pytest.approx(recorded["total"], rel=ENERGY)
    seen = set()
    for force, names in ENERGIES.items():
        if names in seen or force not in recorded:
            continue
        seen.add(names)
        expected = sum(recorded.get(other, 0.0) for other, terms in ENERGIES.items() if terms == names)
        assert sum(ours.get(name, 0.0) for name in names) == pytest.approx(expected, rel=ENERGY, abs=1e-3), (
            force
        )
    pairs = sum(recorded.get(force, 0.0) for force in PAIRS)
    assert sum(ours.get(name, 0.0) for name in OUR_PAIRS) == pytest.approx(pairs, rel=ENERGY)
    assert recorded.keys() <= {"total", *ENERGIES, *PAIRS}
