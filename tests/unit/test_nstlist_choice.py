"""How rarely a GPU searches: as the box, and the halos of several ranks, allow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pulsemd.domain.grid import choose_grid
from pulsemd.engine.options import RunOptions
from pulsemd.engine.setup import choose_list_cutoff, choose_nstlist, device_halo, inner_cutoff
from pulsemd.engine.system import group_reach, prepare_system
from pulsemd.io.gromacs.mdp import read_settings
from pulsemd.io.gromacs.system import read_system
from pulsemd.systems import system_files


def water(**more):
    files = system_files("water")
    settings = replace(read_settings(files.parameters)[0], gen_seed=1, ld_seed=1, **more)
    topology, table, found, settings = read_system(files.configuration, files.topology, settings, ())
    return prepare_system(topology, table, settings, found.positions, found.velocities, found.box)


def chosen(system, ranks):
    return choose_nstlist(system, RunOptions(device="cuda", ranks=ranks, raise_nstlist=True))


def test_nstlist_goes_by_the_atoms_of_the_system_and_not_of_a_rank(monkeypatch):
    system = water()
    system = replace(system, box=2.0 * system.box, user_box=2.0 * system.user_box)  # room for every list
    assert {chosen(system, ranks) for ranks in (1, 2, 4)} == {100}
    monkeypatch.setattr(type(system.topology), "n_atoms", 60_001)
    assert {chosen(system, ranks) for ranks in (1, 2, 4)} == {80}


def test_several_ranks_search_more_often_where_their_halos_would_not_fit():
    system = water()
    one, two = (chosen(system, ranks) for ranks in (1, 2))
    assert system.settings.nstlist < two < one
    grid = choose_grid(2, system.box, choose_list_cutoff(system, two) + 2.0 * group_reach(system), None)
    assert grid.size == 2


def test_halos_that_fit_only_without_the_margins_of_gpus_are_not_chosen():
    """In this box the halo of nstlist = 60 is less than half a percent narrower than half the box."""
    settings = {"pcoupl": "c-rescale", "compressibility": (4.5e-5,), "ref_p": (1.0,)}
    system = water(**settings)
    for _ in range(3):  # the list depends on the density, a little
        halo = choose_list_cutoff(system, 60) + 2.0 * group_reach(system)
        scale = 2.008 * halo / system.box[0, 0]
        system = replace(system, box=scale * system.box, user_box=scale * system.user_box)
    nstlist, reach = chosen(system, 2), group_reach(system)
    assert choose_grid(2, system.box, choose_list_cutoff(system, 60) + 2.0 * reach).size == 2
    assert system.settings.nstlist < nstlist < 60
    planned = device_halo(system.settings, choose_list_cutoff(system, nstlist), reach, 0.0)
    assert choose_grid(2, system.box, planned).size == 2


def test_a_start_at_rest_without_thermostat_has_a_buffer_of_a_tenth_and_searches_as_asked():
    """Its atoms fall to a temperature that nobody knows; gmx 2022 adds a tenth to the cut-off."""
    system = water(tcoupl="no", gen_vel=False)
    system = replace(system, v=0 * system.v)
    cutoff = system.settings.rvdw
    assert choose_list_cutoff(system, system.settings.nstlist) == 1.1 * cutoff
    assert inner_cutoff(system, 1.1 * cutoff, 5, 20) is None
    assert chosen(system, 1) == system.settings.nstlist
    small = replace(system, box=2.1 * cutoff / system.box[0, 0] * system.box)
    assert np.isclose(choose_list_cutoff(small, 10), 1.05 * cutoff)
