"""Record energies, pressure and forces of double-precision GROMACS with PME.

usage: pme_references.py DATA_DIRECTORY/pme

Needs gmx_d 2022.5 (Debian 12, package gromacs). Writes ``energies.csv`` and ``NAME.npz`` (``atoms``, ``forces``
float32 [kJ/mol/nm]) for the cases of ``pme_cases.py``. The commands are those of ``pulsemd compare gmx``, with
``mdrun -notunepme``: grompp, mdrun of no step, energy. Forces are those of the .trr of that run, constraint forces
not included. Of large systems every eighth atom of the solvent is kept.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from commands import call
from molecule_references import read_trr_forces

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from pme_cases import CASES, case_files
from pulsemd.report.gromacs import TERMS


def record(folder: Path) -> tuple[dict[str, str], np.ndarray]:
    """Energies by our names, kinetic energy and pressure, and forces (n, 3) of the files in `folder`."""
    mdp = (folder / "run.mdp").read_text() + "nstfout = 1\n"
    (folder / "point.mdp").write_text(mdp)
    words = ("-f", "point.mdp", "-c", "conf.gro", "-p", "topol.top", "-o", "point.tpr", "-maxwarn", "5")
    call(folder, "gmx_d", "grompp", *words)
    call(
        folder,
        "gmx_d",
        "mdrun",
        "-s",
        "point.tpr",
        "-deffnm",
        "point",
        "-ntmpi",
        "1",
        "-ntomp",
        "1",
        "-notunepme",
    )
    words = ("gmx_d", "energy", "-f", "point.edr", "-o", "point.xvg", "-dp")
    every = "\n".join(str(k) for k in range(1, 40)) + "\n\n"
    subprocess.run(words, cwd=folder, input=every, text=True, check=True, capture_output=True)
    lines = (folder / "point.xvg").read_text().splitlines()
    names = [line.split('"')[1] for line in lines if line.startswith("@ s") and "legend" in line]
    values = dict(zip(names, lines[-1].split()[1:], strict=True))
    known = TERMS | {"Pressure": "pressure", "Kinetic En.": "kinetic"}
    return {known[n]: value for n, value in values.items() if n in known}, read_trr_forces(
        folder / "point.trr"
    )


def main(data: Path) -> None:
    rows = []
    for name in CASES:
        with tempfile.TemporaryDirectory() as folder:
            case_files(name, Path(folder))
            energies, forces = record(Path(folder))
        rows += [(name, energy, value) for energy, value in energies.items()]
        atoms = np.arange(len(forces))
        if len(atoms) > 10_000:
            atoms = np.concatenate([atoms[:2489], atoms[2489::8]])
        np.savez_compressed(
            data / f"{name}.npz", atoms=atoms.astype(np.int32), forces=forces[atoms].astype("f4")
        )
        print(name, len(forces), energies, flush=True)
    with open(data / "energies.csv", "w", newline="") as handle:
        handle.write(
            "# GROMACS 2022.5, Debian 12, double precision; kJ/mol, bar; made by pme_references.py with\n"
        )
        handle.write(
            "# gmx_d grompp -f point.mdp -c conf.gro -p topol.top -o point.tpr; gmx_d mdrun -s point.tpr -ntmpi 1\n"
        )
        handle.write(
            "# -ntomp 1 -notunepme; gmx_d energy -f point.edr -dp (files as pme_cases.py writes them)\n"
        )
        table = csv.writer(handle, lineterminator="\n")
        table.writerow(["case", "energy", "gmx_d"])
        table.writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
