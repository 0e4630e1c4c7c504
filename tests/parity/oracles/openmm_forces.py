"""Record forces of OpenMM's Reference platform (double precision) for the boxes of the parity tests.

usage: openmm_forces.py DATA_DIRECTORY

Needs OpenMM (made with 8.6.1). For each box and case writes ``BOX__CASE.npz`` with ``forces`` (n, 3) float32
[kJ/mol/nm], ``lj`` and ``coulomb`` [kJ/mol], and prints the energies beside those recorded from GROMACS. Only
for rectangular boxes: in the rhombic dodecahedron the Reference platform's Lennard-Jones energy is 10308.38
kJ/mol where GROMACS and a direct sum over all pairs have 10304.82; there direct_forces.py takes over.

OpenMM's reaction field leaves excluded pairs and self terms out, GROMACS and PulseMD have them: a
CustomBondForce adds q_i q_j (k_rf r^2 - c_rf) for every excluded pair, and the self energy -c_rf q_i^2 / 2 is
added here. The Lennard-Jones energy is that of the plain cut-off. Charges are scaled so that the product with
OpenMM's Coulomb constant, 138.93545764438198, is the one with ours, 138.935458 kJ mol^-1 nm e^-2.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import openmm
from boxes import CHARGE, COULOMB, EPSILON, SIGMA, gmx_energies, read_gro
from openmm import unit

CUTOFF, OPENMM_COULOMB = 1.0, 138.93545764438198
CASES = {"rf_infinite": (0.5, 1.5), "rf_78": (77 / 157, 234 / 157), "cutoff_shift": (0.0, 1.0)}
"""k_rf r_c^3 and c_rf r_c: (eps - 1) / (2 eps + 1) and 3 eps / (2 eps + 1), of Tironi et al. (1995)."""
DIELECTRIC = {"rf_infinite": 1e30, "rf_78": 78.0, "cutoff_shift": 1.0}
BOXES = {"water": ("rf_infinite",), "a5625": ("rf_infinite",), "settled": tuple(CASES)}
"""Positions with three decimals have pairs exactly at the cut-off; where the force jumps there, programs differ by
whether such a pair acts, so these cases are recorded for the box with nine decimals only."""


def build(n_atoms: int, box: np.ndarray, case: str) -> openmm.System:
    """The system, with Lennard-Jones, Coulomb and the correction in force groups 0, 1 and 2."""
    k_rf, c_rf = CASES[case]
    scale = np.sqrt(COULOMB / OPENMM_COULOMB)
    system = openmm.System()
    system.setDefaultPeriodicBoxVectors(*(openmm.Vec3(*row) for row in box))
    lj, coulomb = openmm.NonbondedForce(), openmm.NonbondedForce()
    excluded = openmm.CustomBondForce(f"qq*({k_rf / CUTOFF**3!r}*r^2-{c_rf / CUTOFF!r})")
    excluded.addPerBondParameter("qq")
    excluded.setUsesPeriodicBoundaryConditions(True)
    for atom in range(n_atoms):
        oxygen = atom % 3 == 0
        system.addParticle(15.9994 if oxygen else 1.008)
        lj.addParticle(0.0, SIGMA if oxygen else 1.0, EPSILON if oxygen else 0.0)
        coulomb.addParticle(scale * CHARGE * (-2 if oxygen else 1), 1.0, 0.0)
    for first in range(0, n_atoms, 3):
        for i, j, factor in ((0, 1, -2), (0, 2, -2), (1, 2, 1)):
            lj.addException(first + i, first + j, 0.0, 1.0, 0.0)
            coulomb.addException(first + i, first + j, 0.0, 1.0, 0.0)
            excluded.addBond(first + i, first + j, [COULOMB * CHARGE**2 * factor])
    for force in (lj, coulomb):
        force.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
        force.setCutoffDistance(CUTOFF)
        force.setUseDispersionCorrection(False)
        force.setReactionFieldDielectric(DIELECTRIC[case])
    for group, force in enumerate((lj, coulomb, excluded)):
        force.setForceGroup(group)
        system.addForce(force)
    return system


def main(data: Path) -> None:
    gmx = gmx_energies(data)
    for box, cases in BOXES.items():
        positions, vectors = read_gro(data, box)
        for case in cases:
            system = build(len(positions), vectors, case)
            platform = openmm.Platform.getPlatformByName("Reference")
            context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
            context.setPositions(positions)
            forces = context.getState(getForces=True).getForces(asNumpy=True)
            lj, pair, correction = (
                context.getState(getEnergy=True, groups={group}).getPotentialEnergy()
                / unit.kilojoules_per_mole
                for group in range(3)
            )
            self_energy = -0.5 * COULOMB * CASES[case][1] / CUTOFF * CHARGE**2 * 6 * len(positions) / 3
            coulomb = pair + correction + self_energy
            np.savez_compressed(
                data / f"{box}__{case}.npz",
                forces=np.asarray(forces / (unit.kilojoules_per_mole / unit.nanometer), dtype=np.float32),
                lj=lj,
                coulomb=coulomb,
            )
            reference = gmx[box, "lj_plain"]["lj"], gmx[box, case]["coulomb"]
            print(f"{box:<13} {case:<13} lj {lj:.6f} (gmx {reference[0]:.6f})", end="  ")
            print(f"coulomb {coulomb:.6f} (gmx {reference[1]:.6f})", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
