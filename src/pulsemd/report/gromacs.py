"""Single-point energies of GROMACS, for comparison with ours."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pulsemd.base.errors import PulseMDError
from pulsemd.forcefield.settings import RunSettings
from pulsemd.io.gromacs.mdp_writer import to_mdp

PROGRAMS = ("gmx_d", "gmx")
"""Looked for in this order: double precision first."""

TERMS = {
    "Bond": "bond", "Angle": "angle", "U-B": "urey_bradley", "Proper Dih.": "proper",
    "Ryckaert-Bell.": "ryckaert_bellemans", "Improper Dih.": "improper", "Improper (harm.)": "improper",
    "Per. Imp. Dih.": "improper", "Improper Dih. (per.)": "improper", "CMAP Dih.": "cmap", "LJ-14": "lj14",
    "Coulomb-14": "coulomb14", "LJ (SR)": "lj", "Coulomb (SR)": "coulomb",
    "Coul. recip.": "coulomb_recip", "Position Rest.": "position_restraint",
    "G96Bond": "quartic_bond", "Morse": "morse_bond", "Cubic Bonds": "cubic_bond", "FENE Bonds": "fene_bond",
    "Harmonic Pot.": "harmonic_distance", "Restraint Pot.": "restraint_bond", "G96Angle": "cosine_angle",
    "Bond-Cross": "bond_bond_cross", "BA-Cross": "bond_angle_cross", "Quartic Angles": "quartic_angle",
    "Lin. Angle": "linear_angle", "Restr. Angles": "restricted_angle", "Restricted Angles": "restricted_angle",
    "Fourier Dih.": "fourier", "Restr. Dih.": "restricted_dihedral", "Restricted Dih.": "restricted_dihedral",
    "CBT Dih.": "bending_torsion", "Flat-b. P-R.": "flat_bottom", "Flat-bottom posres": "flat_bottom",
    "Dis. Rest.": "distance_restraint", "Angle Rest.": "angle_restraint", "Angle Rest. Z": "angle_restraint_z",
    "Dih. Rest.": "dihedral_restraint", "Disper. corr.": "dispersion_correction", "Potential": "potential",
}  # fmt: skip
"""gmx's name of each energy and ours; names differ between versions."""

NO_ENERGIES = ("D.R.Viol. (nm)",)
"""What gmx lists among the energies but does not add to the potential."""


class ComparisonError(PulseMDError):
    """GROMACS is absent, refuses the files, or computes an energy that has no counterpart here."""

    exit_code = 4


@dataclass(frozen=True)
class GromacsEnergies:
    """Energies [kJ/mol] under our names, and the program and version they come from."""

    program: str
    energies: dict[str, float]


def find_gmx() -> str:
    """Path of gmx_d, else of gmx.

    Raises
    ------
    ComparisonError
        If neither is on the PATH.
    """
    for name in PROGRAMS:
        if (path := shutil.which(name)) is not None:
            return path
    raise ComparisonError(
        f"compare gmx: neither {' nor '.join(PROGRAMS)} is on the PATH; install GROMACS or source its GMXRC"
    )


def gromacs_energies(
    conf: Path,
    top: Path,
    settings: RunSettings,
    include: Sequence[Path] = (),
    reference: Path | None = None,
    index: Path | None = None,
) -> GromacsEnergies:
    """Energies of the start configuration by ``gmx grompp`` and ``gmx mdrun`` in a temporary directory.

    Parameters
    ----------
    conf, top : path of the .gro and the .top
    settings : RunSettings
        Everything but the number of steps and the output intervals is passed on.
    include : folders of included files
    reference : path of the .gro of position restraints
    index : path of the .ndx

    Raises
    ------
    ComparisonError
    """
    program = find_gmx()
    with TemporaryDirectory(prefix="pulsemd-compare-") as name:
        folder = Path(name)
        (folder / "point.mdp").write_text(_single_point(settings, include), encoding="utf-8")
        words = ["grompp", "-f", "point.mdp", "-c", str(conf.resolve()), "-p", str(top.resolve())]
        words += ["-o", "point.tpr", "-maxwarn", "1000"]
        words += [] if reference is None else ["-r", str(reference.resolve())]
        words += [] if index is None else ["-n", str(index.resolve())]
        _call(folder, program, *words)
        _call(folder, program, "mdrun", "-s", "point.tpr", "-deffnm", "point", "-ntmpi", "1", "-ntomp", "1")
        every = "\n".join(str(i) for i in range(1, 81)) + "\n\n"
        told = _call(folder, program, "energy", "-f", "point.edr", "-o", "point.xvg", "-dp", answer=every)
        version = re.search(r"GROMACS.*, (?:VERSION )?(\d[\d.]*)", told)
        energies = _read_xvg((folder / "point.xvg").read_text(encoding="utf-8"))
    label = "" if version is None else f" {version[1]}"
    return GromacsEnergies(f"{Path(program).name}{label}", energies)


def _single_point(settings: RunSettings, include: Sequence[Path]) -> str:
    folders = (
        *(str(Path(folder).resolve()) for folder in settings.include),
        *(str(f.resolve()) for f in include),
    )
    point = replace(
        settings, nsteps=0, include=folders, nstenergy=1, nstcalcenergy=1, nstlog=1, nstxout=0, nstvout=0, nstfout=0,
        nstxout_compressed=0, integrator="md", lincs_order=8, lincs_iter=8, shake_tol=1e-8,
    )  # fmt: skip
    return to_mdp(point)


def _call(folder: Path, *command: str, answer: str = "") -> str:
    """Run one command of GROMACS; its standard error, where it says what it does.

    Raises
    ------
    ComparisonError
        With gmx's own error.
    """
    environment = os.environ | {"GMX_MAXBACKUP": "-1"}
    done = subprocess.run(
        command, cwd=folder, input=answer, capture_output=True, text=True, errors="replace", env=environment
    )
    if done.returncode:
        told = re.search(r"(?:Fatal error|Error[^\n]*):\n(.*?)\n\n", done.stderr + "\n\n", re.DOTALL)
        reason = done.stderr[-500:] if told is None else told[1]
        raise ComparisonError(f"{Path(command[0]).name} {command[1]} failed: {' '.join(reason.split())}")
    return done.stderr


def _read_xvg(text: str) -> dict[str, float]:
    """Energies by our names from the legends and the first row of an .xvg file.

    Raises
    ------
    ComparisonError
        If gmx computed a part of the potential that has no name here.
    """
    names = re.findall(r'@ s\d+ legend "([^"]*)"', text)
    row = next(line for line in text.splitlines() if line and line[0] not in "#@")
    values = dict(zip(names, map(float, row.split()[1:]), strict=True))
    parts = names[: names.index("Potential") + 1]
    unknown = [name for name in parts if name not in (*TERMS, *NO_ENERGIES) and values[name] != 0.0]
    if unknown:
        raise ComparisonError(f"gmx computes '{unknown[0]}', which has no counterpart here")
    energies: dict[str, float] = {}
    for name in parts:
        if name in TERMS:
            energies[TERMS[name]] = energies.get(TERMS[name], 0.0) + values[name]
    return energies
