"""Which device a run takes: what was asked for, and what a GPU cannot compute."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from pulsemd.base.errors import ConfigError, TransportError
from pulsemd.engine import device
from pulsemd.engine.options import RunOptions
from pulsemd.forcefield.settings import RunSettings
from pulsemd.halo.rungs.world import _check_gpus
from pulsemd.io.gromacs.system import read_top
from pulsemd.kernels.bonded import gpu as gpu_bonded
from pulsemd.kernels.bonded.gpu import kinds_without_kernel
from pulsemd.kernels.update.cuda_programs import GROUP_SIZES
from pulsemd.kernels.update.gpu_tables import oversized_group
from pulsemd.systems import system_files

TOPOLOGY = SimpleNamespace(terms={})
SETTINGS = RunSettings()
LACKING = "terms of these kinds run on CPUs only: bond"


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(device, "has_driver", lambda: True)
    monkeypatch.setattr(device, "find_device_problem", lambda: None)
    monkeypatch.setattr(device, "count_devices", lambda: 1)


@pytest.fixture
def lacking_gpu(gpu, monkeypatch):
    """One without a kernel for bonds."""
    monkeypatch.setattr(device, "kinds_without_kernel", lambda _terms: ["bond"])


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"transport": "nccl", "ranks": 2}, "--transport nccl"),
        ({"ranks_per_gpu": 2, "ranks": 2}, "--ranks-per-gpu 2"),
    ],
)
def test_what_only_gpus_have_is_refused_on_cpus(monkeypatch, given, what):
    monkeypatch.setattr(device, "has_driver", lambda: False)
    with pytest.raises(TransportError, match=f"{what}: needs GPUs; this machine has no NVIDIA driver"):
        device.choose_device(RunOptions(device="auto", **given))
    with pytest.raises(TransportError, match=f"{what}: needs GPUs; leave out --device cpu"):
        device.choose_device(RunOptions(device="cpu", **given))


def test_auto_takes_a_gpu_that_is_there(gpu):
    options = device.choose_device(RunOptions(device="auto"))
    assert options.device == "cuda"
    assert "a GPU is there" in options.device_reason


def test_auto_takes_one_of_several_gpus_and_says_why(gpu, monkeypatch):
    monkeypatch.setattr(device, "count_devices", lambda: 2)
    options = device.choose_device(RunOptions(device="auto"))
    assert (options.device, options.ranks) == ("cuda", 1)
    assert "small systems run fastest on one, --ranks takes more" in options.device_reason
    asked = device.choose_device(RunOptions(device="auto", ranks=2))
    assert "fastest on one" not in asked.device_reason


def test_auto_takes_the_cpu_where_the_gpu_cannot_compute_the_system_and_says_why(lacking_gpu):
    options = device.fit_device(device.choose_device(RunOptions(device="auto")), TOPOLOGY, SETTINGS)
    assert options.device == "cpu"
    assert options.device_reason == LACKING


def test_a_gpu_that_was_asked_for_and_cannot_compute_the_system_is_refused_with_the_remedy(lacking_gpu):
    options = device.choose_device(RunOptions(device="cuda"))
    with pytest.raises(ConfigError, match=f"--device cuda: {LACKING}; use --device cpu"):
        device.fit_device(options, TOPOLOGY, SETTINGS)


def test_unwrapped_positions_take_the_cpu_unless_a_gpu_was_asked_for(gpu):
    options = device.choose_device(RunOptions(device="auto", count_images=True))
    assert (options.device, "unwrapped" in options.device_reason) == ("cpu", True)
    with pytest.raises(TransportError, match=r"--positions unwrapped .*; use --device cpu"):
        device.choose_device(RunOptions(device="cuda", count_images=True))


def test_more_processes_than_gpus_are_refused_with_the_numbers_and_auto_takes_the_cpu(gpu):
    with pytest.raises(TransportError, match="4 ranks with 2 on each need 2 GPUs, and this machine has 1"):
        device.choose_device(RunOptions(device="cuda", ranks=4, ranks_per_gpu=2))
    assert device.choose_device(RunOptions(device="auto", ranks=2)).device == "cpu"
    assert device.choose_device(RunOptions(device="cuda", ranks=4, ranks_per_gpu=4)).device == "cuda"


def test_processes_that_may_share_a_gpu_are_more_than_gpus(gpu, monkeypatch):
    monkeypatch.setenv("PULSEMD_PROCESSES_PER_GPU", "2")
    assert device.choose_device(RunOptions(device="cuda", ranks=2)).device == "cuda"
    with pytest.raises(TransportError, match="3 ranks with 1 on each need 3 GPUs, and this machine has 1"):
        device.choose_device(RunOptions(device="cuda", ranks=3))


@pytest.mark.parametrize("text", ["0", "-1", "2.0", "all"])
def test_a_number_of_sharing_processes_that_is_none_is_refused(gpu, monkeypatch, text):
    monkeypatch.setenv("PULSEMD_PROCESSES_PER_GPU", text)
    with pytest.raises(ConfigError, match=f"PULSEMD_PROCESSES_PER_GPU is '{text}'; give a whole number"):
        device.choose_device(RunOptions(device="cuda", ranks=2))


@pytest.mark.parametrize(
    ("limit", "cards", "refused"), [("", "aab", "0 and 1"), ("2", "baaa", "1 and 3"), ("2", "abab", None)]
)
def test_more_processes_on_a_gpu_than_may_share_it_are_refused_by_name(monkeypatch, limit, cards, refused):
    monkeypatch.setenv("PULSEMD_PROCESSES_PER_GPU", limit)
    shares, names = [(False, card) for card in cards], ["host"] * len(cards)
    if refused is None:
        _check_gpus(shares, names)
    else:
        with pytest.raises(TransportError, match=f"processes {refused} have the same GPU of host"):
            _check_gpus(shares, names)


def test_processes_started_on_several_machines_need_no_more_than_a_gpu_each(gpu):
    asked = RunOptions(device="cuda", ranks=4)
    assert device.choose_device(asked, started=True).device == "cuda"
    assert device.choose_device(replace(asked, device="auto"), started=True).device == "cpu"


def test_ranks_that_cannot_be_shared_out_are_refused(gpu):
    with pytest.raises(TransportError, match="3 ranks cannot be shared out 2 to a GPU"):
        device.choose_device(RunOptions(device="cuda", ranks=3, ranks_per_gpu=2))


def test_several_ranks_leave_gpus_that_cannot_compute_the_system_before_they_are_started(
    lacking_gpu, monkeypatch
):
    monkeypatch.setattr(device, "count_devices", lambda: 2)
    options = device.choose_device(RunOptions(device="auto", ranks=2))
    assert device.fit_device(options, TOPOLOGY, SETTINGS).device == "cpu"
    with pytest.raises(ConfigError, match=LACKING):
        device.fit_device(options, TOPOLOGY, SETTINGS, started=True)


def test_cpus_compute_every_system():
    options = RunOptions(device="cpu")
    assert device.fit_device(device.choose_device(options), TOPOLOGY, SETTINGS) == options


def test_terms_that_only_cpus_compute_are_named(monkeypatch):
    terms = {"bond": [0], "connection": [0], "angle": []}
    assert kinds_without_kernel(terms) == []
    for kind in terms:
        monkeypatch.delitem(gpu_bonded._CODES, kind, raising=False)
    assert kinds_without_kernel(terms) == ["bond"]


def test_constraints_that_tie_too_many_atoms_together_are_named():
    sizes = [2, GROUP_SIZES[-1]]
    assert oversized_group(SimpleNamespace(offset=np.cumsum([0, *sizes]))) is None
    problem = oversized_group(SimpleNamespace(offset=np.cumsum([0, *sizes, GROUP_SIZES[-1] + 1])))
    assert problem is not None
    assert f"tie {GROUP_SIZES[-1] + 1} atoms together" in problem


def with_baths(n):
    return replace(SETTINGS, tcoupl="v-rescale", tc_grps=tuple(map(str, range(n))), tau_t=0.1)


def test_more_coupling_groups_than_a_gpu_has_room_for_are_refused_with_the_remedy():
    topology, _ = read_top(system_files("water").topology)
    options = RunOptions(device="cuda", device_asked=True)
    assert device.fit_device(options, topology, SETTINGS) == options
    assert device.fit_device(options, topology, with_baths(16)) == options
    with pytest.raises(
        ConfigError, match="17 tc-grps, and a GPU has room for the thermostats of 16: join groups"
    ):
        device.fit_device(options, topology, with_baths(17))
    three = replace(with_baths(16), comm_grps=("A", "B", "C"))
    assert device.fit_device(options, topology, three) == options
    with pytest.raises(
        ConfigError,
        match="4 comm-grps, and with 16 tc-grps a GPU has room for 3: join groups; use --device cpu",
    ):
        device.fit_device(options, topology, replace(three, comm_grps=("A", "B", "C", "D")))


@pytest.mark.parametrize("integrator", ["md", "md-vv", "sd"])
def test_networks_of_constraints_run_on_several_gpus(integrator):
    files = system_files("peptide")
    topology, _ = read_top(files.topology, RunSettings(constraints="all-bonds"))
    options = RunOptions(ranks=2, device="cuda", device_asked=True)
    assert device.fit_device(options, topology, replace(SETTINGS, integrator=integrator)) == options
