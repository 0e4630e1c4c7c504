"""Topologies: what gmx makes of them, and what is refused where."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pulsemd.base.errors import InputError, TopologyError
from pulsemd.forcefield.settings import RunSettings
from pulsemd.io.gromacs import read_gro, read_settings, read_system, read_top, write_gro
from pulsemd.io.gromacs.assemble import assemble
from pulsemd.io.gromacs.top import read_draft
from pulsemd.systems import system_files
from pulsemd.topology.expand import build_topology
from pulsemd.topology.restraints import restraint_centre

DATA = Path(__file__).parent / "data"
GMX = json.loads((DATA / "tables" / "gmx.json").read_text())
WATER = """\
[ defaults ]
1 2 no
[ atomtypes ]
OW 8 15.9994 0.0 A 0.3166 0.65
HW 1 1.008 0.0 A 0.0 0.0
[ moleculetype ]
SOL 2
[ atoms ]
1 OW 1 SOL OW  1 -0.8
2 HW 1 SOL HW1 1  0.4
3 HW 1 SOL HW2 1  0.4
[ settles ]
1 1 0.1 0.1633
[ exclusions ]
1 2 3
2 3
[ system ]
water
[ molecules ]
SOL 2
"""


def changed(tmp_path: Path, old: str, new: str) -> Path:
    assert old in WATER
    path = tmp_path / "topol.top"
    path.write_text(WATER.replace(old, new, 1))
    return path


@pytest.mark.parametrize("case", sorted(GMX))
def test_top_tables_equal_those_of_gmx(case: str) -> None:
    topology, table = read_top(DATA / "tables" / f"{case}.top")
    pairs = np.ix_(topology.type_index, topology.type_index)
    np.testing.assert_allclose(table.c6[pairs], GMX[case]["c6"], rtol=1e-6, atol=1e-30)
    np.testing.assert_allclose(table.c12[pairs], GMX[case]["c12"], rtol=1e-6, atol=1e-30)
    np.testing.assert_allclose(topology.mass, GMX[case]["mass"], rtol=1e-6)
    np.testing.assert_allclose(topology.charge, GMX[case]["charge"], rtol=1e-6)
    rows = np.split(topology.exclusion_atoms, topology.exclusion_offset[1:-1])
    assert [sorted([*row, i]) for i, row in enumerate(rows)] == GMX[case]["exclusions"]


@pytest.mark.parametrize(
    ("case", "rule"),
    [
        ("comb1", "geometric"),
        ("comb2", "lorentz-berthelot"),
        ("comb3", "geometric"),
        ("comb2_negative_sigma", "table"),
        ("comb3_negative_sigma", "table"),
        ("nbfix", "table"),
        ("nbfix_comb1", "table"),
    ],
)
def test_top_combination_named_only_if_every_pair_follows_it(case: str, rule: str) -> None:
    table = read_top(DATA / "tables" / f"{case}.top")[1]
    assert table.combination == rule
    if rule == "lorentz-berthelot":
        sigma = 0.5 * (table.sigma[:, None] + table.sigma)
        epsilon = np.sqrt(table.epsilon[:, None] * table.epsilon)
        np.testing.assert_allclose(table.c6, 4 * epsilon * sigma**6, rtol=1e-12)
        np.testing.assert_allclose(table.c12, 4 * epsilon * sigma**12, rtol=1e-12)
    if rule == "geometric":
        for values in (table.c6, table.c12):
            np.testing.assert_allclose(
                values, np.sqrt(np.outer(np.diag(values), np.diag(values))), rtol=1e-12
            )


def test_top_table_symmetric_and_finite_with_zero_sigma_and_epsilon() -> None:
    for case in GMX:
        table = read_top(DATA / "tables" / f"{case}.top")[1]
        for values in (table.c6, table.c12, table.sigma, table.epsilon):
            assert np.isfinite(values).all()
        assert np.array_equal(table.c6, table.c6.T)
        assert np.array_equal(table.c12, table.c12.T)


def test_top_residues_numbered_as_gmx_does(tmp_path: Path) -> None:
    topology, _ = read_top(DATA / "tables" / "residues.top")
    recorded = read_gro(DATA / "tables" / "residues_gmx.gro")
    write_gro(tmp_path / "ours.gro", topology, recorded.positions, None, recorded.box, "residues")
    theirs = (DATA / "tables" / "residues_gmx.gro").read_text().split("\n")
    assert (tmp_path / "ours.gro").read_text().split("\n")[2:] == theirs[2:]


def test_top_water_expanded_over_molecules(tmp_path: Path) -> None:
    topology, table = read_top(changed(tmp_path, "SOL 2\n[ atoms", "SOL 2\n[ atoms"))
    assert topology.n_atoms == 6
    assert table.type_names == ("OW", "HW")
    assert topology.molecule.tolist() == [0, 0, 0, 1, 1, 1]
    assert topology.settle_atoms.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert topology.settle_parameters.tolist() == [[0.1, 0.1633]] * 2
    assert topology.leader.tolist() == [0, 0, 0, 3, 3, 3]
    assert topology.group_offset.tolist() == [0, 3, 6]
    assert (topology.n_constraints, topology.n_exclusion_pairs, topology.n_molecules) == (6, 6, 2)
    assert topology.describe_atom(4) == "SOL 2 HW1 (atom 5)"


def test_top_unused_atom_types_left_out_of_table(tmp_path: Path) -> None:
    path = changed(tmp_path, "[ moleculetype ]", "ZZ 1 1.0 0.0 A 0.5 0.5\n[ moleculetype ]")
    assert read_top(path)[1].type_names == ("OW", "HW")


def test_top_molecules_listed_twice_and_zero_times_expanded(tmp_path: Path) -> None:
    assert read_top(changed(tmp_path, "SOL 2\n", "sol 2\n"))[0].n_atoms == 6
    path = tmp_path / "twice.top"
    path.write_text(WATER + "SOL 0\nSOL 1\n")
    topology = read_top(path)[0]
    assert topology.n_atoms == 9
    assert topology.describe_atom(8) == "SOL 3 HW2 (atom 9)"


def test_top_crlf_tabs_and_comments_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "crlf.top"
    text = "; title\n" + WATER.replace(" ", "\t").replace("\n", " ; comment ü\n\n")
    path.write_bytes(text.replace("\n", "\r\n").encode())
    assert read_top(path)[0].charge.tolist() == [-0.8, 0.4, 0.4] * 2


def test_top_rigid_water_without_exclusions_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        topology, _ = read_top(DATA / "tables" / "settles_without_exclusions.top")
    assert "not all in [ exclusions ]" in caplog.text
    assert topology.n_exclusion_pairs == 0  # gmx does not take rigid waters for bonds either


def test_top_atom_type_again_with_another_mass_alone_replaces_it_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """CHARMM27 of GROMACS does so with HEAVY_H."""
    with caplog.at_level(logging.WARNING):
        topology, _ = read_top(changed(tmp_path, "HW 1 1.008", "OW 8 9.95 0.0 A 0.3166 0.65\nHW 1 1.008"))
    assert topology.mass.tolist() == [9.95, 1.008, 1.008] * 2
    assert "OW was defined before with another mass or charge" in caplog.text


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("1 2 no", "2 1 no", 2, "nbfunc 2"),
        ("1 2 no", "1 4 no", 2, "comb-rule 4"),
        ("1 2 no", "1 2 no\n1 2 no", 3, "given before"),
        ("1 2 no", "1 2 no 1.0 1.0 9", 2, "exponent 9"),
        ("[ defaults ]\n1 2 no\n", "", 2, "must come before"),
        ("HW 1 1.008 0.0 A", "HW 1.008 A", 5, "6 to 8 columns"),
        ("HW 1 1.008 0.0 A", "HW 1 1.008 0.0 Q", 5, "particle type"),
        ("HW 1 1.008 0.0 A", "HW 1 1.008 0.0 V", 10, "virtual site"),
        ("HW 1 1.008 0.0 A", "OW 1 1.008 0.0 A", 5, "defined before"),
        ("0.3166 0.65", "0.3166 -0.65", 4, "negative epsilon"),
        ("0.3166 0.65", "0.3166 nan", 4, "finite number"),
        ("0.3166 0.65", "0.3166 1_0", 4, "finite number"),
        ("[ moleculetype ]", "[ nonbond_params ]\nOW XX 1 0.1 0.1\n[ moleculetype ]", 7, "XX is not defined"),
        ("[ moleculetype ]", "[ nonbond_params ]\nOW HW 2 0.1 0.1\n[ moleculetype ]", 7, "function 2"),
        (
            "[ moleculetype ]",
            "[ nonbond_params ]\nOW HW 1 0.1 0.1\nHW OW 1 0.1 0.2\n[ moleculetype ]",
            8,
            "before",
        ),
        ("[ moleculetype ]\nSOL 2", "[ moleculetype ]\nSOL -1", 7, "nrexcl is -1"),
        ("[ moleculetype ]\n", "[ moleculetype ]\nsol 2\n", 8, "SOL was defined before"),
        ("1 OW 1 SOL OW  1 -0.8", "1 OO 1 SOL OW  1 -0.8", 9, "OO is not defined"),
        ("1 OW 1 SOL OW  1 -0.8", "2 OW 1 SOL OW  1 -0.8", 9, "numbered from 1"),
        ("1 OW 1 SOL OW  1 -0.8", "1 OW x SOL OW  1 -0.8", 9, "residue number 'x'"),
        ("1 OW 1 SOL OW  1 -0.8", "1 OW 1 SOL OW  1 -0.8 0.0", 9, "atom OW has no mass or"),
        ("1 OW 1 SOL OW  1 -0.8", "1 OW 1 SOL OW  1 -0.8 16 OW 0 16", 9, "second state"),
        ("1 OW 1 SOL OW  1 -0.8", "1 OW 1 SOL OW  1 nan", 9, "charge"),
        ("OW 8 15.9994", "OW 8 0.0", 9, "atom OW has no mass"),
        ("1 1 0.1 0.1633", "2 1 0.1 0.1633", 13, "followed by two hydrogens"),
        ("1 1 0.1 0.1633", "4 1 0.1 0.1633", 13, "atom 4 does not exist"),
        ("1 1 0.1 0.1633", "0 1 0.1 0.1633", 13, "atom 0 does not exist"),
        ("1 1 0.1 0.1633", "1 2 0.1 0.1633", 13, "function 2"),
        ("1 1 0.1 0.1633", "1 1 0.1 0.2633", 13, "no triangle"),
        ("1 1 0.1 0.1633", "1 1 0.1", 13, "4 columns"),
        ("1 1 0.1 0.1633", "1 1 0.1 0.1633\n1 1 0.1 0.1633", 14, "overlap"),
        ("3 HW 1 SOL HW2 1  0.4", "3 HW 1 SOL HW2 1  0.4 2.0", 13, "no water"),
        ("1 2 3\n", "1 2 9\n", 15, "atom 9 does not exist"),
        ("1 2 3\n", "1 2 x\n", 15, "whole number"),
        ("SOL 2\n[ atoms", "SOL 2 3\n[ atoms", 7, "2 columns"),
        ("water\n[ molecules ]\nSOL 2", "water\n[ molecules ]\nXXX 2", 20, "XXX is not defined"),
        ("water\n[ molecules ]\nSOL 2", "water\n[ molecules ]\nSOL -2", 20, "cannot be negative"),
        ("water\n[ molecules ]\nSOL 2", "water\n[ molecules ]\nSOL 0", 20, "no atoms"),
        ("water\n[ molecules ]\nSOL 2", "water", 18, "no atoms"),
        ("[ system ]\nwater\n", "", 17, "after .* system"),
        ("[ system ]", "[ atomtypes ]\n[ system ]", 17, "out of order"),
        ("[ system ]", "[ bondz ]\n1 2\n[ system ]", 17, "unknown section .* bondz"),
        ("[ system ]", "[ sys tem ]", 17, "unknown section"),
        ("[ system ]", "[ system", 17, "written as"),
        ("[ system ]", "[ polarization ]\n1 2 1 0.001\n[ system ]", 18, "polarization .* not supported"),
        ("[ exclusions ]", "[ virtual_sites2 ]\n3 1 2 1 0.5\n[ exclusions ]", 15, "has the mass 1.008"),
        ("[ exclusions ]", "[ virtual_sites2 ]\n3 1 3 1 0.5\n[ exclusions ]", 15, "listed twice"),
        ("[ exclusions ]", "[ virtual_sites4 ]\n3 1 2 1 3 1\n[ exclusions ]", 15, "none of its 3 parameters"),
        (
            "[ exclusions ]",
            "[ virtual_sites3 ]\n3 1 2 1 1\n[ exclusions ]",
            15,
            "none of its 2 parameters.*-vsite",
        ),
        ("[ exclusions ]", "[ virtual_sites3 ]\n3 1 2 1 1 0.1\n[ exclusions ]", 15, "7 columns"),
        (
            "[ settles ]\n1 1 0.1 0.1633",
            "[ constraints ]\n1 2 1 0.1\n2 1 2 0.1",
            14,
            "1 and 2 are constrained already",
        ),
        ("[ settles ]\n1 1 0.1 0.1633", "[ constraints ]\n1 2 1 -0.1", 13, "-0.1 nm; it must be positive"),
        (
            "[ exclusions ]",
            "[ constraints ]\n3 1 1 0.1\n[ exclusions ]",
            15,
            "1 and 3 are constrained already",
        ),
        ("[ settles ]", "[ atoms ]\n[ settles ]", 12, "once in a molecule"),
        ("[ atoms ]", "[ settles ]\n[ atoms ]", 8, r"after \[ atoms \]"),
        ("[ defaults ]", "text\n[ defaults ]", 1, "before the first section"),
    ],
)
def test_top_bad_row_refused_with_line(tmp_path: Path, old: str, new: str, line: int, message: str) -> None:
    with pytest.raises(TopologyError, match=message) as caught:
        read_top(changed(tmp_path, old, new))
    assert caught.value.line == line


@pytest.mark.parametrize(
    "section",
    ["orientation_restraints", "polarization", "water_polarization", "thole_polarization"],
)
def test_top_section_beyond_common_core_refused_at_its_first_row(tmp_path: Path, section: str) -> None:
    path = changed(tmp_path, "[ exclusions ]", f"[ {section} ]\n1 2 3 1 0.1\n[ exclusions ]")
    with pytest.raises(TopologyError, match=f"{section} .* not supported") as caught:
        read_top(path)
    assert path.read_text().splitlines()[caught.value.line - 1] == "1 2 3 1 0.1"


def between(tmp_path: Path, text: str) -> Path:
    return changed(
        tmp_path, "[ molecules ]\nSOL 2", f"[ molecules ]\nSOL 2\n[ intermolecular_interactions ]\n{text}"
    )


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("1 4 6 0.1 9", 1, "no rows of its own"),
        ("[ bonds ]\n1 4 1 0.1 9", 2, "chemical bond between molecules"),
        ("[ bonds ]\n1 7 6 0.1 9", 2, "atom 7 does not exist: the molecule has atoms 1 to 6"),
        ("[ bonds ]\n1 4 6", 2, "no parameters for"),
        ("[ constraints ]\n1 4 1 0.1", 1, "constraints .* cannot be in"),
        ("[ settles ]\n1 1 0.1 0.16", 1, "cannot be in"),
        ("[ exclusions ]\n1 4", 1, "cannot be in"),
        ("[ position_restraints ]\n1 1 10 10 10", 1, "cannot be in"),
        ("[ virtual_sites2 ]\n1 4 5 1 0.5", 1, "cannot be in"),
        ("[ system ]\nx", 1, "cannot be in"),
        ("[ distance_restraints ]\n1 4 1 0 1 0.3 0.2 0.4 1", 2, "must not become smaller"),
        (
            "[ distance_restraints ]\n1 4 1 0 1 0.1 0.2 0.4 1\n1 5 1 0 1 0.1 0.2 0.4 1",
            3,
            "index 0 has several",
        ),
        ("[ angle_restraints ]\n1 1 2 4 1 30 20 1", 2, "listed twice"),
        ("[ angle_restraints_z ]\n1 4 1 30 20 1.5", 2, "not a whole number"),
    ],
)
def test_top_bad_row_between_molecules_refused_with_line(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    path = between(tmp_path, text)
    first = path.read_text().splitlines().index("[ intermolecular_interactions ]") + 1
    with pytest.raises(TopologyError, match=message) as caught:
        read_top(path)
    assert caught.value.line == first + line


def test_top_terms_between_molecules_have_the_atoms_of_the_system(tmp_path: Path) -> None:
    path = between(tmp_path, "[ bonds ]\n1 4 6 0.1 9\n6 3 6 0.2 9\n[ angle_restraints ]\n1 2 2 4 1 30 20 1")
    terms = read_top(path)[0].terms
    assert terms["harmonic_distance"].atoms.tolist() == [[0, 3], [5, 2]]
    assert terms["harmonic_distance"].parameters[terms["harmonic_distance"].index].tolist() == [
        [0.1, 9],
        [0.2, 9],
    ]
    assert terms["angle_restraint"].atoms.tolist() == [[0, 1, 1, 3]]


def test_top_bonds_to_atoms_named_h_in_any_case_become_constraints_as_in_gmx(tmp_path: Path) -> None:
    rows = "[ bonds ]\n1 2 1 0.1 9\n1 3 1 0.1 9"
    path = changed(tmp_path, "[ settles ]\n1 1 0.1 0.1633", rows)
    path.write_text(path.read_text().replace("HW1", "hw").replace("HW2", "1H"))
    terms = read_top(path, RunSettings(constraints="h-bonds"))[0].molecule_types[0].terms
    assert terms["constraint"].atoms.tolist() == [[0, 1]]
    assert terms["bond"].atoms.tolist() == [[0, 2]]


def test_top_bond_beside_a_constraint_of_its_atoms_cannot_become_one(tmp_path: Path) -> None:
    rows = "[ bonds ]\n1 2 1 0.1 9\n[ constraints ]\n2 1 1 0.1"
    path = changed(tmp_path, "[ settles ]\n1 1 0.1 0.1633", rows)
    assert read_top(path)[0].n_constraints == 2
    with pytest.raises(TopologyError, match=r"atoms 1 and 2 are constrained already.*keep one") as caught:
        read_top(path, RunSettings(constraints="all-bonds"))
    assert caught.value.line == 13


def test_top_distance_restraints_act_only_if_asked_for(tmp_path: Path) -> None:
    rows = "[ distance_restraints ]\n1 2 1 0 1 0.1 0.2 0.4 2\n[ exclusions ]"
    draft = read_draft(changed(tmp_path, "[ exclusions ]", rows))
    assert "distance_restraint" not in assemble(draft)[0].terms
    with pytest.raises(TopologyError, match="2 molecules SOL would be one") as caught:
        assemble(draft, "none", 500.0)
    assert caught.value.line == 15
    draft.molecules[:] = [("sol", 1)]
    assert assemble(draft, "none", 500.0)[0].terms["distance_restraint"].parameters.tolist() == [
        [0.1, 0.2, 0.4, 1000]
    ]


def test_top_empty_unsupported_section_accepted(tmp_path: Path) -> None:
    assert read_top(changed(tmp_path, "[ system ]", "[ bonds ]\n; none\n[ system ]"))[0].n_atoms == 6


def test_top_count_mismatch_names_both_files(tmp_path: Path) -> None:
    top = changed(tmp_path, "SOL 2\n[ atoms", "SOL 2\n[ atoms")
    conf = DATA / "gro" / "ok.gro"
    with pytest.raises(InputError, match=r"3 atoms, but the topology .*topol\.top describes 6") as caught:
        read_system(conf, top, read_settings(DATA / "top" / "m.mdp")[0])
    assert (caught.value.file, caught.value.line) == (str(conf), 2)


def test_top_names_unlike_those_of_structure_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "topol.top"
    path.write_text(
        WATER.replace("HW2", "H2").replace("water\n[ molecules ]\nSOL 2", "water\n[ molecules ]\nSOL 1")
    )
    with caplog.at_level(logging.WARNING):
        read_system(DATA / "gro" / "ok.gro", path, DATA / "top" / "m.mdp")
    assert "1 atom names differ" in caplog.text
    assert "SOL 1 H2 (atom 3) is HW2" in caplog.text


def test_top_three_million_atoms_expanded_quickly(tmp_path: Path) -> None:
    one = read_top(changed(tmp_path, "SOL 2\n[ atoms", "SOL 2\n[ atoms"))[0]
    topology = build_topology("big", one.type_names, one.molecule_types, [(0, 1_000_000)])
    assert topology.n_atoms == 3_000_000
    assert topology.exclusion_atoms[-2:].tolist() == [2_999_997, 2_999_998]
    assert topology.describe_atom(2_999_999) == "SOL 1000000 HW2 (atom 3000000)"


def test_reference_positions_follow_the_box_of_their_file_as_refcoord_scaling_says(tmp_path: Path) -> None:
    files = system_files("peptide")
    frame = read_gro(files.configuration)
    topology, _ = read_top(files.topology)
    larger = tmp_path / "reference.gro"
    write_gro(larger, topology, 1.01 * frame.positions, None, 1.01 * frame.box, "larger")
    settings = replace(read_settings(files.parameters)[0], define=("POSRES",))
    centre = restraint_centre(read_top(files.topology, RunSettings(define=("POSRES",)))[0], frame.positions)
    for scaling, expected in (
        ("no", 1.01 * frame.positions),
        ("com", 1.01 * (frame.positions - centre) + centre),
        ("all", frame.positions),
    ):
        given = replace(settings, refcoord_scaling=scaling)
        found = read_system(files.configuration, files.topology, given, reference=larger)[2]
        np.testing.assert_allclose(found.reference, expected, atol=1e-3)
