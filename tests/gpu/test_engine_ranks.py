"""Runs of several plan-ranks in one process on one device, against one rank."""

from __future__ import annotations

import numpy as np
import pytest

from pulsemd.base.errors import ConfigError, DomainError
from pulsemd.device.cuda import CudaDevice
from pulsemd.engine import gpu_fields, gpu_search
from pulsemd.engine.gpu_control import ProcessControl
from pulsemd.engine.gpu_search import PartSearch
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import open_transport
from pulsemd.halo.device.buffers import TABLES, TableBuffers
from pulsemd.halo.device.local import local_transports
from pulsemd.kernels.search.gpu import GpuSearch
from pulsemd.kernels.search.gpu_lists import ClusterList, entries_for
from systems import (
    MIXED_TOP,
    SITES_TOP,
    bundled_system,
    load,
    mixed_system,
    overlapping_waters,
    restrained_system,
)

pytestmark = pytest.mark.gpu
STEPS = 60


def on_ranks(system, n_ranks, precision, rung="nvshmem-fused", **options):
    """A simulation of several plan-ranks in this process."""
    (transport,) = local_transports(rung, n_ranks)
    chosen = RunOptions(device="cuda", ranks=n_ranks, precision=precision, **options)
    return Simulation(ProcessControl(transport), system, chosen)


@pytest.fixture(autouse=True)
def _many_ranks_exchange_in_kernels(monkeypatch):
    monkeypatch.setattr(gpu_fields, "FEW_RANKS", 8)


def test_simulation_whose_transport_has_another_one_now_is_refused(device):
    (transport,) = local_transports("nvshmem-fused", 2)
    options = RunOptions(device="cuda", ranks=2)
    first, second = (Simulation(ProcessControl(transport), bundled_system(), options) for _ in range(2))
    second.run(3)
    with pytest.raises(ConfigError, match="another simulation was made on it"):
        first.run(3)


def on_one(system, precision, **options):
    return Simulation(
        open_transport("loopback"), system, RunOptions(device="cuda", precision=precision, **options)
    )


@pytest.mark.parametrize(
    ("rung", "plan"), [("nvshmem-fused", "staged"), ("nvshmem-fused", "direct"), ("nvshmem-step", "direct")]
)
@pytest.mark.parametrize("n_ranks", [1, 2, 4, 8])
def test_the_trajectory_of_water_on_ranks_has_the_hash_of_one(device, n_ranks, rung, plan):
    system = bundled_system(nsttcouple=5, nstcomm=10)
    alone = on_one(system, "reproducible")
    alone.run(STEPS)
    ranks = on_ranks(system, n_ranks, "reproducible", rung, plan=plan)
    ranks.run(STEPS)
    assert ranks.trajectory_hash() == alone.trajectory_hash()
    assert ranks.rank.exchanges_in_steps == (rung == "nvshmem-step" and n_ranks > 1)
    assert (ranks.rank.searches_on_device > 0) == (plan == "direct" and n_ranks > 1)
    expected, found = alone.evaluate(), ranks.evaluate()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-9, abs=1e-9), name


@pytest.mark.parametrize("rung", ["nvshmem-pulse", "nvshmem-fused"])
def test_cells_along_three_axes_have_the_hash_of_one(device, rung):
    """Rows at edges go to several ranks, so the first lifetime, planned by the host, waits for several pulses at once:
    with a kernel for each, a wait for the wrong one never ends."""
    system = bundled_system(nsttcouple=5, nstcomm=10, nstlist=5)
    alone = on_one(system, "reproducible")
    alone.run(15)
    ranks = on_ranks(system, 8, "reproducible", rung, plan="direct", grid=(2, 2, 2))
    ranks.run(15)
    assert ranks.trajectory_hash() == alone.trajectory_hash()
    assert ranks.rank.searches_on_device == 2


@pytest.mark.parametrize("change", ["nearly_full", "too_small"])
def test_searches_that_do_not_fit_on_the_device_go_through_the_host(device, monkeypatch, change):
    system = bundled_system(nsttcouple=2, nstcomm=2, nstlist=2)
    alone = on_one(system, "reproducible")
    alone.run(9)
    if change == "nearly_full":
        monkeypatch.setattr(gpu_search, "_FULL", 0.0)
    else:
        monkeypatch.setattr(PartSearch, "_state", lambda *_: (1, 0))
    ranks = on_ranks(system, 2, "reproducible")
    ranks.run(9)
    assert ranks.trajectory_hash() == alone.trajectory_hash()
    assert ranks.rank.searches_on_device == {"nearly_full": 2, "too_small": 0}[change]


def drop_in_empty_space(folder):
    """27 atoms at one end of a long box."""
    places = np.stack(np.meshgrid(*[np.arange(3)] * 3, indexing="ij"), -1).reshape(-1, 3) * 0.36 + 0.2
    lines = [
        f"{n:5d}{'AR':<5}{'A':>5}{n:5d}{x:8.3f}{y:8.3f}{z:8.3f}" for n, (x, y, z) in enumerate(places, 1)
    ]
    (folder / "conf.gro").write_text("\n".join(["drop", "27", *lines, "   2.00000   2.00000  12.00000", ""]))
    (folder / "topol.top").write_text(
        "[ defaults ]\n1 2 yes 0.5 0.5\n[ atomtypes ]\nAR 39.9 0 A 0.34 1.0\n[ moleculetype ]\nAR 1\n[ atoms ]\n"
        "1 AR 1 AR A 1 0 39.9\n[ system ]\ndrop\n[ molecules ]\nAR 27\n"
    )
    (folder / "run.mdp").write_text(
        "integrator = md\ndt = 0.002\nnsteps = 100\nnstlist = 5\nverlet-buffer-tolerance = -1\nrlist = 0.8\n"
        "coulombtype = cut-off\nrcoulomb = 0.7\nrvdw = 0.7\ngen-vel = yes\ngen-temp = 100\n"
    )
    return load(*(folder / name for name in ("conf.gro", "topol.top", "run.mdp")))


@pytest.mark.parametrize("plan", ["staged", "direct"])
def test_ranks_without_atoms_or_ghosts_leave_the_hash_as_it_is(device, tmp_path, plan):
    system = drop_in_empty_space(tmp_path)
    alone = on_one(system, "reproducible")
    alone.run(12)
    ranks = on_ranks(system, 8, "reproducible", plan=plan, grid=(1, 1, 8))
    ranks.run(12)
    assert ranks.trajectory_hash() == alone.trajectory_hash()


def test_steps_recorded_before_a_list_outgrew_its_room_are_recorded_again(device, monkeypatch):
    """Lists get just the room that they need, and now and then a search on the device needs more."""
    grown, make = [], GpuSearch._make_list

    def just_enough(pairs, counts, chunk):
        need = counts.entries_by_size[-1], counts.groups, counts.words + 1
        if all(n <= room for n, room in zip(need, pairs.room, strict=True)):
            return None
        grown.append(ranks[-1].step if ranks else 0)
        entries, groups, words = (max(n, room) for n, room in zip(need, pairs.room, strict=True))
        return max(entries, entries_for(groups, chunk, pairs.entry_room[1])), groups, words

    def make_small(search, counters, room, n_super):
        return make(search, counters, room if ranks or grown else (room[0], 8, 8), n_super)

    ranks: list[Simulation] = []
    system = bundled_system(nsttcouple=2, nstcomm=2, nstlist=2)
    alone = on_one(system, "reproducible")
    alone.run(STEPS)
    monkeypatch.setattr(ClusterList, "grown_room", just_enough)
    monkeypatch.setattr(GpuSearch, "_make_list", make_small)
    ranks.append(on_ranks(system, 2, "reproducible"))
    ranks[0].run(STEPS)
    assert ranks[0].trajectory_hash() == alone.trajectory_hash()
    assert max(grown) > 8  # steps are recorded by then


def gas_with_a_bond_that_grows(folder, edge=4.32, spacing=0.48):
    """Atoms on a lattice, of which a heavy one just below the middle along x pushes the second next one away."""
    places = np.stack(np.meshgrid(*[np.arange(9)] * 3, indexing="ij"), -1).reshape(-1, 3)
    heavy, light = (int(np.flatnonzero((places == (k, 4, 4)).all(1))[0]) for k in (4, 6))
    lines = [
        f"{n + 1:5d}{'AH' if n == heavy else 'AR':<5}{'A':>5}{n + 1:5d}{x:8.3f}{y:8.3f}{z:8.3f}"
        for n, (x, y, z) in enumerate(places * spacing + 0.235)
    ]
    (folder / "conf.gro").write_text(
        "\n".join(["gas", str(len(lines)), *lines, f"{edge:10.5f}{edge:10.5f}{edge:10.5f}", ""])
    )
    kinds = "".join(
        f"[ moleculetype ]\n{name} 1\n[ atoms ]\n1 {name} 1 {name} A 1 0 {mass}\n"
        for name, mass in (("AR", 39.9), ("AH", 40000.0))
    )
    (folder / "topol.top").write_text(
        f"[ defaults ]\n1 2 yes 0.5 0.5\n[ atomtypes ]\nAR 39.9 0 A 0.3 1.0\nAH 40000 0 A 0.3 1.0\n{kinds}"
        f"[ system ]\ngas\n[ molecules ]\nAR {heavy}\nAH 1\nAR {len(lines) - heavy - 1}\n"
        f"[ intermolecular_interactions ]\n[ bonds ]\n{heavy + 1} {light + 1} 6 1.4 40000\n"
    )
    (folder / "run.mdp").write_text(
        "integrator = md\ndt = 0.001\nnsteps = 100\nnstlist = 10\nverlet-buffer-tolerance = -1\nrlist = 1.0\n"
        "coulombtype = cut-off\nrcoulomb = 0.9\nrvdw = 0.9\ncomm-mode = none\n"
    )
    return load(*(folder / name for name in ("conf.gro", "topol.top", "run.mdp")))


def test_a_term_that_grows_longer_than_the_halo_is_found_again_by_the_host(device, tmp_path):
    system = gas_with_a_bond_that_grows(tmp_path)
    alone = on_one(system, "reproducible")
    alone.run(STEPS)
    ranks = on_ranks(system, 2, "reproducible", grid=(2, 1, 1))
    ranks.run(STEPS)
    assert ranks.trajectory_hash() == alone.trajectory_hash()
    assert 0 < ranks.rank.searches_on_device < ranks.rank.n_searches - 1


def gas(folder, rows, edge, epsilon, **settings):
    """Atoms at rest at rows (n, 3), nm, of a cube."""
    lines = [f"{n:5d}AR       A{n:5d}{x:8.3f}{y:8.3f}{z:8.3f}" for n, (x, y, z) in enumerate(rows, 1)]
    (folder / "conf.gro").write_text("\n".join(["gas", str(len(lines)), *lines, f"{edge} {edge} {edge}", ""]))
    (folder / "topol.top").write_text(
        f"[ defaults ]\n1 2 yes 0.5 0.5\n[ atomtypes ]\nAR 39.9 0 A 0.34 {epsilon}\n[ moleculetype ]\nAR 1\n"
        f"[ atoms ]\n1 AR 1 AR A 1 0 39.9\n[ system ]\ngas\n[ molecules ]\nAR {len(lines)}\n"
    )
    (folder / "run.mdp").write_text(
        "integrator = md\ndt = 0.001\nnsteps = 100\nnstlist = 10\nverlet-buffer-tolerance = -1\nrlist = 1.0\n"
        "coulombtype = cut-off\nrcoulomb = 0.9\nrvdw = 0.9\ncomm-mode = none\n"
    )
    return load(*(folder / name for name in ("conf.gro", "topol.top", "run.mdp")), **settings)


def places(per_edge, spacing):
    """Lattice points (n, 3), nm."""
    return spacing * np.stack(np.meshgrid(*[np.arange(per_edge)] * 3, indexing="ij"), -1).reshape(-1, 3)


def gas_without_forces(folder, edge=8.0):
    """Atoms in eight cells, no rank's near another's."""
    in_cells = places(2, edge / 2)[:, None] + places(6, 0.5) + 1.2
    return gas(folder, in_cells.reshape(-1, 3), edge, 0)


def move_to_lower_corners(part, cell=4.0, edge=8.0, steps=5, dt=0.001):
    """Let the atoms of a rank come to the lower corner of its cell, where seven others need all of them."""
    xp = part.device.xp
    above = xp.asarray(part.slots.x[:, :3]).astype(np.float64) / 2.0**32 * edge % cell
    part.update.velocities[:, :3] = ((0.1 * above - above) / (steps * dt)).astype(np.float32)


def test_more_atoms_in_a_search_on_the_device_than_it_has_slots_for_are_an_error_on_all_ranks(
    device, tmp_path
):
    ranks = on_ranks(gas_without_forces(tmp_path), 8, "reproducible", plan="direct", grid=(2, 2, 2))
    ranks.run(35)
    assert ranks.rank.searches_on_device > 0
    for part in ranks.rank._parts:
        move_to_lower_corners(part)
    with pytest.raises(
        DomainError,
        match="ranks have room for 0 of 1728 atoms; more have gathered on one than it was prepared for",
    ):
        ranks.run(20)
    assert all(part.slots.capacity < 8 * 216 for part in ranks.rank._parts)


@pytest.mark.parametrize("plan", ["direct", "staged"])
@pytest.mark.parametrize("n", [1, 27])
def test_ranks_without_atoms_do_no_harm(device, tmp_path, n, plan):
    """From one rank's cell, near a corner, the atoms fly into cells of others."""
    system = gas(tmp_path, places(3, 0.4)[:n] + 1.85, 6.0, 1.0, nstlist=5)
    system.v[:] = 60.0
    alone = on_one(system, "reproducible")
    alone.run(25)
    ranks = on_ranks(system, 8, "reproducible", plan=plan, grid=(2, 2, 2))
    owned = []
    for _ in range(5):
        ranks.run(5)
        owned.append(tuple(len(ranks.rank._rows_of(k)) for k in range(8)))
    assert ranks.trajectory_hash() == alone.trajectory_hash()
    assert owned[0] == (n, *[0] * 7)
    assert owned[-1][0] < n


def test_a_single_point_of_overlapping_atoms_on_ranks_has_the_energy_of_one(device, caplog):
    system, repulsion = overlapping_waters()
    alone, ranks = on_one(system, "fast").evaluate(), on_ranks(system, 2, "fast").evaluate()
    assert ranks["lj"] == pytest.approx(repulsion, rel=1e-4)
    assert ranks["lj"] == pytest.approx(alone["lj"], rel=1e-6)
    assert caplog.text.count("atoms overlap, a run cannot start so") >= 2


def test_arrays_and_channels_that_were_outgrown_are_freed_on_all_processes(device, monkeypatch):
    system = bundled_system(nsttcouple=2, nstcomm=2, nstlist=2)
    ranks = on_ranks(system, 2, "reproducible", plan="staged")
    ranks.run(2)
    search, transport, freed = ranks.rank._search, ranks.rank.transport, []
    monkeypatch.setattr(transport.memory, "free", freed.append)
    channels = [search.fields.channel_x, search.fields.channel_f, search._channel_rows]
    regions = [region for _, region, *_ in transport._fields.values()]
    for channel in channels:
        regions += [channel._signals, *channel._buffers.values()]
    old = search.fields.x
    search.fields.capacity = search._row_capacity = 1
    ranks.run(5)
    alone = on_one(system, "reproducible")
    alone.run(7)
    assert ranks.trajectory_hash() == alone.trajectory_hash()
    assert {id(region.block) for region in regions} <= {id(block) for block in freed}
    assert search.fields.x is not old


@pytest.mark.parametrize("plan", ["staged", "direct"])
@pytest.mark.parametrize(("n_ranks", "coulomb"), [(2, "pme"), (4, "reaction-field")])
def test_a_box_scaled_by_a_barostat_on_ranks_is_that_of_one(device, n_ranks, coulomb, plan):
    barostat = {"pcoupl": "c-rescale", "tau_p": 0.2, "nstpcouple": 3, "compressibility": (4.5e-5, 3e-5)}
    barostat |= {"pcoupltype": "semiisotropic", "ref_p": (1.0, 800.0)}
    system = bundled_system(nsttcouple=5, nstcomm=10, nstlist=8, coulombtype=coulomb, **barostat)
    alone = on_one(system, "reproducible")
    alone.run(40)
    ranks = on_ranks(system, n_ranks, "reproducible", plan=plan)
    ranks.run(40)
    assert ranks.trajectory_hash() == alone.trajectory_hash()
    assert abs(alone.rank.read_cell().volume / system.volume - 1.0) > 1e-4
    assert (ranks.rank.searches_on_device > 0) == (plan == "direct")
    expected, found = alone.evaluate(), ranks.evaluate()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-9, abs=1e-9), name


@pytest.mark.parametrize("plan", ["staged", "direct"])
def test_restrained_atoms_whose_centre_follows_the_box_on_ranks_have_the_hash_of_one(device, tmp_path, plan):
    barostat = {
        "pcoupl": "berendsen",
        "tau_p": 0.2,
        "nstpcouple": 2,
        "compressibility": (4.5e-5,),
        "ref_p": (1.0,),
    }
    system = restrained_system(tmp_path, nstlist=6, refcoord_scaling="com", **barostat)
    alone, ranks = on_one(system, "reproducible"), on_ranks(system, 2, "reproducible", plan=plan)
    for simulation in (alone, ranks):
        simulation.run(8)
    assert ranks.trajectory_hash() == alone.trajectory_hash()
    expected, found = alone.evaluate(), ranks.evaluate()
    assert expected["position_restraint"] > 1.0
    for term, value in expected.items():
        assert found[term] == pytest.approx(value, rel=1e-9, abs=1e-9), term


@pytest.mark.parametrize("plan", ["staged", "direct"])
@pytest.mark.parametrize("name", ["peptide", "water-ethanol"])
def test_velocity_verlet_of_constrained_groups_on_ranks_is_that_of_one(device, name, plan):
    barostat = {
        "pcoupl": "c-rescale",
        "tau_p": 0.5,
        "nstpcouple": 3,
        "compressibility": (4.5e-5,),
        "ref_p": (1.0,),
    }
    system = bundled_system(name, integrator="md-vv", nsttcouple=2, nstcomm=5, nstlist=6, **barostat)
    alone, ranks = on_one(system, "reproducible"), on_ranks(system, 2, "reproducible", plan=plan)
    frames = []
    for simulation in (alone, ranks):
        simulation.run(15)
        frames.append(simulation.frame())
    assert ranks.trajectory_hash() == alone.trajectory_hash()
    assert np.array_equal(frames[0].v, frames[1].v)
    expected, found = alone.evaluate(), ranks.evaluate()
    for term, value in expected.items():
        assert found[term] == pytest.approx(value, rel=1e-9, abs=1e-9), term


@pytest.mark.parametrize("integrator", ["md", "sd"])
def test_annealed_water_on_ranks_has_the_hash_of_one(device, integrator):
    points = {"annealing": ("single",), "annealing_npoints": (2,), "annealing_time": (0.0, 0.02)}
    points |= {"annealing_temp": (300.0, 500.0), "integrator": integrator}
    system = bundled_system(
        nsttcouple=2, nstlist=6, tau_t=0.05, tcoupl="v-rescale" if integrator == "md" else "no", **points
    )
    alone, ranks = on_one(system, "reproducible"), on_ranks(system, 2, "reproducible")
    for simulation in (alone, ranks):
        simulation.run(12)
    assert ranks.trajectory_hash() == alone.trajectory_hash()
    assert alone.evaluate()["temperature"] > 310.0


def test_positions_of_the_last_search_and_rows_of_now_are_in_one_order(device):
    system = bundled_system(nstlist=2)
    (transport,) = local_transports("nvshmem-fused", 2)
    ranks = Simulation(ProcessControl(transport), system, RunOptions(device="cuda", ranks=2))
    ranks.run(4)
    before = ranks.gather()
    ranks.run(1)
    searched, now = ranks.gather_searched(), ranks.gather()
    assert np.array_equal(searched.x, before.x)
    assert not np.array_equal(now.x, before.x)


def test_what_memory_held_before_does_not_count(device, monkeypatch):
    system = bundled_system(nsttcouple=2, nstcomm=2, nstlist=2)
    alone = on_one(system, "reproducible")
    alone.run(6)
    empty = CudaDevice.empty

    def dirty(self, shape, dtype):
        array = empty(self, shape, dtype)
        self.fill_ones(array)
        if np.dtype(dtype).kind == "f":
            with self.current():
                array[...] = 1.0
        return array

    monkeypatch.setattr(CudaDevice, "empty", dirty)
    ranks = on_ranks(system, 2, "reproducible")
    ranks.run(6)
    assert ranks.trajectory_hash() == alone.trajectory_hash()


@pytest.mark.parametrize("graph", [True, False])
@pytest.mark.parametrize("name", ["peptide", "water-ethanol"])
def test_the_trajectory_of_molecules_on_ranks_has_the_hash_of_one(device, name, graph):
    system = bundled_system(name)
    alone = on_one(system, "reproducible")
    alone.run(STEPS)
    ranks = on_ranks(system, 4, "reproducible", graph=graph)
    ranks.warm_up()
    ranks.run(STEPS)
    assert ranks.trajectory_hash() == alone.trajectory_hash()


@pytest.mark.parametrize("top", [MIXED_TOP, SITES_TOP], ids=["atoms", "sites"])
@pytest.mark.parametrize("rung", ["nvshmem-pulse", "nvshmem-fused"])
def test_the_trajectory_of_a_mixture_on_two_ranks_has_the_hash_of_one(device, tmp_path, rung, top):
    system = mixed_system(tmp_path, top=top, rlist=0.7, rcoulomb=0.65, rvdw=0.65)
    alone = on_one(system, "reproducible")
    alone.run(STEPS)
    ranks = on_ranks(system, 2, "reproducible", rung)
    ranks.run(STEPS)
    assert ranks.trajectory_hash() == alone.trajectory_hash()


def test_energies_in_fast_mode_on_ranks_equal_those_of_one(device):
    system = bundled_system("peptide")
    expected, found = on_one(system, "fast").evaluate(), on_ranks(system, 4, "fast").evaluate()
    for name in ("lj", "coulomb", "potential", "kinetic", "bond", "angle"):
        assert found[name] == pytest.approx(expected[name], rel=1e-5, abs=1e-2), name
    assert found["pressure"] == pytest.approx(expected["pressure"], rel=1e-4, abs=0.2)


@pytest.mark.parametrize("rung", ["nvshmem-fused", "nvshmem-step"])
def test_energy_is_conserved_on_ranks_in_fast_mode(device, rung):
    system = bundled_system(tcoupl="no", nsttcouple=0)
    ranks = on_ranks(system, 4, "fast", rung)
    ranks.run(100)
    before = ranks.evaluate()["conserved"]
    ranks.run(1000)
    assert abs(ranks.evaluate()["conserved"] - before) < 20.0
    assert np.isfinite(before)


def test_forces_on_ghosts_are_awaited_from_the_first_step_on(device):
    """A word that nobody has written yet must not look like one that announces the forces of the first step."""
    steps = on_ranks(bundled_system(), 2, "reproducible", "nvshmem-step").rank._search.fields.steps
    epochs = device.to_host(steps._states)[:, 0]
    words = (
        device.to_host(steps._signals.block.local).view(np.uint64).reshape(2, 2, steps.n_pulses, -1)[..., 0]
    )
    assert (words[:, 0] >= epochs[:, None]).all()  # positions, by the search
    assert (words[:, 1] < epochs[:, None]).all()


def test_tables_of_the_host_stay_until_a_search_on_the_device_makes_others(device, monkeypatch):
    uploaded, upload = {}, TableBuffers.upload

    def note(self, tables, room):
        uploaded[id(self)] = self, tables
        return upload(self, tables, room)

    monkeypatch.setattr(TableBuffers, "upload", note)
    ranks = on_ranks(bundled_system(), 8, "reproducible", plan="direct", grid=(2, 2, 2))
    assert ranks.rank.searches_on_device == 0
    assert (
        max(len(tables.waits) for _, tables in uploaded.values()) > 7
    )  # not one for each pulse, as on the device
    for buffers, tables in uploaded.values():
        for name, array in zip(TABLES, buffers.arrays(), strict=True):
            wanted = getattr(tables, name).reshape(-1).view(np.uint8)
            assert (device.to_host(array)[: len(wanted)] == wanted).all(), name
