"""Every option of a gmx 2022 .mdp file: honoured, accepted at one value only, or without effect here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


def squeeze(word: str) -> str:
    """Name or keyword as gmx compares it: lower case, without ``-`` and ``_``."""
    return word.lower().replace("-", "").replace("_", "")


def integer(value: str) -> int:
    """Convert a whole number."""
    return int(value.replace("_", "?"))


def real(value: str) -> float:
    """Convert a finite number."""
    number = float(value.replace("_", "?"))
    if not np.isfinite(number):
        raise ValueError(value)
    return number


def choice(*supported: str, **synonyms: str) -> Callable[[str], str]:
    """Convert one of the supported keywords, in any spelling gmx accepts."""
    known = {squeeze(word): word for word in supported} | synonyms

    def convert(value: str) -> str:
        if squeeze(value) not in known:
            raise ValueError(f"supported: {', '.join(supported)}")
        return known[squeeze(value)]

    return convert


def choices(*supported: str) -> Callable[[str], tuple[str, ...]]:
    """Convert several of them."""
    return lambda value: tuple(choice(*supported)(word) for word in value.split())


def integrator(value: str) -> str:
    """Convert the name of an integrator."""
    if squeeze(value) == "mdvvavek":
        raise ValueError("means of half steps are supported with md only; use that, or md-vv")
    return choice("md", "md-vv", "sd", "steep", "l-bfgs")(value)


def yes_no(value: str) -> bool:
    """Convert yes or no."""
    return {"yes": True, "no": False, "true": True, "false": False}[value.lower()]


def flags(letter: str) -> Callable[[str], tuple[str, ...]]:
    """Convert words that all begin with ``-`` and a letter, as in -DPOSRES -DFLEXIBLE."""

    def convert(value: str) -> tuple[str, ...]:
        words = value.split()
        if not all(word.startswith(f"-{letter}") and len(word) > 2 for word in words):
            raise ValueError(f"each word is written as -{letter}...")
        return tuple(word[2:] for word in words)

    return convert


def group_names(value: str) -> tuple[str, ...]:
    """Convert names of groups."""
    return tuple(value.split())


def groups_apart(value: str) -> tuple[str, ...]:
    """Convert names of groups; none, if the whole system is the only one."""
    names = group_names(value)
    return () if all(name.lower() == "system" for name in names) else names


def integers(value: str) -> tuple[int, ...]:
    """Convert whole numbers."""
    return tuple(integer(word) for word in value.split())


def reals(value: str) -> tuple[float, ...]:
    """Convert numbers."""
    return tuple(real(word) for word in value.split())


def reals_of_groups(value: str) -> float | tuple[float, ...]:
    """Convert a number for each group; one, where they are all equal."""
    numbers = reals(value)
    return numbers[0] if len(set(numbers)) == 1 else numbers


_MODIFIER = choice("potential-shift", "none", potentialshiftverlet="potential-shift")
_VDW_MODIFIER = choice(
    *("potential-shift", "none", "force-switch", "potential-switch"), potentialshiftverlet="potential-shift"
)

HONOURED: Mapping[str, Callable[[str], Any]] = {
    "include": flags("I"),
    "define": flags("D"),
    "integrator": integrator,
    "tinit": real,
    "dt": real,
    "nsteps": integer,
    "init_step": integer,
    "comm_mode": choice("linear", "none"),
    "comm_grps": groups_apart,
    "nstcomm": integer,
    "ld_seed": integer,
    "emtol": real,
    "emstep": real,
    "nbfgscorr": integer,
    "nstxout": integer,
    "nstvout": integer,
    "nstfout": integer,
    "nstlog": integer,
    "nstcalcenergy": integer,
    "nstenergy": integer,
    "nstxout_compressed": integer,
    "cutoff_scheme": choice("verlet"),
    "nstlist": integer,
    "pbc": choice("xyz"),
    "verlet_buffer_tolerance": real,
    "rlist": real,
    "coulombtype": choice("cut-off", "reaction-field", "reaction-field-zero", "pme"),
    "coulomb_modifier": _MODIFIER,
    "rcoulomb": real,
    "epsilon_r": real,
    "epsilon_rf": real,
    "fourierspacing": real,
    "fourier_nx": integer,
    "fourier_ny": integer,
    "fourier_nz": integer,
    "pme_order": integer,
    "ewald_rtol": real,
    "ewald_geometry": choice("3d"),
    "vdwtype": choice("cut-off", "switch", "shift"),
    "vdw_modifier": _VDW_MODIFIER,
    "rvdw_switch": real,
    "rvdw": real,
    "dispcorr": choice("no", "ener", "enerpres", "allener", "allenerpres"),
    "tcoupl": choice("no", "v-rescale", "berendsen", "nose-hoover"),
    "nsttcouple": integer,
    "tc_grps": group_names,
    "tau_t": reals_of_groups,
    "ref_t": reals_of_groups,
    "nh_chain_length": integer,
    "annealing": choices("no", "single", "periodic"),
    "annealing_npoints": integers,
    "annealing_time": reals,
    "annealing_temp": reals,
    "pcoupl": choice("no", "berendsen", "c-rescale", "parrinello-rahman"),
    "pcoupltype": choice("isotropic", "semiisotropic", "anisotropic"),
    "nstpcouple": integer,
    "tau_p": real,
    "compressibility": reals,
    "ref_p": reals,
    "refcoord_scaling": choice("no", "com", "all"),
    "compressed_x_grps": group_names,
    "gen_vel": yes_no,
    "gen_temp": real,
    "gen_seed": integer,
    "continuation": yes_no,
    "freezegrps": group_names,
    "freezedim": group_names,
    "disre": choice("no", "simple"),
    "disre_fc": real,
    "disre_tau": real,
    "constraints": choice("none", "h-bonds", "all-bonds"),
    "constraint_algorithm": choice("lincs", "shake"),
    "lincs_order": integer,
    "lincs_iter": integer,
    "lincs_warnangle": real,
    "shake_tol": real,
}
"""Fields of `RunSettings` with the converters of their values."""

FIXED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("mts", "periodic_molecules", "implicit_solvent", "qmmm", "morse"), ("no",)),
    **dict.fromkeys(("pull", "awh", "rotation", "orire", "free_energy", "adress"), ("no",)),
    **dict.fromkeys(("simulated_tempering", "swapcoords"), ("no",)),
    **dict.fromkeys(("density_guided_simulation_active", "qmmm_cp2k_active"), ("no", "false")),
    **dict.fromkeys(("energygrp_table", "energygrp_excl", "qmmm_grps", "imd_group", "couple_moltype"), ()),
    **dict.fromkeys(("acc_grps", "accelerate", "deform"), ()),
    **dict.fromkeys(("nwall", "cos_acceleration", "epsilon_surface"), ("0",)),
    **{f"electric_field_{axis}": ("0",) for axis in "xyz"},
}
"""Options accepted only if left empty or if every word is one of these."""


def is_zero(word: str, accepted: tuple[str, ...]) -> bool:
    """Whether a word is a number that is 0, where 0 is accepted."""
    try:
        return "0" in accepted and real(word) == 0
    except ValueError:
        return False


REMEDIES: Mapping[str, str] = {
    "integrator": "cg: use l-bfgs or steep; bd: use sd",
    "comm_mode": "angular is for molecules in vacuum; use linear",
    "cutoff_scheme": "gmx since 2020 has no other either",
    "pbc": "give a molecule in vacuum a box wider than twice the list cut-off, and walls or slabs empty space along z",
    "coulombtype": "use PME",
    "vdwtype": "use cut-off, with DispCorr for what is beyond",
    "pcoupltype": "membranes: semiisotropic",
    "pcoupl": "use c-rescale",
    "tcoupl": "use v-rescale",
    "constraints": "angles are not constrained; steps of 2 fs need h-bonds alone",
    "free_energy": "leave out the options of free energies to run its first state",
    "couple_moltype": "leave out the options of free energies to run its first state",
    "pull": "two atoms are held at a distance by bonds of function 6 in [ intermolecular_interactions ]",
    "implicit_solvent": "gmx since 2019 has none either; add water",
    "acc_grps": "leave it out to run at equilibrium",
    "accelerate": "leave it out to run at equilibrium",
    "energygrp_excl": "leave it out; [ exclusions ] of a molecule exclude pairs of its atoms",
    "simulated_tempering": "annealing follows temperatures in time",
}
"""What to do instead, behind the refusal of a value of some options."""

_PULLING = ("pull", "awh", "rot", "swap")
"""How options begin that gmx knows only when the method of that name is switched on."""


def remedy(name: str) -> str:
    """``; `` and the remedy for a refused value of an option, or nothing."""
    return f"; {REMEDIES[name]}" if name in REMEDIES else ""


def method_of(name: str) -> str | None:
    """The method that an unknown option belongs to, if it is one of those not supported as a whole."""
    return next((method for method in _PULLING if squeeze(name).startswith(method)), None)


_GROUPS: Mapping[str, str] = {
    "only for other integrators": "bd_fric niter fcstep nstcgsteep rtpi",
    "only for lattice sums of dispersion": "ewald_rtol_lj lj_pme_comb_rule",
    "only for switched Coulomb or tabulated potentials": "rcoulomb_switch table_extension",
    "SHAKE needs no over-relaxation here": "shake_sor",
    "only with walls": "wall_type wall_r_linpot wall_atomtype wall_density wall_ewald_zfac",
    "one pair for each index has no weights": "disre_weighting",
    "only with means of distances over time": "disre_mixed nstdisreout",
    "only with orientation restraints": "orire_fc orire_tau orire_fitgrp nstorireout",
    "only for free energies": "couple_intramol "
    "couple_lambda0 couple_lambda1 init_lambda init_lambda_state delta_lambda nstdhdl "
    "fep_lambdas mass_lambdas coul_lambdas vdw_lambdas bonded_lambdas restraint_lambdas temperature_lambdas "
    "calc_lambda_neighbors init_lambda_weights dhdl_print_energy sc_function sc_alpha sc_power sc_r_power sc_sigma "
    "sc_coul sc_gapsys_scale_linpoint_lj sc_gapsys_scale_linpoint_q sc_gapsys_sigma_lj separate_dhdl_file "
    "dhdl_derivatives dh_hist_size dh_hist_spacing",
    "only with simulated tempering": "simulated_tempering_scaling sim_temp_low sim_temp_high",
    "output files have their own format": "print_nose_hoover_chain_variables "
    "compressed_x_precision simulation_part",
    "energies are of the whole system, not of pairs of groups": "energygrps",
    "not used by GROMACS either": "title cpp ns_type optimize_fft domain_decomposition nstcheckpoint rlistlong "
    "nstcalclr user1_grps user2_grps userint1 userint2 userint3 userint4 userreal1 userreal2 userreal3 userreal4 "
    "andersen_seed dihre dihre_fc dihre_tau nstdihreout pull_print_com2 adress_type adress_const_wf adress_ex_width "
    "adress_hy_width adress_ex_forcecap adress_interface_correction adress_site adress_reference_coords "
    "adress_tf_grp_names adress_cg_grp_names adress_do_hybridpairs gb_algorithm nstgbradii rgbradii gb_epsilon_solvent "
    "gb_saltconc gb_obc_alpha gb_obc_beta gb_obc_gamma gb_dielectric_offset sa_algorithm sa_surface_tension",
}

IGNORED: Mapping[str, str] = {name: reason for reason, names in _GROUPS.items() for name in names.split()}
"""Options without effect here, with the reason."""

RENAMED: Mapping[str, str] = {
    "nstxtcout": "nstxout_compressed",
    "xtc_grps": "compressed_x_grps",
    "xtc_precision": "compressed_x_precision",
    "unconstrained_start": "continuation",
    "verlet_buffer_drift": "verlet_buffer_tolerance",
    "foreign_lambda": "fep_lambdas",
}
"""Old names that gmx still accepts."""


@dataclass(frozen=True)
class Entry:
    """One assignment of a settings file."""

    name: str
    value: str
    line: int


CANONICAL: Mapping[str, str] = {
    squeeze(name): RENAMED.get(name, name) for name in (*HONOURED, *FIXED, *IGNORED, *RENAMED)
}
"""From names as gmx compares them to ours."""
