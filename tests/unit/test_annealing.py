"""Temperatures that follow points in time."""

from __future__ import annotations

import pytest

from pulsemd.forcefield.annealing import Schedule, schedules
from pulsemd.forcefield.settings import RunSettings

POINTS = ((0.0, 2.0, 2.0, 6.0), (300.0, 400.0, 100.0, 200.0))
"""Ascends, jumps down, ascends."""


@pytest.mark.parametrize(
    ("time", "single", "periodic"),
    [
        (0.0, 300.0, 300.0), (1.0, 350.0, 350.0), (2.0, 400.0, 400.0), (4.0, 150.0, 150.0), (6.0, 200.0, 300.0),
        (7.0, 200.0, 350.0), (16.0, 200.0, 150.0),
    ],
)  # fmt: skip
def test_temperature_between_points_is_on_a_line(time, single, periodic):
    assert Schedule(False, *POINTS).at(time) == pytest.approx(single)
    assert Schedule(True, *POINTS).at(time) == pytest.approx(periodic)


def test_groups_take_their_points_one_after_the_other():
    first, second, third = schedules(
        ("single", "no", "periodic"), (2, 0, 2), (0, 1, 0, 5), (300, 310, 290, 300)
    )
    assert first == Schedule(False, (0, 1), (300, 310))
    assert second is None
    assert third == Schedule(True, (0, 5), (290, 300))


def test_settings_of_a_step_have_its_temperatures():
    settings = RunSettings(
        tcoupl="v-rescale", tc_grps=("A", "B"), tau_t=0.1, ref_t=280.0, dt=0.5, tinit=1.0,
        annealing=("single", "no"), annealing_npoints=(2, 0), annealing_time=(0.0, 4.0), annealing_temp=(300.0, 400.0),
    )  # fmt: skip
    assert [bath.ref_t for bath in settings.at_step(2).baths] == [350.0, 280.0]
    assert [bath.tau_t for bath in settings.at_step(2).baths] == [0.1, 0.1]
    assert settings.highest_temperature == 400.0
