"""Record energies of double-precision GROMACS, and forces of OpenMM's Reference platform or GROMACS, of molecules.

usage: molecule_references.py DATA_DIRECTORY/molecules [NAME ...]    (others keep what was recorded)

Needs gmx_d 2022.5 (Debian 12, package gromacs) and OpenMM 8.6.1. Writes ``energies.csv`` and ``NAME.npz``
(``atoms``, ``forces`` float32 [kJ/mol/nm], ``program``) for the systems of ``molecules.py``. The commands are those of
``pulsemd compare gmx``: grompp, mdrun of no step, energy. Forces of GROMACS are those of the .trr of that run,
constraint forces not included. Forces of OpenMM are kept for rectangular boxes, but for those made by
``make_topologies.py``; the difference between the two is
printed. OpenMM's own reader of .top files makes its system; to its reaction field, which leaves excluded pairs out, a
CustomBondForce adds q_i q_j (k_rf r^2 - c_rf) for every one of them. Of large systems every eighth atom of the solvent
is kept.
"""

from __future__ import annotations

import csv
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from commands import call

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from molecules import FORCE_FIELDS, MOLECULES, molecule_files, recorded_energies
from pulsemd.io.gromacs import read_gro, read_settings
from pulsemd.report.gromacs import gromacs_energies

CUTOFF, COULOMB = 1.0, 138.935458


def gromacs_forces(folder: Path) -> np.ndarray:
    """Forces (n, 3) float64 [kJ/mol/nm] of the files in `folder`."""
    (folder / "forces.mdp").write_text((folder / "run.mdp").read_text() + "nstfout = 1\n")
    words = ["-r", "ref.gro"] if (folder / "ref.gro").exists() else []
    call(folder, "gmx_d", "grompp", "-f", "forces.mdp", "-c", "conf.gro", "-p", "topol.top", "-o", "f.tpr",
         "-maxwarn", "5", *words)  # fmt: skip
    call(folder, "gmx_d", "mdrun", "-s", "f.tpr", "-o", "f.trr", "-ntmpi", "1", "-ntomp", "1")
    return read_trr_forces(folder / "f.trr")


def read_trr_forces(path: Path) -> np.ndarray:
    """Forces (n, 3) float64 [kJ/mol/nm] of the first frame of a .trr in double precision."""
    raw = path.read_bytes()
    start = 12 + (struct.unpack_from(">i", raw, 8)[0] + 3) // 4 * 4
    sizes = struct.unpack_from(">10i", raw, start)
    begin = start + 4 * 13 + 16 + sum(sizes[:9])  # header: 13 int, then time and lambda as double
    forces: np.ndarray = np.frombuffer(raw, ">f8", sizes[9] // 8, begin)
    return forces.reshape(-1, 3)


def state_of_motion(folder: Path) -> list[tuple[str, str]]:
    """Kinetic energy [kJ/mol] and pressure [bar] of the same run: of leap-frog, constraint forces included."""
    asked = "Kinetic-En.\nPressure\n\n"
    words = ["gmx_d", "energy", "-f", "ener.edr", "-o", "state.xvg", "-xvg", "none", "-dp"]
    subprocess.run(words, cwd=folder, input=asked, text=True, check=True, capture_output=True)
    _, kinetic, pressure = (folder / "state.xvg").read_text().split()
    return [("kinetic", kinetic), ("pressure", pressure)]


def openmm_forces(folder: Path) -> np.ndarray:
    """The same of OpenMM's Reference platform."""
    import openmm
    from openmm import app

    positions = read_gro(folder / "conf.gro")
    vectors = [openmm.Vec3(*row) for row in positions.box]
    top = app.GromacsTopFile(str(folder / "topol.top"), periodicBoxVectors=vectors)
    system = top.createSystem(
        nonbondedMethod=app.CutoffPeriodic, nonbondedCutoff=CUTOFF, constraints=app.HBonds
    )
    pairs = openmm.CustomBondForce(f"{COULOMB}*qq*step({CUTOFF}-r)*(0.5/{CUTOFF}^3*r^2-1.5/{CUTOFF})")
    pairs.addPerBondParameter("qq")
    pairs.setUsesPeriodicBoundaryConditions(True)
    for force in system.getForces():
        if hasattr(force, "setUsesPeriodicBoundaryConditions"):
            force.setUsesPeriodicBoundaryConditions(True)  # molecules may lie across a face
        if isinstance(force, openmm.NonbondedForce):
            force.setExceptionsUsePeriodicBoundaryConditions(True)
            force.setReactionFieldDielectric(1e30)
            force.setUseDispersionCorrection(False)
            charge = [force.getParticleParameters(i)[0]._value for i in range(force.getNumParticles())]
            for k in range(force.getNumExceptions()):
                i, j, *_ = force.getExceptionParameters(k)
                pairs.addBond(i, j, [charge[i] * charge[j]])
        if isinstance(force, openmm.CustomNonbondedForce):
            force.setUseLongRangeCorrection(False)
    system.addForce(pairs)
    context = openmm.Context(
        system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference")
    )
    context.setPositions(positions.positions)
    forces: np.ndarray = context.getState(getForces=True).getForces(asNumpy=True)._value
    return forces


def main(data: Path, names: list[str]) -> None:
    kept = [name for name in MOLECULES if names and name not in names]
    rows = [(name, *row) for name in kept for row in recorded_energies(name).items()]
    for name in names or MOLECULES:
        with tempfile.TemporaryDirectory() as folder_name:
            folder = Path(folder_name)
            files = molecule_files(name, folder)
            settings, _ = read_settings(files.parameters)
            reference = folder / "ref.gro"
            found = gromacs_energies(
                files.configuration, files.topology, settings, (), reference if reference.exists() else None
            )
            rows += [(name, energy, value) for energy, value in found.energies.items()]
            forces, program = gromacs_forces(folder), found.program
            if name == "constrained":
                rows += [(name, *row) for row in state_of_motion(folder)]
            box = read_gro(files.configuration).box
            if name not in FORCE_FIELDS and not np.count_nonzero(box - np.diag(np.diag(box))):
                openmm = openmm_forces(folder)
                off = np.linalg.norm(openmm - forces) / np.linalg.norm(forces)
                print(f"{name}: forces of OpenMM and GROMACS differ by {off:.1e} relative", flush=True)
                forces, program = openmm, "OpenMM 8.6.1 Reference"
            atoms = np.arange(len(forces))
            if len(atoms) > 10_000:
                solute = 8 * 304 if name == "peptides" else 2489
                atoms = np.concatenate([atoms[:solute], atoms[solute::8]])
            if name == "restrained":
                atoms = atoms[:304]
            np.savez_compressed(
                data / f"{name}.npz", atoms=atoms.astype(np.int32), forces=forces[atoms].astype("f4"),
                program=program,
            )  # fmt: skip
            print(name, len(forces), program, found.energies["potential"], flush=True)
    with open(data / "energies.csv", "w", newline="") as handle:
        handle.write(
            "# GROMACS 2022.5, Debian 12, double precision; kJ/mol; made by molecule_references.py with\n"
        )
        handle.write(
            "# gmx_d grompp -f run.mdp -c conf.gro -p topol.top -o point.tpr; gmx_d mdrun -s point.tpr -ntmpi 1\n"
        )
        handle.write("# -ntomp 1; gmx_d energy -f point.edr -dp (files as molecules.py writes them)\n")
        table = csv.writer(handle, lineterminator="\n")
        table.writerow(["system", "energy", "gmx_d"])
        rows.sort(key=lambda row: MOLECULES.index(row[0]))
        table.writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
