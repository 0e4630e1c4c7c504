"""Record energies and forces of double-precision GROMACS of the cases of ``force_field.py``.

usage: force_field_references.py [CASE ...]    (all cases without names; others keep what was recorded)

Needs gmx_d 2022.5 (Debian 12, package gromacs). ``gmx_d grompp -f run.mdp -c conf.gro -r ref.gro -p topol.top
-maxwarn 20``, ``gmx_d mdrun -ntmpi 1``, ``gmx_d energy`` at step 0; forces from the .trr of the same run. Writes
energies.csv and forces.npz in data/force_field.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from pathlib import Path

import numpy as np
from commands import call

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from molecule_references import read_trr_forces

from force_field import CASES, DATA, recorded, write_case
from pulsemd.report.gromacs import TERMS


def record(name: str) -> tuple[dict[str, float], np.ndarray]:
    """Energies by our names, and forces (n, 3) [kJ/mol/nm]."""
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        write_case(name, folder)
        (folder / "point.mdp").write_text((folder / "run.mdp").read_text() + "nstfout = 1\n")
        restraints = ["-r", str(DATA / "ref.gro")] if CASES[name].restrained else []
        call(folder, "gmx_d", "grompp", "-f", "point.mdp", "-c", "conf.gro", *restraints, "-p", "topol.top",
             "-o", "point.tpr", "-maxwarn", "20")  # fmt: skip
        call(folder, "gmx_d", "mdrun", "-s", "point.tpr", "-deffnm", "point", "-ntmpi", "1", "-ntomp", "1")
        every = "\n".join(str(i) for i in range(1, 60)) + "\n\n"
        call(folder, "gmx_d", "energy", "-f", "point.edr", "-o", "e.xvg", "-dp", answer=every)
        lines = (folder / "e.xvg").read_text().splitlines()
        forces = read_trr_forces(folder / "point.trr")
    names = [line.split('"')[1] for line in lines if line.startswith("@ s")]
    energies: dict[str, float] = {}
    for label, value in zip(names, lines[-1].split()[1:], strict=True):
        if label in TERMS or label in ("Pressure", "Pres. DC (bar)"):
            key = TERMS.get(label, label.lower())
            energies[key] = energies.get(key, 0.0) + float(value)
    return energies, forces


def main(names: list[str]) -> None:
    energies = recorded() if (DATA / "energies.csv").exists() else {}
    forces = dict(np.load(DATA / "forces.npz")) if (DATA / "forces.npz").exists() else {}
    for name in names or list(CASES):
        energies[name], forces[name] = record(name)
        print(name, energies[name])
    with open(DATA / "energies.csv", "w", newline="") as handle:
        handle.write("# kJ/mol; gmx_d 2022.5, see oracles/force_field_references.py\n")
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(["case", "energy", "gmx_d"])
        writer.writerows((name, key, value) for name in CASES for key, value in energies[name].items())
    np.savez_compressed(DATA / "forces.npz", **{name: forces[name] for name in CASES})


if __name__ == "__main__":
    main(sys.argv[1:])
