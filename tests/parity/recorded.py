"""The boxes and recorded reference values of the parity tests."""

from __future__ import annotations

import csv
import gzip
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pulsemd.systems import SystemFiles, system_files

DATA = Path(__file__).parent / "data"
BOXES = ("water", "a5625", "dodecahedron", "octahedron", "settled")
MDP_OPTIONS = {
    "rf_infinite": {},
    "rf_78": {"epsilon-rf": "78"},
    "lj_plain": {"vdw-modifier": "none"},
    "cutoff_plain": {"coulombtype": "cut-off", "coulomb-modifier": "none", "vdw-modifier": "none"},
    "cutoff_shift": {"coulombtype": "cut-off", "coulomb-modifier": "potential-shift"},
    "cutoff_0.9": {"rcoulomb": "0.9", "rvdw": "0.9"},
}
"""What each case sets beside the parameters of the bundled water."""


def box_files(box: str, case: str, folder: Path) -> SystemFiles:
    """Input files of a box, written to `folder`, with the parameters of a case and no velocities drawn."""
    bundled = system_files("water")
    text = bundled.configuration.read_text() if box == "water" else unpacked(box)
    (folder / "conf.gro").write_text(text)
    n_molecules = int(text.split("\n", 2)[1]) // 3
    topology = re.sub(r"(?m)^SOL +\d+", f"SOL  {n_molecules}", bundled.topology.read_text())
    (folder / "topol.top").write_text(topology)
    parameters = bundled.parameters.read_text()
    for name, value in (MDP_OPTIONS[case] | {"gen-vel": "no", "continuation": "yes"}).items():
        parameters = re.sub(rf"(?m)^{name} *=.*\n", "", parameters) + f"{name} = {value}\n"
    (folder / "run.mdp").write_text(parameters)
    return SystemFiles(
        box, folder / "conf.gro", folder / "topol.top", folder / "run.mdp", text.split("\n", 1)[0]
    )


def unpacked(box: str) -> str:
    """Text of a packed .gro file."""
    return gzip.decompress((DATA / f"{box}.gro.gz").read_bytes()).decode()


def gmx_energies(box: str, case: str) -> dict[str, float]:
    """Row of ``gmx_single_points.csv``: lj, coulomb, potential [kJ/mol], w_xx ... w_zz [kJ/mol]."""
    with open(DATA / "gmx_single_points.csv") as handle:
        for row in csv.DictReader(line for line in handle if not line.startswith("#")):
            if (row.pop("box"), row.pop("case")) == (box, case):
                return {name: float(value) for name, value in row.items() if value}
    raise KeyError(f"nothing is recorded for {box}, {case}")


def reference_forces(box: str, case: str) -> NDArray[np.float32]:
    """Forces (n, 3) [kJ/mol/nm] of OpenMM's Reference platform or, in triclinic boxes, of a direct sum."""
    with np.load(DATA / f"{box}__{case}.npz") as archive:
        forces: NDArray[np.float32] = archive["forces"]
    return forces
