"""integrator = md-vv against GROMACS 2022.5 in double precision, and against what it is made of.

Recorded values are from ``gmx_d energy`` after ``gmx_d mdrun -ntmpi 1 -ntomp 1`` with `SETTINGS`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from step_settings import TEN_STEPS

from pulsemd.base.units import BOLTZMANN
from pulsemd.engine.options import RunOptions
from pulsemd.engine.reporters import Reporter
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import System, prepare_system
from pulsemd.halo import open_transport
from pulsemd.io.gromacs.system import read_system
from pulsemd.systems import system_files

SETTINGS = (
    TEN_STEPS.replace("integrator = md", "integrator = md-vv").replace(
        "continuation = yes", "continuation = no"
    )
    + """
coulombtype = reaction-field
epsilon-rf = 0
comm-mode = none
"""
)
WEAK = """
tcoupl = berendsen
tc-grps = System
tau-t = 0.1
ref-t = 300
nsttcouple = 1
pcoupl = berendsen
tau-p = 0.5
ref-p = 1
compressibility = 4.5e-5
nstpcouple = 2
"""
SINGLE = """
tcoupl = berendsen
tc-grps = System
tau-t = 0.05
ref-t = 300
nsttcouple = 1
annealing = single
annealing-npoints = 3
annealing-time = 0 0.008 0.013
annealing-temp = 300 600 100
"""
PERIODIC = (
    SINGLE.replace("single", "periodic")
    .replace("0.008 0.013", "0.004 0.0075")
    .replace("couple = 1", "couple = 2")
)
CHAINS = """
tcoupl = nose-hoover
tc-grps = System
tau-t = 0.2
ref-t = 350
nsttcouple = 1
"""
SHORT_CHAINS = CHAINS + "nh-chain-length = 3\n"
ALL_BONDS = """
constraints = all-bonds
constraint-algorithm = lincs
lincs-order = 8
lincs-iter = 8
"""
NAMES = ("potential", "kinetic", "conserved", "pressure")
STEPS = (0, 1, 5, 9)
RECORDED = {
    ("water", ""): [
        [-46442.628, 7342.385, -39100.243, -350.113], [-46250.648, 7152.860, -39097.788, -173.495],
        [-46004.194, 6906.591, -39097.603, 135.813], [-46330.842, 7229.340, -39101.502, -85.457],
    ],
    ("peptide", ""): [
        [-76022.697, 0.0, -76022.697, -2232.996], [-76456.881, 420.349, -76036.532, -2395.489],
        [-81244.281, 5150.430, -76093.851, -4359.297], [-82766.936, 6679.558, -76087.378, -5473.851],
    ],
    ("water", SINGLE): [
        [-46442.628, 7342.385, -39100.243, -351.143], [-46250.427, 7158.268, -39097.784, -187.950],
        [-45903.649, 7609.934, -39096.135, 378.374], [-45981.798, 7271.793, -39097.466, 376.667],
    ],
    ("water", PERIODIC): [
        [-46442.628, 7342.385, -39100.243, -352.173], [-46250.207, 7163.677, -39097.780, -170.906],
        [-45860.903, 7490.635, -39095.488, 420.384], [-45880.124, 8076.405, -39096.160, 623.782],
    ],
    ("water", CHAINS): [
        [-46442.628, 7342.385, -39100.243, -350.324], [-46250.603, 7157.490, -39097.787, -173.651],
        [-45992.048, 7019.531, -39097.427, 168.040], [-46254.147, 7477.419, -39100.462, 49.278],
    ],
    ("peptide", SHORT_CHAINS): [
        [-76022.697, 0.0, -76022.697, -2232.996], [-76456.881, 421.580, -76036.529, -2395.975],
        [-81259.705, 5294.324, -76093.319, -4373.048], [-82681.684, 7056.159, -76084.350, -5450.296],
    ],
    ("peptide", ALL_BONDS): [
        [-76097.195, 0.0, -76097.195, -2532.106], [-76495.211, 387.586, -76107.626, -2792.169],
        [-81246.896, 5081.744, -76165.152, -4697.228], [-82864.422, 6702.684, -76161.738, -5553.883],
    ],
    ("water", WEAK): [
        [-46442.628, 7342.385, -39100.243, -350.628], [-46244.550, 7155.550, -39091.113, -78.588],
        [-46001.041, 6941.825, -39100.469, 121.892], [-46306.741, 7279.972, -39101.438, -49.703],
    ],
}  # fmt: skip
"""kJ/mol and bar. Of the water with weak coupling, gmx has other pressures where it does not scale the box; with all
bonds constrained it had lincs-order = 40, as it solves those of velocities without corrections."""
SCALING = ("water", WEAK)


def start(folder, name, settings="") -> System:
    """A bundled system with `SETTINGS` and these."""
    lines = (line for line in (SETTINGS + settings).splitlines() if line)
    (folder / "run.mdp").write_text(
        "\n".join({line.split()[0]: line for line in lines}.values())
    )  # later ones win
    files = system_files(name)
    topology, table, frame, found = read_system(files.configuration, files.topology, folder / "run.mdp")
    return prepare_system(topology, table, found, frame.positions, frame.velocities, frame.box)


def run(system, steps=10, every=1):
    """Records, frames as reported, the last of them as steps have it, and the hash."""
    records, frames = [], []
    reporter = Reporter(every, lambda step, time, record: records.append(record), frames.append)
    with open_transport("loopback") as transport:
        simulation = Simulation(transport, system, RunOptions(precision="reproducible"), [reporter])
        simulation.run(steps)
        simulation.finish()
        return records, frames, simulation.gather(), simulation.trajectory_hash()


@pytest.mark.parametrize(
    "case",
    RECORDED,
    ids=("water", "peptide", "annealed", "annealed again", "chains", "short chains", "all bonds", "coupled"),
)
def test_energies_and_pressure_of_ten_steps_follow_gmx(tmp_path, case):
    records, frames, *_ = run(start(tmp_path, *case))
    found = np.array([[records[step][name] for name in NAMES] for step in STEPS])
    expected = np.array(RECORDED[case])
    np.testing.assert_allclose(found[:, [0, 2]], expected[:, [0, 2]], atol=0.02)
    np.testing.assert_allclose(found[:, 1], expected[:, 1], atol=2e-3)
    rows = [0] if case == SCALING else slice(None)
    np.testing.assert_allclose(found[rows, 3], expected[rows, 3], atol=0.05)
    mass = start(tmp_path, *case).topology.mass
    own = [0.5 * float(mass @ (frames[step].v.astype(float) ** 2).sum(1)) for step in STEPS]
    if "nose-hoover" not in case[1]:  # frames are from before chains act, energies from between their halves
        np.testing.assert_allclose(own, expected[:, 1], atol=5e-3)


def test_steps_are_those_of_leap_frog_from_half_a_step_before(tmp_path):
    system = start(tmp_path, "peptide")
    with open_transport("loopback") as transport:
        simulation = Simulation(transport, system, RunOptions(precision="reproducible"))
        simulation.go_to_half_step()
        earlier = simulation.gather()
    settings = replace(system.settings, integrator="md")
    *_, expected = run(replace(system, settings=settings, v=earlier.v), every=0)
    *_, found = run(system, every=3)
    assert found == expected


def test_reversed_velocities_lead_back_to_the_start(tmp_path):
    system = start(tmp_path, "water", "gen-vel = yes\ngen-temp = 300\n")
    there = run(system, 20, 20)[1][-1]
    back = run(replace(system, x=there.x, v=-there.v), 20, 20)[1][-1]
    away = (there.x - system.x) / 2.0**32 @ system.box
    left = (back.x - system.x) / 2.0**32 @ system.box
    assert np.abs(left).max() < 1e-4 * np.abs(away).max()
    np.testing.assert_allclose(-back.v, system.v, atol=1e-3)


def test_constraints_keep_velocities_along_them_at_full_steps(tmp_path):
    system = start(tmp_path, "peptide", "gen-vel = yes\ngen-temp = 300\n")
    frame = run(system, 7, 7)[1][-1]
    pairs = system.topology.settle_atoms[:, :2]
    pairs = np.concatenate([pairs, system.topology.terms["constraint"].atoms])
    bonds = (frame.x[pairs[:, 0]] - frame.x[pairs[:, 1]]) / 2.0**32 @ system.box
    rates = (bonds * (frame.v[pairs[:, 0]] - frame.v[pairs[:, 1]]).astype(float)).sum(1)
    assert np.abs(rates).max() < 2e-6


def test_energy_is_conserved_over_a_picosecond(tmp_path):
    system = start(tmp_path, "water", "gen-vel = yes\ngen-temp = 300\n")
    records, *_ = run(system, 500, 25)
    total = np.array([record["total"] for record in records])
    kinetic = np.array([record["kinetic"] for record in records])
    assert total.std() < 0.05 * kinetic[2:].std()
    assert kinetic[-1] == pytest.approx(0.5 * (6 * 1000 - 3) * BOLTZMANN * 300, rel=0.15)
