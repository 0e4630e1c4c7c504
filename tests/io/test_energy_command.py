"""`pulsemd energy`, `census` and `compare` on topologies of every kind, in this process."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import pytest

from pulsemd.cli.main import main
from pulsemd.systems import system_files

DATA = Path(__file__).parent / "data" / "top"
with (DATA / "gmx-energies.csv").open() as _handle:
    ROWS = list(csv.DictReader(line for line in _handle if not line.startswith("#")))
KNOWN = {
    row["case"]: float(row["gmx_potential_kJ_per_mol"])
    for row in ROWS
    if row["gmx_potential_kJ_per_mol"] != "refused"
}
REFUSED = [row["case"] for row in ROWS if row["case"] not in KNOWN]


def words(case: str) -> list[str]:
    mdp = "mp.mdp" if case == "posres_on" else "mrf.mdp" if case.startswith("charged") else "m.mdp"
    given = ["-c", "c.gro", "-p", f"{case}.top", "-f", mdp]
    return given + (["-r", "ref.gro"] if case == "posres_on" else [])


@pytest.fixture
def here(monkeypatch):
    monkeypatch.chdir(DATA)


@pytest.mark.parametrize("case", sorted(KNOWN))
def test_energy_of_topology_equals_gmx(here, capsys, case):
    assert main(["energy", *words(case), "--json"]) == 0
    energies = json.loads(capsys.readouterr().out)
    assert energies["potential"] == pytest.approx(KNOWN[case], rel=2e-4, abs=2e-4)


def test_energies_that_depend_on_seeds_are_the_same_each_time(capsys):
    """The bundled settings have no ld-seed, so the thermostat of a run draws one."""
    found = []
    for _ in range(2):
        assert main(["energy", "water", "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_energy_of_topology_beyond_common_core_exits_3_with_file_and_line(here, capsys, case):
    assert main(["energy", *words(case)]) == 3
    assert re.search(r"(?m)^error: \S+:\d+: ", capsys.readouterr().err)


def test_energy_options_without_effect_are_told_with_their_reason_once(here, capsys, tmp_path):
    (tmp_path / "run.mdp").write_text(
        (DATA / "m.mdp").read_text() + "title = a\nwall-type = 9-3\nns-type = grid\n"
    )
    assert main(["energy", "-c", "c.gro", "-p", "base.top", "-f", str(tmp_path / "run.mdp")]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
    assert notes == ["note: title, ns_type (not used by GROMACS either)", "note: wall_type (only with walls)"]


def test_energy_position_restraints_without_reference_are_refused_with_the_remedy(here, capsys):
    assert main(["energy", *words("posres_on")[:-2]]) == 3
    assert "give -r" in capsys.readouterr().err


def test_census_counts_terms_by_kind(here, capsys):
    assert main(["census", "-p", "charged_pairs14.top", "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert counts["molecules"] == [{"name": "MOL", "count": 1, "atoms": 5}]
    assert counts["terms"]["bond"]["terms"] == 4
    assert counts["terms"]["lj14"]["terms"] == 2
    assert counts["exclusions"] == 9
    assert main(["census", "-p", "charged_pairs14.top"]) == 0
    assert re.search(r"bond +4 +1\n", capsys.readouterr().out)


def test_census_settings_turn_bonds_into_constraints(here, capsys, tmp_path):
    (tmp_path / "run.mdp").write_text("constraints = all-bonds\n")
    assert main(["census", "-p", "base.top", "-f", str(tmp_path / "run.mdp"), "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert counts["constraints"] == 4
    assert "bond" not in counts["terms"]


def test_census_counts_distance_restraints_where_the_settings_let_them_act(here, capsys, tmp_path):
    text = (DATA / "base.top").read_text()
    restraint = "[ distance_restraints ]\n1 2 1 0 1 0.1 0.2 0.3 1\n[ system ]"
    (tmp_path / "one.top").write_text(text.replace("[ system ]", restraint))
    for disre, expected in (("no", 0), ("simple", 1)):
        (tmp_path / "run.mdp").write_text(f"disre = {disre}\n")
        words = ["-p", str(tmp_path / "one.top"), "-f", str(tmp_path / "run.mdp"), "-I", str(DATA), "--json"]
        assert main(["census", *words]) == 0
        terms = json.loads(capsys.readouterr().out)["terms"]
        assert terms.get("distance_restraint", {"terms": 0})["terms"] == expected


def test_compare_without_gmx_exits_4_with_the_remedy(here, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["compare", "gmx", *words("base")]) == 4
    assert "install GROMACS" in capsys.readouterr().err


def write_fake_gmx(folder: Path, potential: float) -> None:
    """A program that answers as gmx does: three energies."""
    legends = "".join(
        f'@ s{k} legend \\"{name}\\"\\n' for k, name in enumerate(("Bond", "LJ (SR)", "Potential"))
    )
    rows = f"{legends}0 4.948032 -0.079513 {potential}\\n"
    (folder / "gmx_d").write_text(f'#!/bin/sh\n[ "$1" != energy ] || printf "{rows}" > point.xvg\n')
    (folder / "gmx_d").chmod(0o755)


@pytest.mark.parametrize(("potential", "code"), [(4.868519, 0), (4.9, 1)])
def test_compare_exit_code_tells_whether_energies_agree(here, capsys, monkeypatch, tmp_path, potential, code):
    write_fake_gmx(tmp_path, potential)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert main(["compare", "gmx", *words("base"), "--json"]) == code
    told = json.loads(capsys.readouterr().out)
    assert told["disagree"] == (["potential"] if code else [])
    assert told["terms"]["bond"]["gmx"] == 4.948032


@pytest.mark.skipif(shutil.which("gmx") is None, reason="gmx is not installed")
@pytest.mark.parametrize("case", ["charged_pairs14", "posres_on", "UB5"])
def test_compare_with_gmx_itself_agrees(here, capsys, case):
    assert main(["compare", "gmx", *words(case)]) == 0
    assert "potential" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("gmx") is None, reason="gmx is not installed")
def test_compare_with_gmx_takes_settings_of_a_minimisation(tmp_path, capsys):
    files = system_files("water")
    text = files.parameters.read_text().replace("= md", "= steep").replace("tcoupl ", "emtol = 10 ;")
    (tmp_path / "em.mdp").write_text(text)
    told = ["-c", str(files.configuration), "-p", str(files.topology), "-f", str(tmp_path / "em.mdp")]
    assert main(["compare", "gmx", *told]) == 0, capsys.readouterr().out


def named_groups(tmp_path: Path) -> list[str]:
    """Words for atoms of base.top in two groups that only an index file names."""
    text = (
        DATA / "m.mdp"
    ).read_text() + "tcoupl = v-rescale\ntc-grps = HEAD TAIL\ntau-t = 1 1\nref-t = 300 310\n"
    (tmp_path / "run.mdp").write_text(text)
    (tmp_path / "index.ndx").write_text("[ HEAD ]\n1 2\n[ TAIL ]\n3 4 5\n")
    return ["-c", "c.gro", "-p", "base.top", "-f", str(tmp_path / "run.mdp")]


def test_energy_groups_of_an_index_file_are_found_with_n_and_without_it_refused(here, capsys, tmp_path):
    given = named_groups(tmp_path)
    assert main(["energy", *given]) == 3
    assert re.search(
        r"run.mdp:18: tc-grps: there is no group HEAD; .*an index file, -n", capsys.readouterr().err
    )
    assert main(["energy", *given, "-n", str(tmp_path / "index.ndx")]) == 0


@pytest.mark.skipif(shutil.which("gmx") is None, reason="gmx is not installed")
def test_compare_with_gmx_gives_it_the_index_file_too(here, capsys, tmp_path):
    assert main(["compare", "gmx", *named_groups(tmp_path), "-n", str(tmp_path / "index.ndx")]) == 0
    assert main(["compare", "gmx", *named_groups(tmp_path)]) == 3
    assert "run.mdp:18: tc-grps: there is no group HEAD" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--steps", "--ranks", "--max-hours", "--checkpoint-minutes"])
@pytest.mark.parametrize("word", ["1e3x", "-5", "many"])
def test_a_flag_that_wants_a_number_says_so_in_words(capsys, flag, word):
    with pytest.raises(SystemExit) as ended:
        main(["run", "water", "-o", "never", f"{flag}={word}"])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert f"argument {flag}: '{word}' is not a " in told
    assert "number that is not negative" in told
