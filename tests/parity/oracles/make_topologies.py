"""Make the topologies of the parity tests that are from the force fields of gromacs-data and of OpenMM.

usage: make_topologies.py DATA_DIRECTORY/molecules [NAME ...]

Needs GROMACS 2022.5 (Debian 12), OpenMM 8.6.1 and ParmEd 4.3.1. Writes ``NAME.top.gz``, and ``NAME.gro.gz`` for the
first two, which are a stretch of the protein in OpenMM's ``test.pdb`` with charged ends, minimised in water:

opls : OPLS-AA in TIP4P
gromos : GROMOS 54A7 in SPC
tip4pew, popc : ff14SB in TIP4P-Ew and a patch of POPC (lipid17) in TIP3P: the systems of ``openmm_systems.py`` with
    all bonds, as ParmEd writes them; positions are those of ``openmm/NAME.npz``
charmm36, sulfonamide : CHARMM36 in its TIP3P with NBFIX and correction maps, and benzenesulfonamide (CGenFF): the same,
    written by ``write_charmm.py``, since ParmEd leaves out their forces

Then run ``molecule_references.py`` for the energies and forces of gmx_d.
"""

from __future__ import annotations

import gzip
import io
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import openmm
import parmed
from commands import call
from openmm import app, unit

sys.path.insert(0, str(Path(__file__).resolve().parent))
from make_systems import MDP, self_contained
from write_charmm import write_top

from openmm_systems import nonbonded_of, segment

EDGE = "3.0"
RESIDUES = 5, 8
FIELDS = {
    "tip4pew": ("amber14/protein.ff14SB.xml", "amber14/tip4pew.xml"),
    "popc": ("amber14/lipid17.xml", "amber14/tip3p.xml"),
    "charmm36": ("charmm36.xml", "charmm36/water.xml"),
    "sulfonamide": ("charmm36.xml", "charmm36/water.xml"),
}


def from_pdb2gmx(data: Path, name: str, field: str, water: str, box: str) -> None:
    """A peptide in water with a force field of gromacs-data, minimised."""
    model = segment(*RESIDUES, capped=False)
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        with open(folder / "in.pdb", "w") as handle:
            app.PDBFile.writeFile(model.topology, model.positions, handle)
        call(folder, "gmx", "pdb2gmx", "-f", "in.pdb", "-o", "a.gro", "-p", "topol.top", "-ff", field, "-water", water,
             "-ignh")  # fmt: skip
        call(folder, "gmx", "editconf", "-f", "a.gro", "-o", "b.gro", "-box", EDGE, EDGE, EDGE, "-c")
        call(folder, "gmx", "solvate", "-cp", "b.gro", "-cs", box, "-p", "topol.top", "-o", "c.gro")
        (folder / "min.mdp").write_text(
            MDP.replace("constraints = h-bonds", "integrator = steep\nnsteps = 100")
        )
        call(folder, "gmx", "grompp", "-f", "min.mdp", "-c", "c.gro", "-p", "topol.top", "-pp", "all.top", "-o",
             "min.tpr", "-maxwarn", "9")  # fmt: skip
        call(folder, "gmx", "mdrun", "-deffnm", "min", "-ntmpi", "1", "-ntomp", "1")
        write(
            data / f"{name}.top.gz", self_contained((folder / "all.top").read_text(), f"{field} in {water}")
        )
        write(data / f"{name}.gro.gz", (folder / "min.gro").read_text())


def flexible(data: Path, name: str) -> tuple[app.Topology, openmm.System, np.ndarray]:
    """A system of ``openmm_systems.py`` with all bonds and angles."""
    archive = np.load(data.parent / "openmm" / f"{name}.npz")
    topology = app.PDBFile(io.StringIO(archive["topology"].tobytes().decode())).topology
    topology.setPeriodicBoxVectors(archive["box"] * unit.nanometer)
    system = app.ForceField(*FIELDS[name]).createSystem(
        topology, nonbondedMethod=app.CutoffPeriodic, constraints=None, rigidWater=False
    )
    return topology, system, archive["positions"]


def from_parmed(data: Path, name: str) -> None:
    """A system of OpenMM as ParmEd writes it."""
    topology, system, positions = flexible(data, name)
    structure = parmed.openmm.load_topology(topology, system, xyz=positions * unit.nanometer)
    with tempfile.TemporaryDirectory() as folder:
        structure.save(f"{folder}/{name}.top")
        text = Path(f"{folder}/{name}.top").read_text()
    text = re.sub(r"(?m)^;.*\n", "", text)
    write(data / f"{name}.top.gz", with_sites(text, system) if name == "tip4pew" else text)


def with_sites(text: str, system: openmm.System) -> str:
    """The topology with the sites of waters, which ParmEd takes for molecules of their own."""
    place = next(i for i in range(system.getNumParticles()) if system.isVirtualSite(i))
    site = system.getVirtualSite(place)
    charge, *_ = nonbonded_of(system).getParticleParameters(place)
    weights = [site.getWeight(k) for k in (1, 2)]
    head, water = re.sub(r"(?m)^(EP1 .* )A ", r"\1V ", text).split("[ moleculetype ]\nHOH")
    water = water.replace("\n#ifdef", f"    4  EP1  1  HOH  M  4  {charge._value!r}  0.0\n\n#ifdef", 1)
    rows = f"[ virtual_sites3 ]\n4  1  2  3  1  {weights[0]!r}  {weights[1]!r}\n\n"
    everyone = "[ exclusions ]\n1  2  3  4\n2  1  3  4\n3  1  2  4\n4  1  2  3\n\n[ system ]"
    water = re.sub(r"\[ exclusions \].*?\[ system \]", rows + everyone, water, flags=re.DOTALL)
    count = int(re.search(r"(?m)^HOH +(\d+)", water)[1])  # water and site
    return head + "[ moleculetype ]\nHOH" + re.sub(r"(?m)^HOH .*", f"HOH {count // 2}", water)


def from_charmm(data: Path, name: str) -> None:
    """A system of OpenMM with CHARMM36."""
    topology, system, _ = flexible(data, name)
    write(data / f"{name}.top.gz", write_top(topology, system, f"CHARMM36, {name}"))


def write(path: Path, text: str) -> None:
    """Compressed, the same bytes each time."""
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(path.name, path.stat().st_size)


MAKERS = {
    "opls": lambda data: from_pdb2gmx(data, "opls", "oplsaa", "tip4p", "tip4p.gro"),
    "gromos": lambda data: from_pdb2gmx(data, "gromos", "gromos54a7", "spc", "spc216.gro"),
    "tip4pew": lambda data: from_parmed(data, "tip4pew"),
    "popc": lambda data: from_parmed(data, "popc"),
    "charmm36": lambda data: from_charmm(data, "charmm36"),
    "sulfonamide": lambda data: from_charmm(data, "sulfonamide"),
}


def main(data: Path, names: list[str]) -> None:
    for name in names or MAKERS:
        MAKERS[name](data)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
