"""`pulsemd.Simulation` on one rank and with ranks behind it."""

import gc
import os
import signal
import subprocess
import sys
import time
import weakref

import numpy as np
import pytest
from processes import children
from run_files import workers_of

import pulsemd
from pair_potentials import my_lj
from pulsemd.base.errors import ConfigError, InputError, PeerError, UnstableError
from pulsemd.systems import system_files

WATER = system_files("water")
RANKS = pytest.mark.parametrize("ranks", [1, 2])


def water(ranks=1, **options):
    options = {"gen_seed": 7, "ld_seed": 7, "precision": "reproducible", "device": "cpu"} | options
    files = WATER.configuration, WATER.topology, WATER.parameters
    return pulsemd.Simulation.from_gromacs(*files, ranks=ranks, **options)


@pytest.fixture(scope="module")
def expected() -> str:
    """Hash after 40 steps in one go on one rank."""
    with water() as sim:
        return sim.run(40).trajectory_hash


@RANKS
def test_velocities_of_velocity_verlet_have_the_kinetic_energy_of_their_step(ranks):
    with water(ranks, integrator="md-vv", tcoupl="no") as sim:
        for _ in range(2):
            kinetic = 0.5 * sim.topology.mass @ (sim.velocities.astype(float) ** 2).sum(1)
            assert kinetic == pytest.approx(sim.energies["kinetic"], abs=1e-2)
            sim.run(7)


@RANKS
def test_steps_in_several_calls_give_the_trajectory_of_one_call(ranks, expected):
    before = children()
    with water(ranks) as sim:
        hashes = {sim.run(n).step: sim.trajectory_hash for n in (0, 13, 27)}
        assert sim.time == pytest.approx(40 * sim.settings.dt)
        assert f"{ranks} rank(s)" in repr(sim)
        assert sim.positions.shape == sim.velocities.shape == (3000, 3)
        assert sim.energies["potential"] < 0
    assert list(hashes) == [0, 13, 40]
    assert hashes[40] == expected
    assert children() <= before


@RANKS
def test_reporters_are_called_once_at_every_step_that_is_due(ranks):
    rows, frames = [], []
    with water(ranks) as sim:
        sim.add_reporter(10, energies=lambda step, time, energies: rows.append((step, time, energies)))
        sim.add_reporter(15, frame=frames.append)
        sim.run(20).run(10)
        final = sim.snapshot
        assert rows[-1][2]["lj"] == pytest.approx(sim.energies["lj"], abs=1e-9)
    assert [row[0] for row in rows] == [0, 10, 20, 30]
    assert rows[1][1] == pytest.approx(10 * sim.settings.dt)
    assert [frame.step for frame in frames] == [0, 15, 30]
    assert (frames[-1].positions == final.positions).all()
    assert (frames[-1].velocities == final.velocities).all()


def test_error_of_a_reporter_comes_out_and_the_run_goes_on(expected):
    def fail(step, time, energies):
        if step == 10:
            raise RuntimeError("no more paper")

    with water(2) as sim:
        sim.add_reporter(10, energies=fail)
        with pytest.raises(RuntimeError, match="no more paper"):
            sim.run(40)
        sim.run(40 - sim.step)
        assert sim.trajectory_hash == expected


def test_reporter_slower_than_the_time_out_holds_the_ranks_and_ends_none():
    """Frames are larger than a pipe, so rank 0 waits for this process, and rank 1 for rank 0."""
    frames = []
    with water(2, timeout=5.0) as sim:
        sim.add_reporter(
            4, frame=lambda frame: (time.sleep(6.5 * (frame.step == 4)), frames.append(frame.step))
        )
        sim.run(8)
    assert frames == [0, 4, 8]


@pytest.mark.parametrize("given", [("topology", "system", "integrator"), ("conf.gro", "topol.top")])
def test_simulation_made_as_in_openmm_is_refused_with_the_call_that_makes_it(given):
    with pytest.raises(ConfigError, match=r"use Simulation.from_openmm\(system, positions"):
        pulsemd.Simulation(*given)


def test_reporter_that_is_no_function_or_has_no_whole_interval_is_refused_before_the_run():
    with water() as sim:
        for given in ((10.5, print), ("10", print), (sim, print), (10, "energies"), (0, print), (10,)):
            with pytest.raises(ConfigError, match="an interval of at least 1 step and a function"):
                sim.add_reporter(*given)
        assert sim.run(2).step == 2


def test_closed_simulation_lets_the_arrays_of_its_rank_go():
    sim = water()
    rank = weakref.ref(sim.run(5)._ranks._worker.simulation.rank)
    sim.close()
    gc.collect()
    assert rank() is None
    assert sim.step == 5


def test_simulation_cannot_be_used_from_its_reporter():
    with water() as sim:
        sim.add_reporter(1, energies=lambda *_: sim.energies)
        with pytest.raises(ConfigError, match="use what it is given"):
            sim.run(1)


@RANKS
def test_interrupt_stops_between_two_steps_and_the_run_goes_on(ranks):
    with water(ranks) as sim:
        sim.add_reporter(10, energies=lambda step, *_: step == 30 and os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            sim.run(10**7)
        step = sim.step
        assert 30 <= step < 10**6
        assert sim.snapshot.step == step
        assert sim.run(5).step == step + 5


def test_blow_up_on_ranks_behind_is_raised_here_and_ends_them():
    before = children()
    listing = {"verlet_buffer_tolerance": -1, "rlist": 1.1, "nstlist": 5}
    with water(2, dt=0.012, precision="fast", **listing) as sim:
        with pytest.raises(UnstableError):
            sim.run(500)
        with pytest.raises(ConfigError, match="ended with UnstableError"):
            sim.run(1)
    assert children() <= before


def test_killed_rank_is_named_and_the_others_end():
    before = children()
    with water(2) as sim:
        victim = min(children() - before)
        sim.add_reporter(10, energies=lambda step, *_: step == 30 and os.kill(victim, signal.SIGKILL))
        with pytest.raises(PeerError, match=f"process {victim}.*SIGKILL"):
            sim.run(10**7)
    assert children() <= before


@pytest.mark.parametrize("steps", [-1, 1.5])
def test_number_of_steps_that_makes_no_sense_is_refused_and_the_simulation_goes_on(steps):
    with water() as sim:
        with pytest.raises(ConfigError, match="a whole number of steps that is not negative"):
            sim.run(steps)
        assert sim.run(1).step == 1


def test_closed_simulation_refuses_to_run():
    sim = water()
    sim.close()
    with pytest.raises(ConfigError, match="is closed"):
        sim.run(1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"nstlits": 5}, "^unknown option nstlits; did you mean nstlist"),
        ({"rvdw": 0.5}, "must be equal"),
        ({"dt": "x"}, "dt = x"),
        ({"tc_grps": "SOL System"}, r"SOL 1 OW \(atom 1\) is in 2 of the groups"),
        ({"tc_grps": ["SOL", "Protein"]}, "there is no group Protein"),
    ],
)
def test_settings_are_checked_like_a_file(settings, message):
    with pytest.raises(InputError, match=message):
        water(**settings)


def test_groups_of_an_index_file_are_found(tmp_path):
    (tmp_path / "index.ndx").write_text("[ Wall ]\n1 2 3\n")
    frozen = {"freezegrps": "Wall", "freezedim": "Y Y Y"}
    with pytest.raises(InputError, match="there is no group Wall"):
        water(**frozen)
    with water(**frozen, index=tmp_path / "index.ndx") as sim:
        before = sim.positions
        after = sim.run(3).positions
    np.testing.assert_array_equal(after[:3], before[:3])
    assert (after[3:] != before[3:]).any(1).all()


def test_thermostat_groups_without_some_atoms_are_refused():
    files = system_files("water-ethanol")
    with pytest.raises(
        InputError, match=r"tc-grps: .* is in 0 of the groups SOL; each atom has to be in one"
    ):
        pulsemd.Simulation.from_gromacs(
            files.configuration, files.topology, files.parameters, tc_grps=("SOL",), device="cpu"
        )


def test_settings_replace_those_of_the_file():
    with water(nstlist=7, rcoulomb=0.8, rvdw=0.8) as sim:
        assert (sim.settings.nstlist, sim.settings.rvdw, sim.settings.dt) == (7, 0.8, 0.002)


def test_own_lennard_jones_runs_the_same_on_any_number_of_ranks(expected):
    hashes = set()
    for ranks in (1, 2):
        with water(ranks, pair_potential=my_lj) as sim:
            hashes.add(sim.run(40).trajectory_hash)
            lj = sim.energies["lj"]
    assert len(hashes) == 1
    with water() as sim:
        assert lj == pytest.approx(sim.run(40).energies["lj"], rel=1e-3)
        assert sim.trajectory_hash == expected


SCRIPT = """
import pulsemd
from pulsemd.systems import system_files
w = system_files("water")
sim = pulsemd.Simulation.from_gromacs(w.configuration, w.topology, w.parameters, ranks=2, device="cpu")
print(sim.run(5).step)
"""


def test_program_that_forgets_to_close_leaves_no_process(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    output, _ = process.communicate(timeout=120)
    assert (process.returncode, output) == (0, "5\n")
    deadline = time.monotonic() + 10.0
    while (left := workers_of(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


def test_importing_the_package_loads_nothing():
    program = (
        "import sys, pulsemd; sys.exit(sum(m in sys.modules for m in ('numpy', 'numba', 'pulsemd.engine')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
