"""Settings: defaults and resolved values as gmx grompp's, everything else refused or named as without effect."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pulsemd.base.errors import InputError
from pulsemd.forcefield.settings import RunSettings
from pulsemd.io.gromacs import read_settings, to_mdp
from pulsemd.io.gromacs.mdp import located, override_settings

DATA = Path(__file__).parent / "data"
SCALED = "pcoupl = berendsen\nref-p = 1\ncompressibility = 4.5e-5\n"
ANNEALED = "annealing = single\nannealing-npoints = 2\nannealing-time = 0 10\nannealing-temp = 300 400\n"
SWINGING = "tcoupl = nose-hoover\ntc-grps = System\ntau-t = 0.1\nref-t = 300\n"
COUPLED = "tcoupl = V-rescale\ntc-grps = System\ntau-t = 0.5\nref-t = 300\n"


def read(tmp_path: Path, text: str, name: str = "run.mdp") -> RunSettings:
    (tmp_path / name).write_text(text)
    return read_settings(tmp_path / name)[0]


def test_mdp_empty_file_gives_defaults(tmp_path: Path) -> None:
    assert read(tmp_path, "; nothing\n") == RunSettings()


def test_mdp_full_output_of_gmx_accepted(tmp_path: Path) -> None:
    # mdout.mdp of: gmx grompp -f m.mdp -c c.gro -p base.top -maxwarn 5 (gmx 2022.5), every option it knows
    settings, _ = read_settings(DATA / "mdp" / "mdout.mdp")
    expected, _ = read_settings(DATA / "top" / "m.mdp")
    assert replace(settings, ignored=(), gen_seed=-1) == replace(expected, ignored=())
    assert "pme_order (only for coulombtype = pme)" in settings.ignored


def test_mdp_names_and_words_any_case_and_hyphens_accepted(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        "CoulombType = reaction_field\nNst_List=7;c\nvdw_modifier=Potential-shift-Verlet\nnstxtcout = 5\n",
    )
    assert (settings.coulombtype, settings.nstlist, settings.vdw_modifier) == (
        "reaction-field",
        7,
        "potential-shift",
    )
    assert settings.nstxout_compressed == 5


@pytest.mark.parametrize("text", ["define =\ndefine = -DPOSRES\n", "define = -DPOSRES\ndefine = ; none\n"])
def test_mdp_option_left_empty_in_another_line_is_as_in_gmx_the_one_given(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text).define == ("POSRES",)


def test_mdp_define_and_include_split(tmp_path: Path) -> None:
    settings = read(tmp_path, "define = -DPOSRES -DFC=1000\ninclude = -I/a/b -I../c\n")
    assert settings.define == ("POSRES", "FC=1000")
    assert settings.include == ("/a/b", "../c")


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [  # values in the .tpr of gmx 2022.5: gmx dump -s
        ("nstenergy = 10\n", "nstcalcenergy", 10),
        ("nstenergy = 130\n", "nstenergy", 200),
        ("nstcalcenergy = 30\nnstenergy = 100\n", "nstenergy", 120),
        ("nstcalcenergy = 0\n", "nstenergy", 1000),
        ("nstcomm = 0\n", "comm_mode", "none"),
        (COUPLED, "nsttcouple", 10),
        (COUPLED + "nsttcouple = -1\n", "nsttcouple", 10),
        (COUPLED + "nsttcouple = 7\n", "nsttcouple", 7),
        (COUPLED, "tc_grps", ("System",)),
    ],
)
def test_mdp_dependent_value_resolved_as_gmx(tmp_path: Path, text: str, field: str, value: object) -> None:
    assert getattr(read(tmp_path, text), field) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fourierspacing = 0.12\n", "fourierspacing (only for coulombtype = pme)"),
        ("emtol = 10\n", "emtol (only for integrator = steep or l-bfgs)"),
        ("tau-t = 0.1\n", "tau_t (only with tcoupl)"),
        ("nstfout = 5\n", "nstfout (forces are not written)"),
        ("nstvout = 5\n", "nstvout (velocities are in every frame of --trajectory trr, and in no other)"),
        (
            "nstxout = 5\nnstxout-compressed = 9\n",
            "nstxout (the one trajectory has the steps of nstxout_compressed)",
        ),
        ("integrator = steep\ntau-p = 2\n", "tau_p (not for minimisation)"),
        ("rlist = 1.2\n", "rlist (it follows from verlet_buffer_tolerance)"),
        ("epsilon-rf = 78\n", "epsilon_rf (only for coulombtype = reaction-field)"),
        ("ns_type = grid\n", "ns_type (not used by GROMACS either)"),
        ("ref-p = 2\n", "ref_p (only with pcoupl)"),
        ("gen-temp = 320\n", "gen_temp (only with gen_vel = yes)"),
        ("disre-fc = 500\n", "disre_fc (only with disre = simple)"),
        (
            "disre = simple\ndisre-weighting = equal\n",
            "disre_weighting (one pair for each index has no weights)",
        ),
        ("shake-tol = 1e-6\n", "shake_tol (only with constraint_algorithm = shake)"),
        (
            "constraint-algorithm = shake\nlincs-order = 6\n",
            "lincs_order (only with constraint_algorithm = lincs)",
        ),
    ],
)
def test_mdp_option_without_effect_listed_once(tmp_path: Path, text: str, message: str) -> None:
    assert read(tmp_path, text).ignored == (message,)


def test_mdp_frozen_minimisation_with_the_barostat_of_the_run_accepted(tmp_path: Path) -> None:
    frozen = "integrator = steep\nfreezegrps = Wall\nfreezedim = Y Y Y\n"
    assert "pcoupl (not for minimisation)" in read(tmp_path, frozen + SCALED).ignored
    with pytest.raises(InputError, match="freezegrps is not supported with pcoupl"):
        read(tmp_path, frozen.replace("steep", "md") + SCALED)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("dt = 0.001\nfoo = 1\n", 2, "unknown option foo; GROMACS 2022 has none of it either$"),
        ("dt = 0.001\nrcoulomb = 1.2\n", 2, "rcoulomb = 1.2 and rvdw = 1.0 must be equal"),
        (
            "pcoupltype = isotropic\npull_ncoords = 1\n",
            2,
            "pull and its options are not supported; two atoms",
        ),
        ("comm-grps = Protein SOL\ncomm-mode = angular\n", 2, "supported: linear, none; angular is for"),
        ("comm-mode = linear-acceleration-correction\n", 1, "supported: linear, none"),
        ("coulombtype = Ewald\n", 1, "supported: cut-off, .*; use PME"),
        ("nsteps = 1e6\n", 1, "not a valid value$"),
        ("rculomb = 1.0\n", 1, r"unknown option rculomb; did you mean rcoulomb\?"),
        ("gen-vell = yes\n", 1, r"unknown option gen-vell; did you mean gen-vel\?"),
        ("temperature = 300\n", 1, "unknown option temperature; (?!did you mean)"),
        ("dt = 0.001\nDT = 0.002\n", 2, "set before in line 1"),
        ("vdw-modifier = force-switch\nvdwtype = switch\n", 1, "contradicts vdw_modifier = force-switch"),
        ("dt 0.001\n", 1, "name = value"),
        ("dt = fast\n", 1, "dt = fast: not a valid value"),
        ("dt = nan\n", 1, "dt = nan"),
        ("dt = 1 2\n", 1, "not a valid value"),
        ("nsteps = 1.5\n", 1, "not a valid value"),
        ("nsteps = 1_000\n", 1, "not a valid value"),
        ("integrator = bd\n", 1, "integrator = bd: supported: md, md-vv, sd.*; bd: use sd"),
        ("integrator = md-vv-avek\n", 1, "supported with md only; use that, or md-vv"),
        (
            f"integrator = md-vv\n{SWINGING}{SCALED}",
            6,
            "md-vv and tcoupl = nose-hoover; use tcoupl = v-rescale",
        ),
        (f"integrator = md-vv\n{SWINGING}nh-chain-length = 0\n", 6, "nh_chain_length = 0: from 1 to 100"),
        ("integrator = md-vv\npcoupl = parrinello-rahman\n", 2, "nor does gmx have it; use c-rescale"),
        ("integrator = sd\n", 1, "integrator = sd needs tc_grps"),
        (f"{ANNEALED}{SWINGING}", 1, "annealing is not supported with tcoupl = nose-hoover; use v-rescale"),
        (f"{ANNEALED}{COUPLED}annealing-npoint = 2\n", 9, "did you mean annealing-npoints"),
        (
            f"{COUPLED}{ANNEALED.replace('0 10', '0 10 20')}",
            7,
            "annealing_time has 3 values for 2 annealing_npoints",
        ),
        (f"{COUPLED}{ANNEALED.replace('0 10', '10 0')}", 7, "at times that ascend"),
        (
            f"{COUPLED}{ANNEALED.replace('0 10', '1 10')}",
            7,
            "annealing of System has to begin at 0 ps or before",
        ),
        (f"{COUPLED}annealing = linear\n", 5, "supported: no, single, periodic"),
        (f"{COUPLED}annealing = single\n", 5, "annealing_npoints has 0 values for 1 tc_grps; give one each"),
        ("integrator = sd\ntc-grps = System\ntau-t = 1\n", 1, "needs a positive tau_t and a ref_t"),
        ("coulombtype = P3M-AD\n", 1, "supported: cut-off, reaction-field"),
        ("coulombtype = PME\npme-order = 8\n", 2, "4, 5 or 6"),
        ("coulombtype = PME\newald-rtol = 0\n", 2, "ewald_rtol = 0.0"),
        ("coulombtype = PME\nfourierspacing = 0\n", 2, "must be positive"),
        ("coulombtype = PME\nfourier-ny = -1\n", 2, "a number of points"),
        ("coulombtype = PME\newald-geometry = 3dc\n", 2, "supported: 3d"),
        ("\ncoulomb-modifier = force-switch\n", 2, "supported: potential-shift, none"),
        ("rvdw-switch = 1.2\nvdw-modifier = force-switch\n", 1, "below rvdw"),
        ("vdwtype = shift\nrvdw-switch = 1.0\n", 2, "below rvdw"),
        ("coulombtype = reaction-field-zero\nepsilon-rf = 78\n", 2, "needs epsilon_rf = 0"),
        ("cutoff-scheme = group\n", 1, "supported: verlet"),
        ("pbc = xy\n", 1, "supported: xyz"),
        ("DispCorr = yes\n", 1, "supported: no, ener, enerpres"),
        ("vdwtype = switch\nDispCorr = EnerPres\n", 2, "above 0"),
        ("tcoupl = andersen\n", 1, "supported: no, v-rescale, berendsen, nose-hoover"),
        ("tcoupl = nose-hoover\ntc-grps = System\ntau-t = 1\nref-t = 0\n", 4, "a ref_t above 0"),
        (SWINGING + "nsttcouple = 21\n", 5, "raise tau_t or lower nsttcouple"),
        (
            SWINGING + "dt = 0.025\n",
            3,
            "nsttcouple = 1 and dt = 0.025: Nose-Hoover with tau_t = 0.1 has to couple",
        ),
        ("constraints = all-angles\n", 1, "supported: none, h-bonds, all-bonds"),
        ("comm-mode = angular\n", 1, "supported: linear, none"),
        ("gen-vel = maybe\n", 1, "not a valid value"),
        ("define = POSRES\n", 1, "written as -D"),
        ("pcoupl = MTTK\n", 1, "supported: no, berendsen, c-rescale"),
        ("pcoupl = C-rescale\n", 1, "needs a temperature"),
        (
            "pcoupl = berendsen\npcoupltype = surface-tension\n",
            2,
            "supported: isotropic, semiisotropic, anisotropic",
        ),
        (
            f"{SCALED.replace('4.5e-5', '1 1 1 0 1 0').replace('ref-p = 1', 'ref-p = 1 1 1 0 0 0')}"
            "pcoupltype = anisotropic\n",
            3,
            "shear of the box is not supported",
        ),
        ("pcoupl = berendsen\ncompressibility = 4.5e-5\n", 1, "needs 1 value.s. of ref_p"),
        ("pcoupl = berendsen\nref-p = 1\ncompressibility = 1 2\n", 3, "needs 1 value.s. of compress"),
        ("pcoupl = berendsen\nref-p = 1\ncompressibility = 0\n", 3, "nor 0 in every direction"),
        (SCALED + "tau-p = 0\n", 4, "must be positive: a time in ps"),
        ("\npcoupl = berendsen\nref-p = 1\n", 2, "needs 1 value.s. of compressibility, such as 4.5e-5"),
        (SCALED + "nstpcouple = 0\n", 4, "at least 1"),
        ("\nfreezegrps = SOL\n", 2, "needs three values for each"),
        ("freezegrps = SOL\nfreezedim = Y Y N\n", 2, "in all three dimensions only"),
        (SCALED + "freezegrps = SOL\nfreezedim = Y Y Y\n", 4, "not supported with pcoupl = berendsen"),
        ("electric-field-x = 1 0 0 0\n", 1, "only 0"),
        ("free-energy = yes\n", 1, "only no"),
        ("dt = 0\n", 1, "positive"),
        ("nstlist = 0\n", 1, "at least 1"),
        ("nsteps = -2\n", 1, "-1 for a run without end"),
        ("nstcomm = -5\n", 1, "not be negative"),
        ("epsilon-r = 0\n", 1, "positive"),
        ("rcoulomb = 1.2\nrvdw = 1.0\n", 2, "must be equal"),
        ("verlet-buffer-tolerance = 0\n", 1, "positive, or -1"),
        ("verlet-buffer-tolerance = -1\nrlist = 0.9\n", 2, "smaller than the cut-off"),
        ("coulombtype = reaction-field\nepsilon-rf = 0.5\n", 2, "epsilon_rf = 0.5"),
        ("gen-vel = yes\ncontinuation = yes\n", 1, "contradicts"),
        ("tcoupl = v-rescale\n", 1, "needs tc_grps"),
        (COUPLED.replace("0.5", "0"), 3, "positive tau_t"),
        (COUPLED.replace("0.5", "0.5 0.5"), 3, "tau_t has 2 values for 1 tc_grps; give one each"),
        (COUPLED.replace("ref-t = 300\n", ""), 1, "ref_t"),
        (COUPLED + "nsttcouple = 0\n", 5, "at least 1"),
    ],
)
def test_mdp_bad_option_refused_with_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, text)
    assert caught.value.line == line


OBSOLETE = (
    "dihre dihre-fc andersen-seed nstdihreout adress-type gb-algorithm rgbradii sa-algorithm nstcheckpoint "
    "optimize-fft rlistlong nstcalclr pull-print-com2 ns_type cpp title"
)


@pytest.mark.parametrize("name", OBSOLETE.split())
def test_mdp_option_of_older_gmx_that_gmx_2022_ignores_is_ignored_and_told(tmp_path: Path, name: str) -> None:
    """As an mdout.mdp of GROMACS 4 or 5 has them; gmx 2022.5: Ignoring obsolete mdp entry."""
    ignored = read(tmp_path, f"{name} = simple\n").ignored
    assert ignored == (f"{name.replace('-', '_')} (not used by GROMACS either)",)


def test_mdp_zero_electric_field_accepted(tmp_path: Path) -> None:
    assert read(tmp_path, "electric-field-x = 0 0.0 0 0\ncomm-grps = System\nannealing = no\n").ignored == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        COUPLED,
        "define = -DA=1 -DB\nrcoulomb = 1.2\nrvdw=1.2\ngen-vel = yes\n",
        "nstcomm=0\n",
        "comm-grps = A B\n",
    ],
)
def test_mdp_written_settings_read_back_the_same(tmp_path: Path, text: str) -> None:
    settings = read(tmp_path, text)
    again = read(tmp_path, to_mdp(settings))
    assert replace(again, ignored=()) == settings


def test_mdp_annealing_written_reads_back_to_the_same(tmp_path: Path) -> None:
    settings = read(tmp_path, COUPLED + ANNEALED)
    assert settings.annealing_time == (0.0, 10.0)
    again = read(tmp_path, to_mdp(settings))
    assert replace(again, ignored=()) == settings
    assert read(tmp_path, ANNEALED).ignored[0] == "annealing (only with tcoupl or integrator = sd)"


@pytest.mark.parametrize(
    ("text", "ignored"),
    [
        ("", ()),
        ("comm-mode = none\n", ("comm_grps (only with comm_mode = linear)",)),
        ("nstcomm = 0\n", ("comm_grps (only with comm_mode = linear)",)),
        ("integrator = steep\n", ("comm_grps (not for minimisation)",)),
    ],
)
def test_mdp_groups_whose_centres_of_mass_are_stopped(tmp_path: Path, text: str, ignored: tuple) -> None:
    settings = read(tmp_path, text + "comm_grps = SOLU_MEMB SOLV\n")
    assert settings.ignored == ignored
    assert settings.comm_grps == (() if ignored else ("SOLU_MEMB", "SOLV"))
    assert read(tmp_path, text + "comm_grps = system\n").comm_grps == ()


def test_mdp_seeds_drawn_only_where_asked() -> None:
    drawn = RunSettings(gen_seed=5).with_drawn_seeds()
    assert drawn.gen_seed == 5
    assert drawn.ld_seed >= 0


def test_mdp_toml_same_names_and_pulsemd_table(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(
        'nsteps = 100\n"tc-grps" = "System"\ntcoupl = "v-rescale"\ntau_t = 0.5\nref-t = 300\ngen_vel = true\n'
        'define = ["-DA", "-DB"]\n[pulsemd]\nranks = 2\n'
    )
    settings, table = read_settings(path)
    assert (settings.nsteps, settings.gen_vel, settings.tau_t, settings.define) == (
        100,
        True,
        0.5,
        ("A", "B"),
    )
    assert table == {"ranks": 2}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("nsteps = 1\nfoo = 2\n", 2, "unknown option foo"),
        ("nsteps = 1\n[extra]\nx = 2\n", 2, r"unknown table \[extra\]"),
        ("nsteps = 1\nnsteps =\n", 2, "line 2"),
        ("pulsemd = 3\n", 1, "must be a table"),
        ('dt = 0.002\nrcoulomb = "x"\n', 2, "rcoulomb = x"),
    ],
)
def test_mdp_bad_toml_refused_with_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, text, "run.toml")
    assert caught.value.line == line


def test_settings_of_two_coupled_groups_are_written_with_a_value_for_each(tmp_path):
    path = tmp_path / "two.mdp"
    path.write_text(
        "tcoupl = v-rescale\ntc-grps = Protein non-Protein\ntau-t = 0.5 0.5\nref-t = 300 300\ncutoff-scheme = Verlet\n"
    )
    text = to_mdp(read_settings(path)[0])
    assert [
        line.split("=")[1].split() for line in text.splitlines() if line.startswith(("tau-t", "ref-t"))
    ] == [
        ["0.5", "0.5"],
        ["300.0", "300.0"],
    ]


def test_settings_replaced_for_other_groups_keep_one_value(tmp_path: Path) -> None:
    text = COUPLED.replace("System", "a b").replace("0.5", "0.5 0.5").replace("300", "300 300")
    settings = override_settings(read(tmp_path, text), {"tc_grps": "System", "ref_t": [310.0]})
    assert (settings.tc_grps, settings.tau_t, settings.ref_t) == (("System",), 0.5, 310.0)
    with pytest.raises(InputError, match="ref_t has 2 values for 1 tc_grps"):
        override_settings(settings, {"ref_t": [300, 300]})


def test_settings_of_arrays_and_flags_as_in_a_file_are_taken_and_units_refused() -> None:
    groups = {"tcoupl": "v-rescale", "tc_grps": ["a", "b"], "tau_t": 1, "ref_t": np.array([300.0, 310.5])}
    settings = override_settings(
        RunSettings(), {**groups, "define": ["-DPOSRES", "FC=7"], "gen_vel": np.True_}
    )
    assert (settings.ref_t, settings.define, settings.gen_vel) == ((300.0, 310.5), ("POSRES", "FC=7"), True)
    quantity = SimpleNamespace(value_in_unit=None)
    for value in (quantity, [quantity, 300]):
        with pytest.raises(InputError, match=r"ref_t = .*: a number without unit is expected, of nm, ps"):
            override_settings(RunSettings(), {"ref_t": value})


def test_errors_about_an_option_get_its_place(tmp_path: Path) -> None:
    read(tmp_path, "dt = 0.001\ntc-grps = SOL\n")
    with pytest.raises(InputError, match=r"run.mdp:2: tc-grps: no such group"), located(tmp_path / "run.mdp"):
        raise InputError("tc-grps: no such group")
    for message, file in (("pcoupl = no", None), ("atoms overlap", None), ("tc-grps", "x.ndx")):
        with pytest.raises(InputError) as caught, located(tmp_path / "run.mdp"):
            raise InputError(message, file)
        assert (caught.value.file, caught.value.line) == (file, None)


def test_mdp_barostat_without_nstpcouple_couples_25_times_in_tau_p(tmp_path: Path) -> None:
    assert read(tmp_path, SCALED + "dt = 0.002\nnstpcouple = -1\ntau-p = 0.2\n").nstpcouple == 4
    settings = read(tmp_path, SCALED)
    assert (settings.nstpcouple, settings.tau_p, settings.ref_p) == (10, 1.0, (1.0,))


@pytest.mark.parametrize(
    ("kind", "soft", "wanted"),
    [("semiisotropic", "4.5e-5 0", "1 -50"), ("anisotropic", "4.5e-5 0 3e-5 0 0 0", "1 -50 7 0 0 0")],
)
def test_mdp_barostat_written_reads_back_to_the_same(
    tmp_path: Path, kind: str, soft: str, wanted: str
) -> None:
    text = SCALED.replace("4.5e-5", soft).replace("= 1\n", f"= {wanted}\n") + f"pcoupltype = {kind}\n"
    settings = read(tmp_path, text)
    again = read(tmp_path, to_mdp(settings))
    assert replace(again, ignored=()) == replace(settings, ignored=())


def test_mdp_nose_hoover_without_nsttcouple_couples_20_times_in_tau_t(tmp_path: Path) -> None:
    text = COUPLED.replace("V-rescale", "Nose-Hoover").replace("0.5", "0.2") + "dt = 0.002\n"
    assert read(tmp_path, text).nsttcouple == 5
    assert read(tmp_path, text + "nsttcouple = 10\n").nsttcouple == 10
