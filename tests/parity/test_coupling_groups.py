"""Coupling groups with baths of their own against GROMACS 2022.5 in double precision.

Degrees of freedom are those that ``gmx_d dump`` shows of a run input of the bundled peptide; temperatures are from
``gmx_d energy``, kinetic energies from the velocities of the last frame of ``gmx_d mdrun -ntmpi 1 -ntomp 1`` with
`SETTINGS`.
"""

from __future__ import annotations

import numpy as np
import pytest
from step_settings import TEN_STEPS

from pulsemd.engine.coupling_groups import with_coupling_groups
from pulsemd.engine.options import RunOptions
from pulsemd.engine.reporters import Reporter
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import prepare_system
from pulsemd.halo import open_transport
from pulsemd.io.gromacs.groups import Groups
from pulsemd.io.gromacs.system import read_system
from pulsemd.systems import system_files

SETTINGS = (
    TEN_STEPS
    + """
coulombtype = reaction-field
epsilon-rf = 0
nsttcouple = 1
nh-chain-length = 1
"""
)
UNLIKE = "ref-t = 300 350\n"
PROTEIN = "tc-grps = Protein non-Protein\ncomm-mode = none\n"
HOOVER = PROTEIN + UNLIKE + "tcoupl = nose-hoover\ntau-t = 0.5 0.2\n"
WEAK = PROTEIN + UNLIKE + "tcoupl = berendsen\ntau-t = 0.1 -1\n"
THIRDS = UNLIKE + "tc-grps = Third Rest\ntcoupl = nose-hoover\ntau-t = 0.5 0.2\n"

ALIKE = PROTEIN + "tcoupl = nose-hoover\ntau-t = 0.2 0.2\nref-t = 300 300\n"

TEMPERATURES = [
    [24.430114, 4.485795], [94.653121, 16.939503], [130.617715, 126.024539], [149.240436, 169.076697],
]  # fmt: skip
"""Of Protein and non-Protein at steps 0, 1, 5 and 9, K, with `HOOVER`."""

TEMPERATURES_ALIKE = [
    [24.509513, 4.485795], [95.512223, 16.939186], [137.650617, 125.848712], [168.201416, 167.592569],
]  # fmt: skip
"""The same with `ALIKE`."""


def start(folder, settings):
    """The bundled peptide with these settings; every third atom is in the group Third."""
    (folder / "run.mdp").write_text(SETTINGS + settings)
    files = system_files("peptide")
    topology, table, frame, found = read_system(files.configuration, files.topology, folder / "run.mdp")
    atoms = np.arange(1, topology.n_atoms + 1)
    third = atoms % 3 == 0
    parts = (("Third", atoms[third]), ("Rest", atoms[~third]))
    text = "".join(f"[ {name} ]\n{' '.join(map(str, gids))}\n" for name, gids in parts)
    (folder / "index.ndx").write_text(text)
    system = prepare_system(topology, table, found, frame.positions, frame.velocities, frame.box)
    return with_coupling_groups(system, Groups(topology, folder / "index.ndx"))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [(HOOVER.replace("none", "linear"), [761.807, 11076.2]), (HOOVER, [762, 11079]), (THIRDS, [3943, 7895])],
)
def test_degrees_of_freedom_of_groups_are_those_of_gmx(tmp_path, settings, expected):
    """Constraints within groups, and between them: every third atom is of another group."""
    assert start(tmp_path, settings).group_n_dof == pytest.approx(expected, rel=5e-6)


@pytest.mark.parametrize(("settings", "expected"), [(HOOVER, TEMPERATURES), (ALIKE, TEMPERATURES_ALIKE)])
def test_temperatures_of_groups_with_nose_and_hoover_follow_gmx(tmp_path, settings, expected):
    records = []
    with open_transport("loopback") as transport:
        reporter = Reporter(1, energies=lambda step, time, record: records.append(record))
        system = start(tmp_path, settings)
        Simulation(transport, system, RunOptions(precision="reproducible"), [reporter]).run(10)
    names = ("temperature_Protein", "temperature_non-Protein")
    found = [[records[step][name] for name in names] for step in (0, 1, 5, 9)]
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_velocities_where_one_group_is_not_coupled_follow_gmx(tmp_path):
    """Kinetic energies in kJ/mol, half a step before step 10."""
    system = start(tmp_path, WEAK)
    with open_transport("loopback") as transport:
        simulation = Simulation(transport, system, RunOptions(precision="reproducible"))
        simulation.run(10)
        v = simulation.gather().v.astype(float)
    each = 0.5 * system.topology.mass * (v**2).sum(1)
    found = np.bincount(system.group_of_atom, weights=each)
    np.testing.assert_allclose(found, [496.6294, 6143.8436], rtol=1e-5)
