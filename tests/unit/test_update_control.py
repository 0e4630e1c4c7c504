"""The record of a run in device memory, as the host reads it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pulsemd.kernels.update.control import NO_ERROR, as_control, control_type, first_control, turn_in
from pulsemd.kernels.update.gpu_tables import Thermostat, UpdateConstants


@pytest.mark.parametrize("n_baths", [1, 3, 16])
def test_first_record_has_a_bath_of_each_group_that_does_nothing(n_baths):
    words = first_control(n_baths, 0.5)
    record = as_control(words)
    assert record["n_baths"] == n_baths == len(record["baths"])
    assert (record["baths"]["scale"] == 1.0).all()
    assert (record["baths"]["kick"] == 0.5).all()
    assert record["error"] == NO_ERROR
    assert turn_in(record) is None


def test_baths_begin_where_the_record_of_none_ends():
    """As ``baths_of`` of control.cuh has it: behind the struct."""
    assert control_type(2).fields["baths"][1] == control_type(0).itemsize
    assert control_type(0).itemsize % 8 == 0


@pytest.mark.parametrize("degrees", [30.5, 60.0, 87.0])
def test_constraint_that_turned_is_read_with_its_angle(degrees):
    words = first_control(1, 1.0)
    cosine = math.cos(math.radians(degrees))
    as_control(words)["turned"] = int((1.0 + cosine) * 2**30) << 32 | 77
    number, found = turn_in(as_control(words))
    assert number == 77
    assert math.degrees(math.acos(found)) == pytest.approx(degrees, abs=1e-6)


def test_thermostats_have_the_mass_of_their_atoms():
    mass, group = np.array([1.0, 2.0, 4.0, 8.0]), np.array([0, 2, 0, 2], np.int32)
    thermostats = (Thermostat(n_dof=5.0), Thermostat(), Thermostat(n_dof=7.0, keep=0.5))
    constants = UpdateConstants(np.eye(3), 0.002, mass, [], None, thermostats, group, seed=9)
    words = constants.thermostat_words()
    assert words.shape == (3, 10)
    np.testing.assert_array_equal(words[:, 3], [5.0, 0.0, 10.0])
    np.testing.assert_array_equal(words[:, 1:3], [[5.0, 1.0], [0.0, 1.0], [7.0, 0.5]])
    np.testing.assert_array_equal(words.view(np.int64)[:, 9], 9)
