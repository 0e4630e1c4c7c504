"""Groups of atoms: index files, default groups, output and coupling of groups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from run_files import write_input

from pulsemd.base.errors import InputError
from pulsemd.cli.main import main
from pulsemd.engine.coupling_groups import groups_of_atoms, held_groups_of_atoms
from pulsemd.engine.gromacs_system import system_from_gromacs
from pulsemd.forcefield.settings import RunSettings
from pulsemd.io.energies import read_energies
from pulsemd.io.gromacs.groups import Groups, default_groups, read_index
from pulsemd.io.gromacs.system import read_system, read_top
from pulsemd.io.trajectory import read_dcd
from pulsemd.systems import system_files


@pytest.fixture
def topology(tmp_path):
    words = write_input(tmp_path)
    return read_system(words[1], words[5], words[3])[0]


def test_default_groups_of_water_are_those_of_gmx(topology):
    groups = default_groups(topology)
    assert {name: len(gids) for name, gids in groups.items()} == {"System": 3000, "Water": 3000, "SOL": 3000}


def test_index_file_gives_groups_and_refuses_bad_atoms(tmp_path, topology):
    path = tmp_path / "index.ndx"
    path.write_text("[ oxygens ]\n1 4\n7\n[ Water ]\n 1 2 3 ; comment\n")
    groups = Groups(topology, path)
    assert groups.find("oxygens", "x").tolist() == [0, 3, 6]
    assert groups.find("water", "x").tolist() == [0, 1, 2]
    assert groups.union(("oxygens", "Water"), "x").tolist() == [0, 1, 2, 3, 6]
    assert groups.union(("System", "oxygens"), "x") is None
    with pytest.raises(InputError, match="there is no group oxigens; there are oxygens, Water, System"):
        groups.find("oxigens", "compressed-x-grps")
    path.write_text("[ a ]\n1\n3001\n")
    with pytest.raises(InputError, match=r"index.ndx:3: '3001' is no atom 1 to 3000"):
        read_index(path, 3000)


def test_index_group_goes_before_the_default_one_in_any_case_and_the_first_of_a_name_counts(
    tmp_path, topology, caplog
):
    path = tmp_path / "index.ndx"
    path.write_text("[ water ]\n1 2 3\n[ twice ]\n4\n[ twice ]\n5 6\n")
    groups = Groups(topology, path)
    assert groups.find("Water", "x").tolist() == [0, 1, 2]
    assert groups.find("twice", "x").tolist() == [3]
    assert "index.ndx:5: a second group twice, which is not used" in caplog.text


def test_system_of_the_index_file_is_the_one_that_counts(tmp_path, topology):
    path = tmp_path / "index.ndx"
    path.write_text("[ System ]\n1 2 3\n")
    groups = Groups(topology, path)
    assert groups.union(("system",), "x").tolist() == [0, 1, 2]
    settings = RunSettings(tcoupl="v-rescale", tc_grps=("System",), tau_t=0.5, ref_t=300.0)
    with pytest.raises(InputError, match=r"SOL 2 OW \(atom 4\) is in 0 of the groups System"):
        groups_of_atoms(settings, groups)


def test_thermostat_groups_must_hold_every_atom_once(tmp_path, topology):
    path = tmp_path / "index.ndx"
    path.write_text("[ a ]\n1 2 3\n[ b ]\n" + " ".join(map(str, range(4, 3001))) + "\n")
    groups = Groups(topology, path)
    settings = RunSettings(tcoupl="v-rescale", tau_t=0.5, ref_t=300.0)
    found = groups_of_atoms(replace(settings, tc_grps=("b", "a")), groups)
    assert found.tolist() == [1] * 3 + [0] * 2997
    assert groups_of_atoms(replace(settings, tc_grps=("System",)), groups) is None
    assert groups_of_atoms(replace(settings, tc_grps=("SOL",)), groups) is None
    with pytest.raises(InputError, match=r"SOL 2 OW \(atom 4\) is in 0 of the groups a"):
        groups_of_atoms(replace(settings, tc_grps=("a",)), groups)


def test_groups_with_stopped_centres_of_mass_hold_an_atom_at_most_once(tmp_path, topology):
    path = tmp_path / "index.ndx"
    path.write_text("[ a ]\n1 2 3\n[ b ]\n4 5 6\n[ c ]\n6 7\n[ all ]\n" + " ".join(map(str, range(1, 3001))))
    groups = Groups(topology, path)
    found = held_groups_of_atoms(RunSettings(comm_grps=("b", "a")), groups)
    assert found.tolist() == [1] * 3 + [0] * 3 + [-1] * 2994
    assert held_groups_of_atoms(RunSettings(comm_grps=("all",)), groups) is None
    assert held_groups_of_atoms(RunSettings(), groups) is None
    with pytest.raises(InputError, match=r"comm-grps: SOL 2 HW2 \(atom 6\) is in 2 of .* in at most one"):
        held_groups_of_atoms(RunSettings(comm_grps=("b", "c")), groups)
    with pytest.raises(InputError, match="comm-grps: there is no group SOLV; there are a, b"):
        held_groups_of_atoms(RunSettings(comm_grps=("a", "SOLV")), groups)


def test_run_writes_only_the_groups_asked_for_and_couples_each(tmp_path):
    path = tmp_path / "index.ndx"
    path.write_text("[ first ]\n1 2 3\n[ rest ]\n" + " ".join(map(str, range(4, 3001))) + "\n")
    settings = {"compressed_x_grps": "first", "tc_grps": "first rest", "tau_t": "0.5 0.5", "ref_t": "300 300"}
    words = write_input(tmp_path, nstxout_compressed=5, **settings)
    out = tmp_path / "out"
    assert main(["run", *words, "-n", str(path), "-o", str(out), "--steps", "10", "--device", "cpu"]) == 0
    assert {"temperature_first", "temperature_rest"} <= read_energies(out / "energies.csv").keys()
    trajectory = read_dcd(out / "trajectory.dcd")
    assert trajectory.positions.shape == (3, 3, 3)
    assert (
        np.abs(np.linalg.norm(trajectory.positions[:, 0] - trajectory.positions[:, 1], axis=1) - 0.1).max()
        < 1e-4
    )


def test_groups_with_unequal_temperatures_must_hold_every_atom_once_and_have_as_many_values(tmp_path, capsys):
    words = write_input(tmp_path, tc_grps="System SOL", tau_t="0.5 0.5", ref_t="300 310")
    assert main(["run", *words, "-o", str(tmp_path / "out")]) == 3
    assert "is in 2 of the groups System, SOL; each atom has to be in one" in capsys.readouterr().err
    words = write_input(tmp_path, tc_grps="System SOL", tau_t="0.5 0.5", ref_t="300 310 320")
    assert main(["run", *words, "-o", str(tmp_path / "out")]) == 3
    assert "ref_t has 3 values for 2 tc_grps" in capsys.readouterr().err


def test_default_groups_of_the_peptide_are_those_of_gmx_make_ndx():
    groups = default_groups(read_top(system_files("peptide").topology, RunSettings(constraints="h-bonds"))[0])
    recorded = {  # gmx 2022.5 make_ndx -f conf.gro
        "System": 5843, "Protein": 304, "Protein-H": 154, "C-alpha": 20, "Backbone": 60, "MainChain": 81,
        "MainChain+Cb": 98, "MainChain+H": 99, "SideChain": 205, "SideChain-H": 73, "non-Protein": 5539,
        "Water": 5538, "SOL": 5538, "non-Water": 305, "Ion": 1, "Water_and_ions": 5539,
    }  # fmt: skip
    assert {name: len(groups[name]) for name in recorded} == recorded


def test_default_groups_follow_names_of_residues_and_atoms_as_gmx_make_ndx_does(tmp_path):
    residues = ["ALA", "gly", "LYP", "HOH", "Na", "K", "Cal", "CAL", "K+"]
    names = ["1CA", "ca", "CB", "1HA", "hb", "OT1", "OT", "mcb2"]
    rows = "[ defaults ]\n1 2\n[ atomtypes ]\nA 1 1.0 0 A 0.3 0.5\n"
    for number, residue in enumerate(residues):
        atoms = "".join(f"{k + 1} A 1 {residue} {name} 1 0 12\n" for k, name in enumerate(names))
        rows += f"[ moleculetype ]\nM{number} 1\n[ atoms ]\n{atoms}"
    rows += "[ system ]\nx\n[ molecules ]\n" + "".join(f"M{k} 1\n" for k in range(len(residues)))
    (tmp_path / "topol.top").write_text(rows)
    groups = default_groups(read_top(tmp_path / "topol.top")[0])
    found = {  # atoms of a residue from 0, and residues; gmx 2022.5 make_ndx -f of a .gro with these names
        "Protein": ([0, 1, 2, 3, 4, 5, 6, 7], ["ALA", "LYP"]),
        "Protein-H": ([0, 1, 2, 5, 6, 7], ["ALA", "LYP"]),
        "C-alpha": ([0, 1], ["ALA", "LYP"]),
        "MainChain": ([0, 1, 6], ["ALA", "LYP"]),
        "SideChain-H": ([2, 5, 7], ["ALA", "LYP"]),
        "Prot-Masses": ([0, 1, 2, 3, 4, 5, 6], ["ALA", "LYP"]),
        "Water": (range(8), ["HOH"]),
        "SOL": (range(8), ["HOH"]),
        "Ion": (range(8), ["K", "Cal"]),
        "Other": (range(8), ["gly", "Na", "CAL", "K+"]),
    }
    for group, (atoms, of) in found.items():
        assert groups[group].tolist() == [8 * residues.index(r) + k for r in of for k in atoms], group


MEMBRANE = """
integrator = md
dt = 0.002
nsteps = 40
nstcalcenergy = 20
nstenergy = 20
cutoff-scheme = Verlet
nstlist = 20
vdwtype = Cut-off
vdw-modifier = Force-switch
rvdw_switch = 0.8
rvdw = 1.0
coulombtype = PME
rcoulomb = 1.0
tcoupl = v-rescale
tc_grps = SOLU MEMB SOLV
tau_t = 1.0 1.0 1.0
ref_t = 303.15 303.15 303.15
pcoupl = C-rescale
pcoupltype = semiisotropic
tau_p = 5.0
compressibility = 4.5e-5 4.5e-5
ref_p = 1.0 1.0
constraints = h-bonds
continuation = yes
nstcomm = 10
comm_mode = linear
comm_grps = SOLU_MEMB SOLV
ld-seed = 7
"""


def test_settings_of_a_membrane_run_as_they_are_with_the_degrees_of_freedom_of_gmx(tmp_path):
    """Ethanol stands for a protein and lipids; degrees of freedom as ``gmx_d dump`` 2022.5 shows them."""
    files = system_files("water-ethanol")
    groups = {"SOLU": (1, 90), "MEMB": (91, 396), "SOLU_MEMB": (1, 396), "SOLV": (397, 3432)}
    text = "".join(f"[ {name} ]\n{' '.join(map(str, range(a, b + 1)))}\n" for name, (a, b) in groups.items())
    (tmp_path / "index.ndx").write_text(text)
    (tmp_path / "run.mdp").write_text(MEMBRANE)
    words = ["-c", str(files.configuration), "-p", str(files.topology), "-f", str(tmp_path / "run.mdp")]
    words += ["-n", str(tmp_path / "index.ndx"), "--device", "cpu"]
    assert main(["energy", *words]) == 0
    assert main(["run", *words, "-o", str(tmp_path / "out")]) == 0
    found = read_energies(tmp_path / "out" / "energies.csv")
    assert {"temperature_SOLU", "temperature_MEMB", "temperature_SOLV"} <= found.keys()
    arguments = files.configuration, files.topology, tmp_path / "run.mdp"
    system = system_from_gromacs(*arguments, (), None, tmp_path / "index.ndx", None, {})
    assert [f"{n:g}" for n in system.group_n_dof] == ["209.318", "711.682", "6069"]
