"""Runs of several lengths, and the energies that are reported last."""

from __future__ import annotations

from dataclasses import replace

from pulsemd.engine.coupling_groups import with_coupling_groups
from pulsemd.engine.reporters import Reporter
from pulsemd.engine.system import prepare_system
from pulsemd.io.gromacs import read_settings
from pulsemd.io.gromacs.groups import Groups
from pulsemd.io.gromacs.system import read_system
from pulsemd.systems import system_files

PRESSURE = {"tau_p": 0.5, "compressibility": (4.5e-5,), "ref_p": (500.0,)}
CASES = {
    "v-rescale": {"tcoupl": "v-rescale", "nstcomm": 4},
    "weak coupling": {"tcoupl": "berendsen", "pcoupl": "berendsen", "nstpcouple": 5} | PRESSURE,
    "extended": {"tcoupl": "nose-hoover", "pcoupl": "parrinello-rahman", "nstpcouple": 3, "nsttcouple": 2}
    | PRESSURE,
    "stochastic": {"integrator": "sd", "tcoupl": "no", "pcoupl": "c-rescale", "nstpcouple": 4} | PRESSURE,
    "full steps": {"integrator": "md-vv", "nsttcouple": 2, "pcoupl": "c-rescale", "nstpcouple": 5} | PRESSURE,
    "chains": {"integrator": "md-vv", "tcoupl": "nose-hoover", "nh_chain_length": 3},
}
ENDS = (13, 19, 20)
"""In a list lifetime, in its last step, and where the next one would begin."""


def water(case):
    """The bundled water, coupled in one of these ways."""
    files, given = (
        system_files("water"),
        {"nstlist": 10, "tc_grps": ("System",), "tau_t": 0.1, "ref_t": 320.0},
    )
    settings = replace(read_settings(files.parameters)[0], ld_seed=5, gen_seed=6, **given | CASES[case])
    topology, table, frame, settings = read_system(files.configuration, files.topology, settings)
    system = prepare_system(topology, table, settings, frame.positions, frame.velocities, frame.box)
    return with_coupling_groups(system, Groups(topology))


def last_records(simulate):
    """Last energies of runs that end at `ENDS`, and those of these steps in a longer run, of new simulations."""
    runs = []
    for steps in (*ENDS, 24):
        found, simulation = [], simulate()
        simulation.report_to([Reporter(1, lambda step, time, record, to=found: to.append(record))], str)
        simulation.run(steps)
        simulation.finish()
        runs.append(found)
    *shorter, whole = runs
    return [found[-1] for found in shorter], [whole[end] for end in ENDS]


def ends_with_and_without_looking(simulate):
    """Hash, work and variables of thermostats and barostat of two runs, the first of which asks for all energies."""
    ends = []
    for pieces in ([1] * 12, [12]):
        simulation = simulate()
        for steps in pieces:
            simulation.run(steps)
            if len(pieces) > 1:
                simulation.evaluate()
        rank = simulation.rank
        ends.append((simulation.trajectory_hash(), rank.read_work(), rank.read_extended()))
    return ends
