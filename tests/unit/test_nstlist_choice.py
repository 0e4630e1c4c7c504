"""How rarely a GPU searches: as the box, and the halos of several ranks, allow."""

from __future__ import annotations

from dataclasses import replace

from pulsemd.domain.grid import choose_grid
from pulsemd.engine.options import RunOptions
from pulsemd.engine.setup import choose_list_cutoff, choose_nstlist
from pulsemd.engine.system import group_reach, prepare_system
from pulsemd.io.gromacs.mdp import read_settings
from pulsemd.io.gromacs.system import read_system
from pulsemd.systems import system_files


def test_several_ranks_search_more_often_where_their_halos_would_not_fit():
    files = system_files("water")
    settings = replace(read_settings(files.parameters)[0], gen_seed=1, ld_seed=1)
    topology, table, found, settings = read_system(files.configuration, files.topology, settings, ())
    system = prepare_system(topology, table, settings, found.positions, found.velocities, found.box)
    one, two = (
        choose_nstlist(system, RunOptions(device="cuda", ranks=ranks, raise_nstlist=True)) for ranks in (1, 2)
    )
    assert settings.nstlist < two < one
    grid = choose_grid(2, system.box, choose_list_cutoff(system, two) + 2.0 * group_reach(system), None)
    assert grid.size == 2
