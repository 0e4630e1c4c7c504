"""Where steps stand between two actions of the thermostat and two removals of the centre of mass' motion."""

from __future__ import annotations

from itertools import product

import pytest

from pulsemd.engine.coupling import coupling_phase, step_flags
from pulsemd.forcefield.settings import RunSettings

CASES = [
    ("no", 10, 100),
    ("v-rescale", 10, 100),
    ("v-rescale", 10, 0),
    ("v-rescale", 6, 4),
    ("v-rescale", 20, 10),
]


def coupled(settings, first, n=300):
    flags = (step_flags(settings, step, False) for step in range(first, first + n))
    return [f.thermostat or f.remove_com for f in flags]


@pytest.mark.parametrize(("tcoupl", "nsttcouple", "nstcomm"), CASES)
def test_phase_equal_means_that_the_same_later_steps_are_coupled(tcoupl, nsttcouple, nstcomm):
    settings = RunSettings(tcoupl=tcoupl, nsttcouple=nsttcouple, nstcomm=nstcomm, comm_mode="linear")
    for a, b in product(range(0, 120, 7), repeat=2):
        same = coupling_phase(settings, a) == coupling_phase(settings, b)
        assert same == (coupled(settings, a) == coupled(settings, b))


def test_lifetimes_that_begin_with_the_thermostat_have_one_phase_though_com_is_removed_more_seldom():
    settings = RunSettings(tcoupl="v-rescale", nsttcouple=10, nstcomm=100)
    assert {coupling_phase(settings, 40 * k) for k in range(10)} == {(0,)}


@pytest.mark.parametrize(("nsttcouple", "nstcomm", "nstpcouple"), [(10, 1, 1), (6, 3, 2), (10, 100, 5)])
def test_phase_of_a_box_that_moves_tells_in_which_later_steps_it_drags_and_the_thermostat_acts(
    nsttcouple, nstcomm, nstpcouple
):
    settings = RunSettings(
        tcoupl="nose-hoover",
        nsttcouple=nsttcouple,
        nstcomm=nstcomm,
        pcoupl="parrinello-rahman",
        nstpcouple=nstpcouple,
    )

    def drags(first):
        flags = (step_flags(settings, step, False) for step in range(first, first + 60))
        return [(f.box_drags, f.box_drags and f.thermostat) for f in flags]

    for a, b in product(range(30), repeat=2):
        assert coupling_phase(settings, a) != coupling_phase(settings, b) or drags(a) == drags(b)
