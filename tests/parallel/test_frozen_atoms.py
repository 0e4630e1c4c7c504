"""Freeze groups: atoms that stay, on any number of ranks."""

from __future__ import annotations

import numpy as np
import pytest
from run_files import write_input

from pulsemd import Simulation
from pulsemd.base.errors import InputError
from pulsemd.io.checkpoint import read_checkpoint
from pulsemd.systems import system_files

COMMON = ["--precision", "reproducible", "--device", "cpu", "--steps", "25"]


def write_groups(folder, atoms):
    """An index file with a group Still."""
    (folder / "index.ndx").write_text("[ Still ]\n" + " ".join(str(atom + 1) for atom in atoms) + "\n")
    return ["-n", str(folder / "index.ndx")]


def test_frozen_waters_stay_and_the_others_move_alike_on_1_and_3_ranks(pulsemd):
    folder = pulsemd.folder
    still = np.arange(300, 600)
    words = ["run", *write_input(folder, freezegrps="Still", freezedim="Y Y Y"), *write_groups(folder, still)]
    one = pulsemd.summary(*words, *COMMON, "-o", "one")
    three = pulsemd.summary(*words, *COMMON, "-o", "three", "--ranks", 3)
    assert one["trajectory_hash"] == three["trajectory_hash"]
    last = read_checkpoint(folder / "one")
    first = read_checkpoint(folder / "one" / "checkpoint.prev.pmd")
    assert first.step < last.step
    moved = (first.x != last.x).any(1)
    assert not moved[still].any()
    assert np.delete(moved, still).all()
    assert not last.v[still].any()


def test_energies_of_a_frozen_peptide_count_what_moves():
    files = system_files("peptide")
    given = {"freezegrps": ("Protein",), "freezedim": ("Y", "Y", "Y"), "gen_seed": 3, "ld_seed": 4}
    arguments = files.configuration, files.topology, files.parameters
    with (
        Simulation.from_gromacs(*arguments, device="cpu") as free,
        Simulation.from_gromacs(*arguments, device="cpu", **given) as held,
    ):
        a, b = free.energies, held.energies
        n = free.topology.n_atoms - int(np.count_nonzero(held.topology.mass))
        assert n == 304
        assert b["density"] == pytest.approx(a["density"], rel=1e-12)
        assert b["temperature"] == pytest.approx(300, abs=15)
        before = held.positions
        held.run(20)
        moved = np.abs(held.positions - before).max(1)
        assert moved[:n].max() < 1e-8 < moved[n:].min()


def test_group_that_cuts_a_molecule_with_constraints_is_refused(pulsemd):
    words = ["run", *write_input(pulsemd.folder, freezegrps="Still", freezedim="Y Y Y")]
    done = pulsemd(*words, *write_groups(pulsemd.folder, [3, 4]), *COMMON, "-o", "out")
    assert done.returncode == 3
    assert "SOL 2 OW (atom 4) has a constraint with an atom that moves; freeze whole molecules" in done.stderr


@pytest.mark.parametrize("group", ["System", "SOL"])
def test_everything_frozen_is_refused(group):
    files = system_files("water")
    with pytest.raises(InputError, match="nothing is left that moves"):
        Simulation.from_gromacs(
            files.configuration,
            files.topology,
            files.parameters,
            freezegrps=(group,),
            freezedim=("Y",) * 3,
        )
