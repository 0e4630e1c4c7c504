"""Systems of molecules of the parity tests: their files, and what was recorded for them."""

from __future__ import annotations

import csv
import gzip
import re
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from pulsemd.engine.system import System, prepare_system
from pulsemd.io.gromacs import read_gro, read_top, write_gro
from pulsemd.io.gromacs.system import read_system
from pulsemd.systems import SystemFiles, system_files

DATA = Path(__file__).parent / "data" / "molecules"
FORCE_FIELDS = ("opls", "gromos", "tip4pew", "popc", "charmm36", "sulfonamide")
"""Made by oracles/make_topologies.py, which says what they are."""
MOLECULES = (
    "water-ethanol",
    "peptide",
    "dhfr",
    "charmm",
    "peptides",
    "restrained",
    "constrained",
    *FORCE_FIELDS,
)
"""The bundled mixture and peptide; DHFR in water (AMBER); a peptide with correction maps; 8 peptides, 47k atoms; the
peptide with its heavy atoms held near positions up to 0.1 nm away from where they are; the mixture with positions of
nine decimals and velocities that satisfy the constraints, molecules lying across faces."""

SINGLE_POINT = {"gen-vel": "no", "continuation": "yes", "nsteps": "0", "tcoupl": "no"}


def molecule_files(name: str, folder: Path) -> SystemFiles:
    """Input files of a system, written to `folder`, for a single point at the positions as they are."""
    conf, top, mdp = (folder / file for file in ("conf.gro", "topol.top", "run.mdp"))
    if name == "peptides":
        _write_eight_peptides(conf, top)
    elif name in FORCE_FIELDS and not (DATA / f"{name}.gro.gz").exists():
        top.write_bytes(gzip.decompress((DATA / f"{name}.top.gz").read_bytes()))
        with np.load(DATA.parent / "openmm" / f"{name}.npz") as archive:
            write_gro(conf, read_top(top)[0], archive["positions"], None, archive["box"], name, 6)
    elif name in ("dhfr", "charmm", *FORCE_FIELDS):
        conf.write_bytes(gzip.decompress((DATA / f"{name}.gro.gz").read_bytes()))
        top.write_bytes(gzip.decompress((DATA / f"{name}.top.gz").read_bytes()))
    else:
        bundled = system_files({"restrained": "peptide", "constrained": "water-ethanol"}.get(name, name))
        conf.write_bytes(bundled.configuration.read_bytes())
        if name == "constrained":
            conf.write_bytes(gzip.decompress((DATA / "constrained.gro.gz").read_bytes()))
        top.write_bytes(bundled.topology.read_bytes())
    settings = system_files("peptide").parameters.read_text()
    for option, value in SINGLE_POINT.items():
        settings = re.sub(rf"(?m)^{option} *=.*\n", "", settings) + f"{option} = {value}\n"
    if name == "restrained":
        settings += "define = -DPOSRES\n"
        _write_reference(conf, top, folder / "ref.gro")
    mdp.write_text(settings)
    return SystemFiles(name, conf, top, mdp, name)


def _write_eight_peptides(conf: Path, top: Path) -> None:
    """2 x 2 x 2 replicas of the bundled rhombic dodecahedron; every molecule is moved by up to 0.01 nm, so that the
    replicas differ."""
    bundled = system_files("peptide")
    frame, (one, _) = read_gro(bundled.configuration), read_top(bundled.topology)
    counts = [(one.molecule_types[b.molecule_type].name, 8 * b.n_molecules) for b in one.blocks]
    head, section, _ = bundled.topology.read_text().rpartition("[ molecules ]\n")
    top.write_text(head + section + "".join(f"{name} {n}\n" for name, n in counts))
    shifts = np.array(list(np.ndindex(2, 2, 2))) @ frame.box
    ends = np.append([block.first_atom for block in one.blocks[1:]], one.n_atoms)
    replicas = frame.positions + shifts[:, None]
    parts = [replicas[:, b.first_atom : end].reshape(-1, 3) for b, end in zip(one.blocks, ends, strict=True)]
    topology, _ = read_top(top)
    positions = np.concatenate(parts) + _scatter(topology.molecule) * 0.01
    write_gro(conf, topology, positions, None, 2 * frame.box, "8 peptides")


def _write_reference(conf: Path, top: Path, reference: Path) -> None:
    """Reference positions of restraints, each in another image of the box."""
    frame, (topology, _) = read_gro(conf), read_top(top)
    away = _scatter(np.arange(topology.n_atoms)) * 0.1
    image = np.rint(_scatter(np.arange(topology.n_atoms) + 7))
    write_gro(reference, topology, frame.positions + away + image @ frame.box, None, frame.box, "reference")


def _scatter(numbers: NDArray[np.int32] | NDArray[np.int64]) -> NDArray[np.float64]:
    """(n, 3) multiples of 0.1 in [-1, 1] without order, by multiplicative hashing."""
    keys = numbers.astype(np.int64)[:, None] * 3 + np.arange(3)
    return ((keys * 2654435761 % 2**32) % 21 - 10) / 10


def recorded_energies(name: str) -> dict[str, float]:
    """Energies [kJ/mol] of double-precision GROMACS."""
    with open(DATA / "energies.csv") as handle:
        rows = csv.DictReader(line for line in handle if not line.startswith("#"))
        return {row["energy"]: float(row["gmx_d"]) for row in rows if row["system"] == name}


def recorded_forces(name: str) -> tuple[NDArray[np.int64], NDArray[np.float32], str]:
    """Atoms (k,), forces on them (k, 3) [kJ/mol/nm], and the program they are from."""
    with np.load(DATA / f"{name}.npz") as archive:
        return archive["atoms"], archive["forces"], str(archive["program"])


@lru_cache(maxsize=1)
def read(name: str) -> System:
    """The system of these files."""
    with TemporaryDirectory() as folder:
        files = molecule_files(name, Path(folder))
        reference = Path(folder) / "ref.gro"
        topology, table, frame, settings = read_system(
            files.configuration,
            files.topology,
            files.parameters,
            (),
            reference if reference.exists() else None,
        )
    start = (frame.positions, frame.velocities, frame.box, frame.reference)
    return prepare_system(topology, table, settings, *start)
