"""The last energies of a run are those of the same step in a longer run, to the last bit; asking leaves no trace."""

from __future__ import annotations

import pytest
from last_lines import CASES, ends_with_and_without_looking, last_records, water

from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import open_transport


@pytest.mark.parametrize("case", CASES)
def test_last_energies_are_those_of_the_step_in_a_longer_run(case):
    system, options = water(case), RunOptions(precision="reproducible")
    found, expected = last_records(lambda: Simulation(open_transport("loopback"), system, options))
    assert found == expected


@pytest.mark.parametrize("case", CASES)
def test_energies_asked_for_between_steps_leave_no_trace(case):
    system, options = water(case), RunOptions(precision="reproducible")
    looked, expected = ends_with_and_without_looking(
        lambda: Simulation(open_transport("loopback"), system, options)
    )
    assert looked == expected
