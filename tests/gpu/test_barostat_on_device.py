"""Barostats on a GPU follow those on a CPU: box, velocities, work and what is reported."""

from __future__ import annotations

import numpy as np
import pytest
from run_files import run, write_input

from pulsemd.cli.main import main
from pulsemd.io.energies import read_energies
from step_by_step import BAROSTAT, states
from systems import SITES_TOP, mixed_system, restrained_system

pytestmark = pytest.mark.gpu

LAYERS = BAROSTAT | {
    "pcoupltype": "semiisotropic", "compressibility": (4.5e-5, 2e-5), "ref_p": (1.0, 300.0), "nstpcouple": 1,
}  # fmt: skip
CRYSTAL = BAROSTAT | {
    "pcoupltype": "anisotropic", "compressibility": (4.5e-5, 2e-5, 0, 0, 0, 0), "ref_p": (1.0, 300.0, -200.0, 0, 0, 0),
}  # fmt: skip
MOVING = BAROSTAT | {"pcoupl": "parrinello-rahman", "tcoupl": "nose-hoover"}
LAYERS_MOVE = LAYERS | {"pcoupl": "parrinello-rahman", "nstpcouple": 2}
FIXED_HEIGHT = LAYERS_MOVE | {"compressibility": (LAYERS["compressibility"][0], 0.0)}
CRYSTAL_MOVES = CRYSTAL | {"pcoupl": "parrinello-rahman", "tcoupl": "nose-hoover"}
WEAK = BAROSTAT | {"pcoupl": "berendsen", "tcoupl": "berendsen"}


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
@pytest.mark.parametrize(
    "how",
    [BAROSTAT, LAYERS, WEAK, MOVING, LAYERS_MOVE, FIXED_HEIGHT, CRYSTAL, CRYSTAL_MOVES],
    ids=[
        *("isotropic", "semiisotropic", "berendsen", "moving", "layers move", "fixed height", "anisotropic"),
        "all edges move",
    ],
)
@pytest.mark.parametrize("coulomb", ["reaction-field", "pme"])
def test_cell_on_device_follows_cpu(device, tmp_path, how, precision, coulomb):
    system = mixed_system(
        tmp_path,
        top=SITES_TOP,
        coulombtype=coulomb,
        nsttcouple=2,
        nstlist=5,
        dispcorr="enerpres",
        **how,
    )
    ends = [states(system, place, precision, 12) for place in ("cpu", "cuda")]
    (before, cpu, work), (after, gpu, device_work) = ends
    assert np.abs(cpu.cell.box - system.box).max() > 1e-5
    np.testing.assert_allclose(
        gpu.cell.box, cpu.cell.box, rtol=0, atol=1e-8 if precision == "reproducible" else 2e-6
    )
    np.testing.assert_allclose(gpu.cell.user_box, gpu.cell.box, rtol=0, atol=1e-15)
    np.testing.assert_allclose(gpu.v, cpu.v, atol=2e-3)
    np.testing.assert_allclose(device_work, work, atol=2e-2, rtol=1e-4)
    for name in ("volume", "conserved", "pressure", "dispersion_correction"):
        np.testing.assert_allclose([r[name] for r in after], [r[name] for r in before], rtol=2e-4, atol=0.5)


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
@pytest.mark.parametrize("scaling", ["com", "all"])
def test_restrained_atoms_in_a_cell_on_device_follow_cpu(device, tmp_path, scaling, precision):
    system = restrained_system(tmp_path, nstlist=5, refcoord_scaling=scaling, **WEAK)
    (before, cpu, work), (after, gpu, device_work) = [
        states(system, place, precision, 12) for place in ("cpu", "cuda")
    ]
    assert np.abs(cpu.cell.box - system.box).max() > 1e-5
    np.testing.assert_allclose(
        gpu.cell.box, cpu.cell.box, rtol=0, atol=1e-8 if precision == "reproducible" else 2e-6
    )
    np.testing.assert_allclose(gpu.v, cpu.v, atol=2e-3)
    np.testing.assert_allclose(device_work, work, atol=2e-2, rtol=1e-4)
    for name in ("position_restraint", "flat_bottom", "pressure"):
        assert abs(after[-1][name]) > 0.1, name
        np.testing.assert_allclose([r[name] for r in after], [r[name] for r in before], rtol=2e-4, atol=0.5)


@pytest.mark.parametrize(
    ("pcoupl", "tcoupl"), [("c-rescale", "v-rescale"), ("parrinello-rahman", "nose-hoover")]
)
def test_restart_with_a_barostat_on_device_gives_the_same_hash_and_files(device, tmp_path, pcoupl, tcoupl):
    given = {"pcoupl": pcoupl, "compressibility": "4.5e-5", "ref_p": "1", "nstpcouple": 3, "tau_p": 0.5}
    given |= {"tcoupl": tcoupl, "tc_grps": "System", "tau_t": 0.5, "ref_t": 300}
    words = write_input(tmp_path, nstenergy=5, nstcalcenergy=5, nstxout_compressed=5, **given)
    cuda = ("--device", "cuda")
    whole = run(tmp_path, words, "whole", 50, *cuda)
    run(tmp_path, words, "part", 23, *cuda)
    again = run(tmp_path, words, "part", 50, *cuda, "--restart", tmp_path / "part")
    assert again["trajectory_hash"] == whole["trajectory_hash"]
    for name in ("energies.csv", "trajectory.dcd", "checkpoint.pmd"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "part" / name).read_bytes(), name
    assert len(set(read_energies(tmp_path / "whole" / "energies.csv")["volume"])) == 11


def test_box_that_shrinks_too_fast_on_device_ends_the_run(device, tmp_path, capsys):
    given = {"pcoupl": "berendsen", "tau_p": 0.01, "compressibility": "4.5e-5", "ref_p": 1e5, "nstpcouple": 1}
    words = write_input(tmp_path, **given)
    code = main(["run", *words, "-o", str(tmp_path / "out"), "--steps", "60", "--device", "cuda"])
    assert code == 6
    assert "the barostat changed the box by -" in capsys.readouterr().err
