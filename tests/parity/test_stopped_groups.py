"""Centres of mass of several groups that are stopped, comm-grps, against GROMACS 2022.5 in double precision.

Degrees of freedom are those that ``gmx_d dump`` shows of run inputs of the bundled peptide, energies those of
``gmx_d energy`` after ``gmx_d mdrun -ntmpi 1 -ntomp 1``, with the settings and groups of `test_coupling_groups`.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest

from pulsemd.engine.coupling_groups import CouplingGroups
from pulsemd.engine.freeze import freeze_atoms
from pulsemd.engine.options import RunOptions
from pulsemd.engine.reporters import Reporter
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import open_transport
from test_coupling_groups import UNLIKE, start

BATHS = UNLIKE + "tcoupl = nose-hoover\ntau-t = 0.5 0.2\n"
PROTEIN, THIRD = "tc-grps = Protein non-Protein\n", "tc-grps = Third Rest\n"
BOTH, THIRDS = "comm-grps = Protein non-Protein\n", "comm-grps = Third Rest\n"

DEGREES = [
    (BATHS + PROTEIN + BOTH, ["759", "11076"]),
    (BATHS + PROTEIN + THIRDS, ["761.614", "11073.4"]),
    (BATHS + THIRD + BOTH, ["3942.18", "7893.35"]),
    (BATHS + PROTEIN + "comm-grps = Protein\n", ["759", "11079"]),
    (BOTH, ["11835.5"]),
]
"""As printed, with settings. Of the fourth, atoms of the rest are in none of the groups."""

RUNS = {
    "md": (
        BOTH + "nstcomm = 1\n",
        {10: [-82400.2574, 6509.4900, 132.298487], 50: [-84519.4339, 8617.8658, 175.148992]},
    ),
    "nose-hoover": (
        BATHS + PROTEIN + BOTH + "nstcomm = 1\n",
        {20: [-79387.2309, 14087.0101, 286.316499, 183.492017, 293.362706]},
    ),
}
"""Potential and kinetic energy, kJ/mol, and temperatures, K, of some steps."""


@pytest.mark.parametrize(("settings", "expected"), DEGREES)
def test_degrees_of_freedom_with_several_stopped_groups_are_those_of_gmx(tmp_path, settings, expected):
    system = start(tmp_path, settings)
    assert [f"{n:g}" for n in system.group_n_dof] == expected
    assert system.n_dof == pytest.approx(sum(map(float, expected)), rel=1e-5)


@pytest.mark.parametrize("case", RUNS)
def test_energies_with_several_stopped_groups_follow_gmx(tmp_path, case):
    settings, expected = RUNS[case]
    records = []
    with open_transport("loopback") as transport:
        reporter = Reporter(1, energies=lambda step, time, record: records.append(record))
        system = start(tmp_path, settings)
        Simulation(transport, system, RunOptions(precision="reproducible"), [reporter]).run(max(expected) + 1)
    names = ["potential", "kinetic", "temperature", *system.temperatures]
    found = [[records[step][name] for name in names] for step in expected]
    np.testing.assert_allclose(found, list(expected.values()), rtol=2e-6)


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
def test_stopped_groups_have_no_momentum_left_and_others_keep_theirs(tmp_path, precision):
    """Sums in float64 by other means: momenta before and after, and kinetic energies of the coupling groups."""
    system = start(tmp_path, BATHS + PROTEIN + "comm-grps = Third\n")
    third = np.arange(1, system.topology.n_atoms + 1) % 3 == 0
    mass, bath = system.topology.mass, system.group_of_atom
    v = (np.random.default_rng(4).normal(0.1, 0.5, system.v.shape) * (mass > 0)[:, None]).astype(np.float32)
    before = v.astype(float)
    with open_transport("loopback") as transport:
        groups = CouplingGroups(transport, system, precision == "reproducible")
        groups.bind(np.arange(len(mass), dtype=np.int32))
        com, kinetic = groups.sum_and_stop(v, mass, True)
        still, then = groups.sum_and_stop(v, mass, False)
    after = v.astype(float)
    assert not com.any()
    assert not still.any()
    assert np.abs(mass[third] @ before[third]).min() > 100
    assert np.abs(mass[third] @ after[third]).max() < 1e-3
    np.testing.assert_array_equal(after[~third], before[~third])
    each = np.bincount(bath, weights=0.5 * mass * (after**2).sum(1))
    np.testing.assert_allclose(kinetic.energy, each, rtol=1e-6)
    np.testing.assert_allclose(then.energy, each, rtol=1e-6)
    y = np.bincount(bath, weights=0.5 * mass * after[:, 1] ** 2)
    np.testing.assert_allclose(kinetic.along[:, 0], y, rtol=1e-6)


def test_a_group_that_is_frozen_as_a_whole_is_left_alone(tmp_path):
    """Its degrees of freedom are 0, and those of the others lose nothing by it."""
    system = start(tmp_path, BATHS + PROTEIN + BOTH)
    protein = np.flatnonzero(system.group_of_atom == 0).astype(np.int32)
    system = replace(system, topology=freeze_atoms(system.topology, protein))
    assert [f"{n:g}" for n in system.group_n_dof] == ["0", "11076"]
    v = np.ones(system.v.shape, np.float32)
    v[protein] = 0
    with open_transport("loopback") as transport:
        groups = CouplingGroups(transport, system, False)
        groups.bind(np.arange(len(v), dtype=np.int32))
        _, kinetic = groups.sum_and_stop(v, system.topology.mass, True)
    np.testing.assert_allclose(kinetic.energy, 0, atol=1e-6)
    np.testing.assert_allclose(v, 0, atol=1e-6)


def test_atoms_in_no_stopped_group_are_remarked_on(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        system = start(tmp_path, "comm-grps = Protein\n")
    assert "5539 atoms are in none of Protein" in caplog.text
    assert (system.held_group_of_atom == -1).sum() == 5539
