"""Position restraints whose references follow the box against GROMACS 2022.5 in double precision.

Each case was run in a folder that `write_case` filled, with ``gmx_d grompp -f run.mdp -c conf.gro -r ref.gro -p
topol.top -maxwarn 9; gmx_d mdrun -ntmpi 1 -ntomp 1``. Energies and pressure are those of step 0 (``gmx_d energy``),
forces of that step on three restrained atoms and the box of step 50 those of the full-precision file traj.trr.
"""

from __future__ import annotations

import numpy as np
import pytest
from step_settings import TEN_STEPS

from engine_points import assert_same_bits, evaluate
from pulsemd.engine.options import RunOptions
from pulsemd.engine.reporters import Reporter
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import prepare_system
from pulsemd.forcefield.settings import RunSettings
from pulsemd.halo import open_transport
from pulsemd.io.gromacs.gro import read_gro
from pulsemd.io.gromacs.gro_writer import write_gro
from pulsemd.io.gromacs.system import read_system, read_top
from pulsemd.systems import system_files
from pulsemd.topology.restraints import restraint_centre

STEPS = 50
SETTINGS = (
    TEN_STEPS.replace("nsteps = 10", f"nsteps = {STEPS}")
    + """
define = -DPOSRES
comm-mode = none
nstxout = 50
nstfout = 50
coulombtype = reaction-field
epsilon-rf = 0
tau-p = 1
compressibility = 4.5e-5
ref-p = 1
"""
)
BERENDSEN = "pcoupl = berendsen\nnstpcouple = 5\n"
STILL = (
    "tcoupl = berendsen\ntc-grps = System\ntau-t = 1000000\nref-t = 0\nnsttcouple = 1\n"
    "pcoupl = c-rescale\nnstpcouple = 5\n"
)
MOVING = "pcoupl = parrinello-rahman\nnstpcouple = 1\n"
COM = "refcoord-scaling = com\n"
ALL = "refcoord-scaling = all\n"
RESTRAINTS = {
    "peptide": "[ position_restraints ]\n1 2 1 0.02 500\n\n",
    "water-ethanol": "[ position_restraints ]\n1 1 1000 500 200\n5 1 100 100 100\n5 2 8 0.01 300\n8 2 1 0.02 500\n\n",
}
"""Added to the last molecule type but one: water, whose restraints stand beside those of POSRES, and ethanol."""


CASES = {
    "peptide, dodecahedron, berendsen": (
        "peptide", BERENDSEN + COM, (187.737937, 558.625854, -75288.990682, 1229.973487),
        [[4.377511576, 0, 0], [0, 4.377511576, 0], [2.188760781, 2.188760781, 3.09537261]],
    ),
    "peptide, dodecahedron, c-rescale": (
        "peptide", STILL + COM, (187.737937, 558.625854, -75288.990682, 1229.973487),
        [[4.37753298, 0, 0], [0, 4.37753298, 0], [2.188771483, 2.188771483, 3.095387745]],
    ),
    "many molecules, parrinello-rahman": (
        "water-ethanol", MOVING + COM, (6.051024, 0.707900, -41081.879093, -834.307133),
        [[3.249902092, 0, 0], [0, 3.249902092, 0], [0, 0, 3.249902092]],
    ),
    "com without a barostat": (
        "peptide", COM, (187.737937, 558.625854, -75288.990682, 1229.973487), None,
    ),
    "all without a barostat": (
        "peptide", ALL, (187.465812, 545.111637, -75302.777024, -2411.563106), None,
    ),
    "no without a barostat": (  # gmx has a pressure of 17569.881203: with the moment about the origin
        "peptide", "", (194.777000, 578.991202, -75261.586271, None), None,
    ),
}  # fmt: skip
"""Bundled system, settings, energies of restraints and of flat bottoms and potential energy, kJ/mol, pressure, bar, and
the box in nm."""

FORCES = {
    "peptide": (
        (0, 4, 3000),
        [[-1076.9588, 268.0701, 289.7778], [-30.7075, -129.0644, 977.8691], [-352.5919, 24.7794, 118.9235]],
    ),
    "water-ethanol": (
        (0, 4, 7),
        [[-52.3786, -202.7961, 876.5695], [-231.6878, 63.2298, 1365.4412], [275.761, 83.5375, -983.3797]],
    ),
}
"""Atoms, and the forces on them with com, kJ/mol/nm."""

CENTRES = {
    "peptide": (5.74727e-01, 5.05593e-01, 4.29353e-01),
    "water-ethanol": (1.87962e-01, 4.38236e-01, 1.04668e-01),
}
"""posres-com of ``gmx_d dump -s``, box vectors of ref.gro."""


def write_case(folder, name, settings):
    """topol.top, ref.gro, in a larger box and with distances that differ from it, and run.mdp."""
    files = system_files(name)
    before, last = files.topology.read_text().rsplit("[ moleculetype ]", 1)
    (folder / "topol.top").write_text(before + RESTRAINTS[name] + "[ moleculetype ]" + last)
    frame, (topology, _) = read_gro(files.configuration), read_top(folder / "topol.top")
    write_gro(folder / "ref.gro", topology, 1.01 * frame.positions, None, 1.02 * frame.box, "references")
    (folder / "run.mdp").write_text(SETTINGS + settings)
    return files.configuration


def start(folder, name, settings):
    """The system of a case, and the box of its files."""
    conf = write_case(folder, name, settings)
    topology, table, frame, found = read_system(
        conf, folder / "topol.top", folder / "run.mdp", reference=folder / "ref.gro"
    )
    given = (frame.positions, frame.velocities, frame.box, frame.reference)
    return prepare_system(topology, table, found.with_drawn_seeds(1), *given), frame.box


@pytest.mark.parametrize("name", CENTRES)
def test_centre_of_reference_positions_is_that_of_gmx(tmp_path, name):
    write_case(tmp_path, name, COM)
    topology, frame = (
        read_top(tmp_path / "topol.top", RunSettings(define=("POSRES",)))[0],
        read_gro(tmp_path / "ref.gro"),
    )
    centre = restraint_centre(topology, frame.positions) @ np.linalg.inv(frame.box)
    np.testing.assert_allclose(centre, CENTRES[name], rtol=0, atol=6e-7)


@pytest.mark.parametrize("case", CASES)
def test_energies_pressure_and_box_of_restrained_atoms_follow_gmx(tmp_path, case):
    name, settings, expected, box = CASES[case]
    system, first = start(tmp_path, name, settings)
    records = []
    with open_transport("loopback") as transport:
        reporter = Reporter(STEPS, energies=lambda step, time, record: records.append(record))
        simulation = Simulation(transport, system, RunOptions(precision="reproducible"), [reporter])
        simulation.run(1 if box is None else STEPS)
        found = simulation.gather().cell.user_box
    names = ("position_restraint", "flat_bottom", "potential")
    np.testing.assert_allclose([records[0][n] for n in names], expected[:3], rtol=2.5e-7, atol=1e-5)
    if expected[3] is not None:
        assert records[0]["pressure"] == pytest.approx(expected[3], abs=0.02)
    if box is not None:
        np.testing.assert_allclose(found, box, rtol=0, atol=1e-5 * np.abs(np.array(box) - first).max())


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
@pytest.mark.parametrize("name", FORCES)
def test_forces_on_restrained_atoms_are_those_of_gmx_on_any_number_of_ranks(tmp_path, name, precision):
    system, _ = start(tmp_path, name, COM)
    atoms, expected = FORCES[name]
    alone = evaluate(system, precision=precision)
    np.testing.assert_allclose(alone[1][list(atoms)], expected, rtol=1e-5, atol=2e-3)
    for ranks in (2, 5) if precision == "reproducible" else ():
        assert_same_bits(evaluate(system, ranks, precision), alone)
