"""Systems with PME of the parity tests: their files, and what gmx_d recorded for them."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from molecules import molecule_files
from pulsemd.systems import SystemFiles
from recorded import box_files

DATA = Path(__file__).parent / "data" / "pme"
CASES = {
    "settled": ("settled", {}),
    "dodecahedron": ("dodecahedron", {"pme-order": "5", "ewald-rtol": "1e-6"}),
    "dhfr": ("dhfr", {"coulomb-modifier": "none"}),
    "peptide": ("peptide", {"pme-order": "6", "fourier-nx": "36", "fourier-ny": "36", "fourier-nz": "30"}),
    "charmm": ("charmm", {"epsilon-r": "1.5"}),
}
"""Of each case the system, and what it sets beside PME with the defaults of gmx: water that satisfies its constraints,
water in a rhombic dodecahedron, DHFR with a net charge in water, a peptide in a dodecahedron, one in vacuum."""

_WATER = ("settled", "dodecahedron")


def case_files(name: str, folder: Path) -> SystemFiles:
    """Input files of a case, written to `folder`, for a single point at the positions as they are."""
    system, options = CASES[name]
    files = box_files(system, "rf_infinite", folder) if system in _WATER else molecule_files(system, folder)
    settings = files.parameters.read_text()
    changed = {"coulombtype": "PME", "epsilon-rf": "", "nsteps": "0", "tcoupl": "no"} | options
    for option, value in changed.items():
        settings = re.sub(rf"(?m)^{option} *=.*\n", "", settings)
        settings += f"{option} = {value}\n" if value else ""
    files.parameters.write_text(settings)
    return files


def recorded(name: str) -> tuple[dict[str, float], NDArray[np.int32], NDArray[np.float32]]:
    """Energies [kJ/mol] and pressure [bar]; atoms (k,) and forces on them (k, 3) [kJ/mol/nm]."""
    with open(DATA / "energies.csv") as handle:
        rows = csv.DictReader(line for line in handle if not line.startswith("#"))
        energies = {row["energy"]: float(row["gmx_d"]) for row in rows if row["case"] == name}
    with np.load(DATA / f"{name}.npz") as archive:
        return energies, archive["atoms"], archive["forces"]
