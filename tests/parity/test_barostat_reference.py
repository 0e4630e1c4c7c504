"""The box after some steps with a barostat against GROMACS 2022.5 in double precision, and energies of Nose and Hoover.

Each reference is the box of the last frame of ``gmx_d grompp -maxwarn 9; gmx_d mdrun -ntmpi 1 -ntomp 1`` of a bundled
system (``conf.gro``, ``topol.top``) with `SETTINGS` and the case's, as the full-precision file t.trr has it. C-rescale
is compared without its noise: the temperature is 0, with a thermostat that does nothing.
"""

from __future__ import annotations

import numpy as np
import pytest
from step_settings import TEN_STEPS

from pulsemd.engine.options import RunOptions
from pulsemd.engine.reporters import Reporter
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import prepare_system
from pulsemd.halo import open_transport
from pulsemd.io.gromacs.system import read_system
from pulsemd.systems import system_files

STEPS = 10
SETTINGS = (
    TEN_STEPS
    + """
comm-mode = none
nstxout = 1
nstpcouple = 1
tau-p = 2
"""
)
REACTION_FIELD = "coulombtype = reaction-field\nepsilon-rf = 0\n"
PME = "coulombtype = pme\nfourier-nx = 40\nfourier-ny = 40\nfourier-nz = 40\npme-order = 5\n"
ONE_BAR = "compressibility = 4.5e-5\nref-p = 1\n"
BERENDSEN = "pcoupl = berendsen\n" + ONE_BAR
STILL = (
    "tcoupl = berendsen\ntc-grps = System\ntau-t = 1000000\nref-t = 0\nnsttcouple = 1\npcoupl = c-rescale\n"
)
LAYERS = "pcoupltype = semiisotropic\ncompressibility = 4.5e-5 3e-5\nref-p = 1 100\n"
SIX = "pcoupltype = anisotropic\ncompressibility = 4.5e-5 3e-5 2e-5 0 0 0\nref-p = 1 -100 200 0 0 0\n"
MOVING = "pcoupl = parrinello-rahman\n"
HOOVER = (
    "tcoupl = nose-hoover\ntc-grps = System\ntau-t = 0.5\nref-t = 300\nnsttcouple = 1\nnh-chain-length = 1\n"
)
ISOTROPIC, SEMIISOTROPIC = STILL + ONE_BAR, STILL + LAYERS

CASES = {
    "isotropic berendsen, reaction field": (
        "water-ethanol",
        REACTION_FIELD + BERENDSEN,
        [[3.2773635, 0, 0], [0, 3.2773635, 0], [0, 0, 3.2773635]],
    ),
    "isotropic c-rescale, dodecahedron, PME": (
        "peptide",
        PME + ISOTROPIC,
        [[4.38096634, 0, 0], [0, 4.38096634, 0], [2.19048817, 2.19048817, 3.0978155]],
    ),
    "semiisotropic c-rescale, dodecahedron, reaction field": (
        "peptide",
        REACTION_FIELD + SEMIISOTROPIC,
        [[4.38096932, 0, 0], [0, 4.38096932, 0], [2.19048966, 2.19048966, 3.09825598]],
    ),
    "semiisotropic c-rescale, PME": (
        "water-ethanol",
        PME + SEMIISOTROPIC,
        [[3.2774085, 0, 0], [0, 3.2774085, 0], [0, 0, 3.27778384]],
    ),
    "isotropic parrinello-rahman, reaction field": (
        "water-ethanol",
        REACTION_FIELD + MOVING + ONE_BAR,
        [[3.27855243, 0, 0], [0, 3.27855243, 0], [0, 0, 3.27855243]],
    ),
    "semiisotropic parrinello-rahman and nose-hoover, reaction field": (
        "water-ethanol",
        REACTION_FIELD + HOOVER + MOVING + LAYERS,
        [[3.27854526, 0, 0], [0, 3.27854526, 0], [0, 0, 3.27861498]],
    ),
    "anisotropic berendsen, PME": (
        "water-ethanol",
        PME + "pcoupl = berendsen\n" + SIX,
        [[3.27756941, 0, 0], [0, 3.27777104, 0], [0, 0, 3.27807837]],
    ),
    "anisotropic berendsen, dodecahedron, reaction field": (
        "peptide",
        REACTION_FIELD + "pcoupl = berendsen\n" + SIX,
        [[4.38072331, 0, 0], [0, 4.38200441, 0], [2.19036665, 2.1910072, 3.09867956]],
    ),
    "anisotropic parrinello-rahman and nose-hoover, reaction field": (
        "water-ethanol",
        REACTION_FIELD + HOOVER + MOVING + SIX,
        [[3.27858932, 0, 0], [0, 3.27858662, 0], [0, 0, 3.27865275]],
    ),
}
"""Bundled system, settings, and the box in nm."""


ENERGIES = {
    "semiisotropic parrinello-rahman and nose-hoover, reaction field": (
        (6.033340, 120.028330, 136.319418), (-40840.995392, -40964.539831, -40936.933467),
    ),
    "anisotropic parrinello-rahman and nose-hoover, reaction field": (
        (6.033340, 120.027784, 136.315509), (-40841.702931, -40965.371382, -40938.109927),
    ),
}  # fmt: skip
"""Temperature, K, and conserved energy, kJ/mol, of steps 0, 5 and 10."""


def start(folder, name, settings):
    """A bundled system with these settings, and its files' configuration."""
    (folder / "run.mdp").write_text(SETTINGS + settings)
    files = system_files(name)
    topology, table, frame, found = read_system(files.configuration, files.topology, folder / "run.mdp")
    found = found.with_drawn_seeds(1)
    return prepare_system(topology, table, found, frame.positions, frame.velocities, frame.box), frame


@pytest.mark.parametrize("case", CASES)
def test_box_with_a_barostat_follows_gmx(tmp_path, case):
    name, settings, expected = CASES[case]
    system, frame = start(tmp_path, name, settings)
    with open_transport("loopback") as transport:
        simulation = Simulation(transport, system, RunOptions(precision="reproducible"))
        simulation.run(STEPS)
        box = simulation.gather().cell.user_box
    change = np.abs(np.array(expected) - frame.box).max()
    assert change > 1e-5
    np.testing.assert_allclose(box, expected, rtol=0, atol=1e-4 * change)


@pytest.mark.parametrize("case", ENERGIES)
def test_kinetic_and_conserved_energy_with_nose_and_hoover_follow_gmx(tmp_path, case):
    """As ``gmx_d energy`` has them."""
    (name, settings, _), (temperatures, conserved) = CASES[case], ENERGIES[case]
    records = []
    with open_transport("loopback") as transport:
        simulation = Simulation(
            transport, start(tmp_path, name, settings)[0], RunOptions(precision="reproducible"),
            [Reporter(5, energies=lambda step, time, record: records.append(record))],
        )  # fmt: skip
        simulation.run(STEPS + 1)
    found = np.array([[record["temperature"], record["conserved"]] for record in records])
    np.testing.assert_allclose(found[:, 0], temperatures, atol=1e-3)
    np.testing.assert_allclose(np.diff(found[:, 1]), np.diff(conserved), atol=0.05)
