"""Make the bundled systems water-ethanol and peptide with GROMACS 2022.5 (Debian 12) and its force fields.

usage: make_systems.py DIRECTORY [water-ethanol | peptide | charmm]

Writes DIRECTORY/NAME/conf.gro and whole.top, bundled as topol.top (``run.mdp`` is written by hand). Topologies are made
self-contained: of the force field only the types that occur are kept. The peptide, the sequence of Trp-cage TC5b as an
ideal helix, is built by PeptideBuilder 1.1.0 with Biopython. Both systems are minimised, run for 60 ps at 1 bar, set to
the mean density of the second half of that, and run for 20 ps more at constant volume, at 300 K with steps of 2 fs.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from commands import call

N_WATER, N_ETHANOL = 1012, 44
"""10.0 % of the mass is ethanol."""
SEQUENCE = "NLYIQWLKDGGPSSGRPPPS"
PEPTIDE_BOX = 4.37
"""Distance of the images in the rhombic dodecahedron before it is scaled to its density, nm."""

MDP = """
cutoff-scheme = Verlet
nstlist = 20
coulombtype = reaction-field
rcoulomb = 1.0
epsilon-rf = 0
rvdw = 1.0
vdw-modifier = potential-shift
constraints = h-bonds
"""
MINIMISE = MDP + "integrator = steep\nnsteps = 300\nemtol = 50\n"
DYNAMICS = (
    MDP
    + "integrator = md\ndt = 0.002\ntcoupl = v-rescale\ntc-grps = System\ntau-t = 0.5\nref-t = 300\nnstenergy = 100\n"
)
PRESSURE = (
    DYNAMICS
    + "pcoupl = C-rescale\ntau-p = 1\nref-p = 1\ncompressibility = 4.5e-5\nnsteps = 30000\n"
    + "gen-vel = yes\ngen-temp = 300\ngen-seed = 11\n"
)
VOLUME = DYNAMICS + "nsteps = 10000\ncontinuation = yes\n"

ETHANOL_ITP = """
[ moleculetype ]
ETH  3

[ atoms ]
  1  opls_157  1  ETH  C1   1  -0.18
  2  opls_156  1  ETH  H11  1   0.06
  3  opls_156  1  ETH  H12  1   0.06
  4  opls_156  1  ETH  H13  1   0.06
  5  opls_157  1  ETH  C2   2   0.145
  6  opls_156  1  ETH  H21  2   0.06
  7  opls_156  1  ETH  H22  2   0.06
  8  opls_154  1  ETH  O    2  -0.683
  9  opls_155  1  ETH  HO   2   0.418

[ bonds ]
{bonds}
[ pairs ]
{pairs}
[ angles ]
{angles}
[ dihedrals ]
{dihedrals}
"""
ETHANOL_BONDS = [(1, 2), (1, 3), (1, 4), (1, 5), (5, 6), (5, 7), (5, 8), (8, 9)]
ETHANOL_POSITIONS = [
    (0, 0, 0), (-0.036, 0.103, 0), (-0.036, -0.051, 0.089), (-0.036, -0.051, -0.089), (0.153, 0, 0),
    (0.189, -0.051, 0.089), (0.189, -0.051, -0.089), (0.2, 0.134, 0), (0.296, 0.134, 0),
]  # fmt: skip
WATER_ETHANOL_TOP = """#include "oplsaa.ff/forcefield.itp"
#include "ethanol_all_atoms.itp"
#include "oplsaa.ff/tip3p.itp"
[ system ]
{title}
[ molecules ]
{molecules}
"""


def simulate(folder: Path, name: str, mdp: str, conf: str) -> None:
    """grompp and mdrun."""
    (folder / f"{name}.mdp").write_text(mdp)
    call(folder, "gmx", "grompp", "-f", f"{name}.mdp", "-c", conf, "-p", "topol.top", "-o", f"{name}.tpr",
         "-maxwarn", "2")  # fmt: skip
    call(folder, "gmx", "mdrun", "-deffnm", name, "-ntmpi", "1", "-ntomp", "1")


def equilibrate(folder: Path, conf: str) -> None:
    """From `conf` to final.gro at the mean density."""
    simulate(folder, "min", MINIMISE, conf)
    simulate(folder, "npt", PRESSURE, "min.gro")
    listed = call(folder, "gmx", "energy", "-f", "npt.edr", "-b", "30", answer="Density\n\n")
    density = float(re.search(r"(?m)^Density +([\d.]+)", listed)[1])
    print(f"{folder.name}: {density:.1f} kg/m^3")
    call(folder, "gmx", "editconf", "-f", "npt.gro", "-density", str(density), "-o", "scaled.gro")
    simulate(folder, "fit", MINIMISE, "scaled.gro")
    simulate(
        folder,
        "nvt",
        VOLUME.replace("continuation = yes", "gen-vel = yes\ngen-temp = 300\ngen-seed = 12"),
        "fit.gro",
    )
    call(folder, "gmx", "trjconv", "-f", "nvt.gro", "-s", "nvt.tpr", "-pbc", "mol", "-ur", "tric", "-o",
         "final.gro", answer="0\n")  # fmt: skip


def ethanol_itp() -> str:
    """The molecule with all angles, dihedrals and 1-4 pairs that follow from its bonds."""
    near = {
        i: sorted({b for a, b in ETHANOL_BONDS if a == i} | {a for a, b in ETHANOL_BONDS if b == i})
        for i in range(1, 10)
    }
    angles = [(a, j, b) for j in near for a in near[j] for b in near[j] if a < b]
    dihedrals = [
        (a, j, k, b) for j, k in ETHANOL_BONDS for a in near[j] if a != k for b in near[k] if b not in (j, a)
    ]

    def lines(rows: list[tuple[int, ...]], function: int) -> str:
        return "".join("".join(f"{atom:4d}" for atom in row) + f"  {function}\n" for row in rows)

    return ETHANOL_ITP.format(
        bonds=lines(ETHANOL_BONDS, 1), pairs=lines(sorted((min(d[0], d[3]), max(d[0], d[3])) for d in dihedrals), 1),
        angles=lines(angles, 1), dihedrals=lines(dihedrals, 3),
    )  # fmt: skip


def make_water_ethanol(folder: Path) -> None:
    names = ("C1", "H11", "H12", "H13", "C2", "H21", "H22", "O", "HO")
    rows = [
        f"    1ETH  {name:>5}{i + 1:5d}{x:8.3f}{y:8.3f}{z:8.3f}"
        for i, (name, (x, y, z)) in enumerate(zip(names, ETHANOL_POSITIONS, strict=True))
    ]
    (folder / "ethanol.gro").write_text("\n".join(["ethanol", "9", *rows, "1 1 1", ""]))
    (folder / "ethanol_all_atoms.itp").write_text(ethanol_itp())
    call(folder, "gmx", "insert-molecules", "-ci", "ethanol.gro", "-nmol", str(N_ETHANOL), "-box", "3.35", "3.35",
         "3.35", "-seed", "3", "-o", "ethanols.gro")  # fmt: skip
    call(folder, "gmx", "solvate", "-cp", "ethanols.gro", "-cs", "spc216.gro", "-maxsol", str(N_WATER), "-o",
         "start.gro")  # fmt: skip
    title = "Ethanol (OPLS-AA) in TIP3P water, 10 % by mass"
    (folder / "topol.top").write_text(
        WATER_ETHANOL_TOP.format(title=title, molecules=f"ETH {N_ETHANOL}\nSOL {N_WATER}")
    )
    equilibrate(folder, "start.gro")
    finish(folder, title)


def build_helix(path: Path) -> None:
    """Heavy atoms of the sequence with the angles of an ideal helix, as a PDB file."""
    import Bio.PDB
    import PeptideBuilder
    from PeptideBuilder import Geometry

    geometries = [Geometry.geometry(residue) for residue in SEQUENCE]
    for geometry in geometries:
        geometry.phi, geometry.psi_im1 = -65, -40
    structure = PeptideBuilder.initialize_res(geometries[0])
    for geometry in geometries[1:]:
        PeptideBuilder.add_residue(structure, geometry)
    PeptideBuilder.add_terminal_OXT(structure)
    output = Bio.PDB.PDBIO()
    output.set_structure(structure)
    output.save(str(path))


def make_peptide(folder: Path) -> None:
    build_helix(folder / "helix.pdb")
    call(folder, "gmx", "pdb2gmx", "-f", "helix.pdb", "-o", "peptide.gro", "-p", "topol.top", "-i", "restraints.itp",
         "-ff", "amber99sb-ildn", "-water", "tip3p")  # fmt: skip
    call(folder, "gmx", "editconf", "-f", "peptide.gro", "-bt", "dodecahedron", "-box", str(PEPTIDE_BOX), "-c",
         "-o", "boxed.gro")  # fmt: skip
    call(folder, "gmx", "solvate", "-cp", "boxed.gro", "-cs", "spc216.gro", "-p", "topol.top",
         "-o", "wet.gro")  # fmt: skip
    (folder / "ions.mdp").write_text(MINIMISE)
    call(folder, "gmx", "grompp", "-f", "ions.mdp", "-c", "wet.gro", "-p", "topol.top", "-o", "ions.tpr",
         "-maxwarn", "2")  # fmt: skip
    call(folder, "gmx", "genion", "-s", "ions.tpr", "-p", "topol.top", "-o", "start.gro", "-neutral", "-seed", "5",
         answer="SOL\n")  # fmt: skip
    equilibrate(folder, "start.gro")
    finish(folder, "Trp-cage sequence as a helix (AMBER ff99SB-ILDN) in TIP3P water, rhombic dodecahedron")


def make_charmm(folder: Path) -> None:
    """The same peptide with CHARMM27 in vacuum, minimised; the parity tests keep it as charmm.top and charmm.gro."""
    build_helix(folder / "helix.pdb")
    call(folder, "gmx", "pdb2gmx", "-f", "helix.pdb", "-o", "peptide.gro", "-p", "topol.top", "-ff", "charmm27",
         "-water", "none")  # fmt: skip
    call(folder, "gmx", "editconf", "-f", "peptide.gro", "-box", "6", "5", "4.5", "-c", "-o", "boxed.gro")
    (folder / "min.mdp").write_text(MDP.replace("constraints = h-bonds", "integrator = steep\nnsteps = 100"))
    call(folder, "gmx", "grompp", "-f", "min.mdp", "-c", "boxed.gro", "-p", "topol.top", "-pp", "all.top",
         "-o", "min.tpr", "-maxwarn", "3")  # fmt: skip
    call(folder, "gmx", "mdrun", "-deffnm", "min", "-ntmpi", "1", "-ntomp", "1")
    title = "Trp-cage sequence as a helix, CHARMM27 with CMAP"
    (folder / "whole.top").write_text(self_contained((folder / "all.top").read_text(), title))


def finish(folder: Path, title: str) -> None:
    """Self-contained topology, configuration without velocities."""
    call(folder, "gmx", "grompp", "-f", "nvt.mdp", "-c", "final.gro", "-p", "topol.top", "-pp", "all.top", "-o",
         "pp.tpr", "-maxwarn", "2")  # fmt: skip
    text = self_contained((folder / "all.top").read_text(), title)
    if (folder / "restraints.itp").exists():
        rows = [line.split(";")[0].rstrip() for line in (folder / "restraints.itp").read_text().splitlines()]
        restraints = "\n".join(["#ifdef POSRES", *filter(None, rows), "#endif", "", "[ moleculetype ]\n"])
        first, second, rest = text.split("[ moleculetype ]\n", 2)
        text = first + "[ moleculetype ]\n" + second + restraints + rest
    (folder / "whole.top").write_text(text)
    lines = (folder / "final.gro").read_text().splitlines()
    (folder / "conf.gro").write_text(
        "\n".join(
            [title, *(line[:44] if 1 < i < len(lines) - 1 else line for i, line in enumerate(lines) if i)]
        )
        + "\n"
    )


def self_contained(text: str, title: str) -> str:
    """The preprocessed topology `text` with only the types and molecules that occur."""
    lines = [line.split(";")[0].rstrip() for line in text.replace("\\\n", " ").splitlines()]
    sections: list[tuple[str, list[list[str]]]] = []
    for line in filter(None, lines):
        if match := re.match(r"\s*\[\s*(\w+)\s*\]", line):
            sections.append((match[1], []))
        elif sections and not line.lstrip().startswith(
            "#"
        ):  # what precedes them is the banner of the force field
            sections[-1][1].append(line.split())
    molecules: list[list[tuple[str, list[list[str]]]]] = []
    for section in sections:
        if section[0] == "moleculetype":
            molecules.append([])
        if molecules and section[0] not in ("system", "molecules"):
            molecules[-1].append(section)
    counts = next(rows for name, rows in sections if name == "molecules")
    used = [molecule for molecule in molecules if any(molecule[0][1][0][0] == row[0] for row in counts)]
    types = {row[1] for molecule in used for name, rows in molecule if name == "atoms" for row in rows}
    out: list[str] = []
    bonded: set[str] = {"X"}
    n_types = {
        "bondtypes": 2,
        "constrainttypes": 2,
        "pairtypes": 2,
        "nonbond_params": 2,
        "angletypes": 3,
        "dihedraltypes": 4,
        "cmaptypes": 5,
    }
    for name, rows in sections:
        if name == "moleculetype":
            break
        if name == "atomtypes":
            rows = [row for row in rows if row[0] in types]
            bonded |= {row[1] if row[1][0].isalpha() else row[0] for row in rows}
        elif name in n_types:
            known = types if name in ("pairtypes", "nonbond_params") else bonded
            rows = [row for row in rows if set(row[: n_types[name]]) <= known]
        if rows and (name in ("defaults", "atomtypes") or name in n_types):
            out += [f"[ {name} ]", *table(rows), ""]
    for molecule in used:
        for name, rows in molecule:
            out += [f"[ {name} ]", *table(rows), ""] if rows else []
    head = [
        f"; {title}",
        "; See README.md beside this file for where the parameters are from. Self-contained.",
        "",
    ]
    return "\n".join(
        [*head, *out, "[ system ]", title, "", "[ molecules ]", *("  ".join(row) for row in counts), ""]
    )


def table(rows: list[list[str]]) -> list[str]:
    """Rows in columns; long ones, of maps, with continued lines, as gmx reads no line over 4095 characters."""
    if len(rows[0]) > 100:
        return [" \\\n".join(" ".join(row[k : k + 8]) for k in range(0, len(row), 8)) for row in rows]
    widths = [max(len(row[k]) for row in rows if k < len(row)) for k in range(max(map(len, rows)))]
    return ["  " + "  ".join(field.rjust(widths[k]) for k, field in enumerate(row)) for row in rows]


MAKERS = {"water-ethanol": make_water_ethanol, "peptide": make_peptide, "charmm": make_charmm}


def main(directory: Path, names: list[str]) -> None:
    for name in names or ("water-ethanol", "peptide"):
        folder = directory / name
        folder.mkdir(parents=True, exist_ok=True)
        MAKERS[name](folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
