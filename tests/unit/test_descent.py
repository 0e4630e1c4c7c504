"""Steepest descent and L-BFGS on a bowl whose lowest point is known."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.base.errors import ConfigError
from pulsemd.engine.descent import Method, Point, descend

NM = 2.0**-32
"""Length of a lattice unit in a box of 1 nm."""


class Bowl:
    """E = sum k_i r_i^2 / 2 of atoms held to the origin of a box of 1 nm, with spring constants 1 to `stiffest`."""

    def __init__(self, n_atoms: int, stiffest: float) -> None:
        self.k = np.linspace(1.0, stiffest, n_atoms)[:, None]
        self.evaluations = 0
        self.start = np.full((n_atoms, 3), int(0.05 / NM), np.int32)

    def evaluate(self, x):
        self.evaluations += 1
        r = x * NM
        energy = float(0.5 * (self.k * r * r).sum())
        return Point(x, energy, -self.k * r, {"potential": energy})

    def shift(self, x, forces, scale):
        return self.displace(x, scale * forces)

    def displace(self, x, way):
        return x + np.rint(way / NM).astype(np.int32)

    def between(self, after, before):
        return (after - before) * NM


class Walls(Bowl):
    """The same, but one direction of the first atom ends at a wall without a finite force."""

    def evaluate(self, x):
        return None if x[0, 0] * NM < 0.049 else super().evaluate(x)


def run(bowl, integrator, emtol=1e-6, nsteps=2000, emstep=0.01):
    told = []
    start = bowl.evaluate(bowl.start)
    outcome = descend(
        bowl,
        start,
        Method(integrator, emtol, emstep, 10, nsteps),
        lambda step, point: told.append((step, point.energy)) or "",
    )
    return outcome, told


@pytest.mark.parametrize("integrator", ["steep", "l-bfgs"])
def test_descent_in_a_bowl_ends_at_the_bottom_and_never_goes_up(integrator):
    outcome, told = run(Bowl(8, 10.0), integrator, emtol=1e-4)
    assert outcome.converged
    assert "emtol" in outcome.reason
    assert outcome.point.max_force < 1e-4
    energies = [energy for _, energy in told]
    assert energies == sorted(energies, reverse=True)
    assert told[0][0] == 0
    assert told[-1] == (outcome.steps, outcome.point.energy)


def test_limited_memory_needs_a_tenth_of_the_points_of_steepest_descent():
    steep, memory = Bowl(50, 1000.0), Bowl(50, 1000.0)
    assert run(steep, "steep", 1e-2)[0].converged
    assert run(memory, "l-bfgs", 1e-2)[0].converged
    assert memory.evaluations < 0.1 * steep.evaluations


def test_steps_of_steepest_descent_follow_the_rule_of_gromacs():
    bowl = Bowl(1, 1.0)
    _, told = run(bowl, "steep", nsteps=4)
    # 0.05 sqrt(3) = 0.0866 nm from the bottom: 0.01, 0.012, 0.0144 and 0.01728 nm nearer
    left = 0.05 * 3**0.5 - np.cumsum([0.0, 0.01, 0.012, 0.0144, 0.01728])
    np.testing.assert_allclose([energy for _, energy in told], 0.5 * left**2, rtol=1e-5)


def test_no_atom_goes_farther_than_emstep_in_a_step_of_limited_memory():
    bowl, places = Bowl(20, 100.0), []
    outcome = descend(
        bowl,
        bowl.evaluate(bowl.start),
        Method("l-bfgs", 1e-3, 0.002, 5, -1),
        lambda _, point: places.append(point.x * NM) or "",
    )
    assert outcome.converged
    moved = np.linalg.norm(np.diff(places, axis=0), axis=2)
    assert moved.max() <= 0.002 * 1.000001


@pytest.mark.parametrize("integrator", ["steep", "l-bfgs"])
def test_too_few_steps_are_said(integrator):
    outcome, _ = run(Bowl(50, 1000.0), integrator, nsteps=3)
    assert not outcome.converged
    assert outcome.steps == 3
    assert "raise nsteps" in outcome.reason


@pytest.mark.parametrize("integrator", ["steep", "l-bfgs"])
def test_a_way_that_is_closed_ends_the_descent_without_convergence(integrator):
    outcome, _ = run(Walls(2, 5.0), integrator)
    assert not outcome.converged
    assert "no lower energy" in outcome.reason
    assert np.isfinite(outcome.point.energy)


@pytest.mark.parametrize("option", [("emtol", 0.0), ("emstep", -0.1), ("nbfgscorr", 0), ("integrator", "cg")])
def test_options_that_make_no_sense_are_refused_by_name(option):
    name, value = option
    values = {"integrator": "steep", "emtol": 1.0, "emstep": 0.01, "nbfgscorr": 10, "nsteps": 1}
    with pytest.raises(ConfigError, match=name):
        Method(**{**values, name: value})


def test_a_descent_ends_when_it_is_told_to():
    bowl = Bowl(3, 2.0)
    outcome = descend(
        bowl,
        bowl.evaluate(bowl.start),
        Method("steep", 1e-6, 0.01, 10, -1),
        lambda step, _: "enough" * (step == 3),
    )
    assert (outcome.steps, outcome.reason, outcome.converged) == (3, "enough", False)
