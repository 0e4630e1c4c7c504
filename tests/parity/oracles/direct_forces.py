"""Record forces of triclinic boxes: a direct sum in float64 over all pairs, with the nearest of 125 images of each.

usage: direct_forces.py DATA_DIRECTORY

Needs NumPy only. Writes the same files as openmm_forces.py and prints the energies beside those of GROMACS. Before
that the sum is compared with OpenMM's recorded forces for the rectangular box ``water``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from boxes import CHARGE, COULOMB, EPSILON, SIGMA, gmx_energies, read_gro

CUTOFF = 1.0
K_RF, C_RF = {"rf_infinite": 0.5}, {"rf_infinite": 1.5}
BOXES = {
    "water": ("rf_infinite",),
    "dodecahedron": ("rf_infinite",),
    "octahedron": ("rf_infinite",),
}


def direct_sum(positions: np.ndarray, box: np.ndarray, case: str) -> tuple[np.ndarray, float, float]:
    """Forces (n, 3) [kJ/mol/nm], Lennard-Jones (plain cut-off) and Coulomb energy [kJ/mol]."""
    n, images = len(positions), np.array(list(np.ndindex(5, 5, 5))) - 2.0
    shifts, inverse = images @ box, np.linalg.inv(box)
    charge = np.where(np.arange(n) % 3 == 0, -2 * CHARGE, CHARGE)
    k_rf, c_rf = K_RF[case] / CUTOFF**3, C_RF[case] / CUTOFF
    forces, lj, coulomb = np.zeros((n, 3)), 0.0, -0.5 * COULOMB * c_rf * (charge**2).sum()
    for i in range(n - 1):
        r = positions[i] - positions[i + 1 :]
        r -= np.rint(r @ inverse) @ box
        imaged = r[:, None] + shifts
        r = imaged[np.arange(len(r)), (imaged**2).sum(axis=2).argmin(axis=1)]
        r2 = (r**2).sum(axis=1)
        inside = r2 < CUTOFF**2
        j, r, r2 = np.flatnonzero(inside) + i + 1, r[inside], r2[inside]
        other = j // 3 != i // 3  # atoms of one molecule exclude each other
        qq = COULOMB * charge[i] * charge[j]
        coulomb += (qq * (other / np.sqrt(r2) + k_rf * r2 - c_rf)).sum()
        over_r = qq * (other / np.sqrt(r2) ** 3 - 2 * k_rf)
        oxygen = other & (i % 3 == 0) & (j % 3 == 0)
        s6 = np.where(oxygen, SIGMA**2 / r2, 0.0) ** 3
        lj += (4 * EPSILON * (s6**2 - s6)).sum()
        over_r += 24 * EPSILON * (2 * s6**2 - s6) / r2
        force = over_r[:, None] * r
        forces[i] += force.sum(axis=0)
        np.subtract.at(forces, j, force)
    return forces, lj, coulomb


def main(data: Path) -> None:
    gmx = gmx_energies(data)
    for box, cases in BOXES.items():
        for case in cases:
            forces, lj, coulomb = direct_sum(*read_gro(data, box), case)
            reference = gmx[box, "lj_plain"]["lj"], gmx[box, case]["coulomb"]
            print(f"{box:<13} {case:<13} lj {lj:.6f} (gmx {reference[0]:.6f})", end="  ")
            print(f"coulomb {coulomb:.6f} (gmx {reference[1]:.6f})", flush=True)
            path = data / f"{box}__{case}.npz"
            if box == "water":
                recorded = np.load(path)["forces"]
                print(
                    "relative difference from OpenMM:",
                    np.linalg.norm(forces - recorded) / np.linalg.norm(recorded),
                )
            else:
                np.savez_compressed(path, forces=forces.astype(np.float32), lj=lj, coulomb=coulomb)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
