"""The box of Parrinello and Rahman: its energy, and what a direction without compressibility does."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.base.units import BAR
from pulsemd.engine.cell import Cell
from pulsemd.engine.extended import Extended, accelerate_box, box_energy, move_box
from pulsemd.forcefield.settings import RunSettings

EDGES = np.array([3.0, 4.0, 5.0])
CELL = Cell(np.diag(EDGES), np.diag(EDGES))
PRESSURE = np.array([300.0, 500.0, 900.0])


def settings(pcoupltype, compressibility, ref_p):
    return RunSettings(
        pcoupl="parrinello-rahman",
        pcoupltype=pcoupltype,
        dt=0.002,
        nstpcouple=1,
        tau_p=2.0,
        compressibility=compressibility,
        ref_p=ref_p,
    )


def test_box_of_fixed_height_has_the_energy_of_its_other_edges_and_keeps_its_height():
    fixed, free = (settings("semiisotropic", (4.5e-5, soft), (1.0, 1.0)) for soft in (0.0, 4.5e-5))
    moving = Extended(rates=(0.01, 0.01, 0.0))
    assert box_energy(fixed, moving, CELL) == box_energy(free, moving, CELL)
    assert box_energy(fixed, moving, CELL) > box_energy(fixed, Extended(), CELL)
    later = accelerate_box(fixed, moving, PRESSURE, CELL)
    assert later.rates[0] > moving.rates[0]
    factors, _ = move_box(fixed, later)
    assert factors[2] == 1.0 < factors[0] == factors[1]


@pytest.mark.parametrize(
    ("pcoupltype", "soft", "wanted"),
    [
        ("isotropic", (4.5e-5,), (1.0,)),
        ("semiisotropic", (4.5e-5, 3e-5), (100.0, 100.0)),
        ("anisotropic", (4.5e-5, 3e-5, 1e-5, 0, 0, 0), (100.0, 100.0, 100.0, 0, 0, 0)),
    ],
)
def test_energy_that_the_box_gains_is_the_work_of_the_pressure(pcoupltype, soft, wanted):
    """To first order in the interval: volume times pressure above the wanted one times the rate of each edge."""
    s, before = settings(pcoupltype, soft, wanted), Extended(rates=(0.02, 0.02, 0.02))
    after = accelerate_box(s, before, PRESSURE, CELL)
    half = 0.5 * (np.array(before.rates) + np.array(after.rates))
    gain = box_energy(s, after, CELL) - box_energy(s, before, CELL)
    work = CELL.volume * float((half * (PRESSURE - wanted[0])).sum()) * s.dt / BAR
    assert gain == pytest.approx(work, rel=1e-9)


def test_strain_of_a_cell_that_did_not_change_is_exactly_one_whatever_its_edges():
    edges = np.random.default_rng(5).uniform(2.0, 25.0, (500, 6))
    for a, b, c, xy, xz, yz in edges:
        box = np.array([[a, 0, 0], [0.3 * xy, b, 0], [0.3 * xz, 0.3 * yz, c]])
        cell = Cell(box, box)
        assert (cell.strain(Cell(box.copy(), box)) == 1.0).all()


def test_strain_is_what_a_skewed_cell_was_scaled_by():
    box = np.array([[5.0, 0.0, 0.0], [1.3, 6.0, 0.0], [-2.0, 1.7, 7.0]])
    factors = np.array([1.01, 0.98, 1.003])
    cell = Cell(box, box)
    np.testing.assert_allclose(cell.scaled(factors).strain(cell), factors, rtol=1e-15)


def test_rates_of_the_box_are_those_of_a_checkpoint_whether_x_and_y_differ_or_not():
    for rates in ((0.1, 0.1, 0.2), (0.1, 0.3, 0.2)):
        for others in ((), (1.0, 2.0)):
            found = Extended(0.5, 0.6, rates, others)
            assert Extended.unpack(found.values) == found
    assert Extended.unpack((0.5, 0.6, 0.1, 0.2)) == Extended(0.5, 0.6, (0.1, 0.1, 0.2))
    assert Extended.unpack(()) == Extended()
