"""The fastest bond of a topology: its period by hand and as `gmx grompp` 2022.5 prints it, and warnings of a step."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pulsemd.engine.bond_periods import fastest_bond, warn_of_long_step
from pulsemd.forcefield.settings import RunSettings
from pulsemd.io.gromacs import read_top
from pulsemd.systems import system_files

TOP = """[ defaults ]
1 2 yes 0.5 0.8333
[ atomtypes ]
C 12.0 0 A 0.34 0.36
H 1.0 0 A 0.2 0.1
[ moleculetype ]
SLOW 1
[ atoms ]
1 C 1 SLO C1 1 0 12.0
2 C 1 SLO C2 1 0 12.0
[ bonds ]
1 2 1 0.15 224000
[ moleculetype ]
FAST 1
[ atoms ]
1 C 1 FAS C1 1 0 12.0
2 H 1 FAS H1 1 0 1.0
[ BONDS ]
[ system ]
x
[ molecules ]
SLOW 2
FAST 2
"""
MD = RunSettings(dt=0.001, nsteps=10)


def topology(folder, bonds="[ bonds ]\n1 2 1 0.1 400000"):
    path = folder / "topol.top"
    path.write_text(TOP.replace("[ BONDS ]", bonds))
    return read_top(path)[0]


def test_period_of_carbon_and_hydrogen_is_that_by_hand(tmp_path):
    # reduced mass 12/13 amu, k = 400,000 kJ/mol/nm^2: omega = sqrt(433333) = 658.28/ps, 2 pi / omega = 9.5449 fs
    assert fastest_bond(topology(tmp_path)) == pytest.approx((9.5449e-3, 4, 5), rel=1e-5)


@pytest.mark.parametrize(
    ("bond", "k"),
    [
        ("2 0.1 1.87e7", 2 * 1.87e7 * 0.1**2),  # 9.9 fs of gmx grompp
        ("3 0.1 400 20", 2 * 400 * 20**2),
        ("4 0.1 160000 -20", 2 * 160000),
        ("6 0.1 400000", 400000),
    ],
)
def test_curvatures_of_other_bonds_are_second_derivatives_of_their_energies(tmp_path, bond, k):
    found = fastest_bond(topology(tmp_path, f"[ bonds ]\n1 2 {bond}"))
    assert found.period == pytest.approx(2 * math.pi * math.sqrt(12 / 13 / k))


def test_pairs_under_constraints_are_no_bonds(tmp_path):
    both = "[ bonds ]\n2 1 6 0.1 400000\n[ constraints ]\n1 2 1 0.1"
    slow = 2 * math.pi * math.sqrt(6 / 224000)
    assert fastest_bond(topology(tmp_path, both)) == pytest.approx((slow, 0, 1))


@pytest.mark.parametrize(
    ("constraints", "period", "atoms"),
    [("none", 9.0e-3, (49, 50)), ("h-bonds", 2.2e-2, (165, 166)), ("all-bonds", None, None)],
)
def test_fastest_bond_of_the_peptide_is_that_of_gmx(constraints, period, atoms):
    peptide = system_files("peptide").topology
    found = fastest_bond(read_top(peptide, RunSettings(constraints=constraints))[0])
    if period is None:
        assert found is None
    else:
        assert (float(f"{found.period:.1e}"), (found.first + 1, found.second + 1)) == (period, atoms)


@pytest.mark.parametrize(
    ("dt", "said"),
    [
        (0.00095, ""),
        (0.00096, "which is 9.9 steps; accuracy needs 10"),
        (0.0019, "which is 5.0 steps; accuracy needs 10"),
        (0.00192, "which is 5.0 steps; its energy is wrong"),
        (
            0.004,
            "in 0.0095 ps, which is 2.4 steps; its energy is wrong, and below 4 a run may blow up: let constraints",
        ),
    ],
)
def test_step_is_warned_of_below_ten_and_five_of_an_oscillation(tmp_path, caplog, dt, said):
    warn_of_long_step(replace(MD, dt=dt), topology(tmp_path))
    assert said in caplog.text
    assert bool(said) == bool(caplog.records)
    if said:
        assert "the bond of FAS 3 C1 (atom 5) and FAS 3 H1 (atom 6)" in caplog.text
        assert "take a dt of at most 0.00095" in caplog.text


def test_step_that_the_warning_names_is_not_warned_of(tmp_path, caplog):
    slow = topology(tmp_path, "")  # 32.52 fs
    warn_of_long_step(replace(MD, dt=0.004), slow)
    named = float(caplog.text.split("at most ")[1])
    caplog.clear()
    warn_of_long_step(replace(MD, dt=named), slow)
    assert named == 0.00325
    assert not caplog.records


@pytest.mark.parametrize("change", [{"integrator": "steep"}, {"nsteps": 0}])
def test_nothing_is_said_where_no_step_is_made(tmp_path, caplog, change):
    warn_of_long_step(replace(MD, dt=0.004, **change), topology(tmp_path))
    assert not caplog.records
