"""Run settings from .mdp files, or from TOML files with the same names; both are checked as gmx grompp does."""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from typing import Any, NoReturn

from pulsemd.base.errors import InputError
from pulsemd.forcefield.settings import RunSettings
from pulsemd.io.gromacs.mdp_annealing import OF_ANNEALING, resolve_annealing
from pulsemd.io.gromacs.mdp_coupling import resolve_coupling, resolve_pressure
from pulsemd.io.gromacs.mdp_entries import mdp_entries, read_entries
from pulsemd.io.gromacs.mdp_options import (
    CANONICAL,
    FIXED,
    HONOURED,
    IGNORED,
    Entry,
    is_zero,
    method_of,
    remedy,
    squeeze,
)
from pulsemd.io.gromacs.mdp_writer import DEFAULTS, OF_BAROSTAT, OF_GROUPS, to_mdp, word_of

log = logging.getLogger(__name__)


def read_settings(path: str | PathLike[str]) -> tuple[RunSettings, dict[str, Any]]:
    """Read a settings file; ``.toml`` by its ending, else .mdp.

    Returns
    -------
    settings : RunSettings
    table : dict
        The ``[pulsemd]`` table of a TOML file, unchecked; empty for .mdp.

    Raises
    ------
    InputError
        With file and line: unknown options, values that are not supported, combinations that make no sense.
    """
    entries, table = read_entries(path)
    settings = _Reader(str(path), entries, "GROMACS 2022 has none of it either").settings()
    for reason in settings.ignored:
        log.info("%s: without effect: %s", path, reason)
    return settings, table


@contextmanager
def located(path: str | PathLike[str] | None) -> Iterator[None]:
    """Errors without a file whose message begins with an option get the place of that option in a settings file."""
    try:
        yield
    except InputError as error:
        option = re.match(r"[\w-]+", error.message)
        if path is not None and error.file is None and option:
            for entry in read_entries(path)[0]:
                if CANONICAL.get(squeeze(entry.name)) == CANONICAL.get(squeeze(option[0]), ""):
                    raise type(error)(error.message, path, entry.line) from error
        raise


def override_settings(settings: RunSettings, values: Mapping[str, Any]) -> RunSettings:
    """Settings with some options replaced, checked as if they had been written in a file.

    Parameters
    ----------
    settings : RunSettings
    values : mapping of .mdp names, with ``-`` or ``_``, to values

    Raises
    ------
    InputError
        Without file and line.
    """
    if not values:
        return settings
    entries = {squeeze(entry.name): entry for entry in mdp_entries("settings", to_mdp(settings))}
    for name in OF_GROUPS & {entry.name.replace("-", "_") for entry in entries.values()}:
        entries[squeeze(name)] = Entry(
            name, word_of(name, getattr(settings, name)), 1
        )  # for other groups too
    for name, value in values.items():
        entries[squeeze(name)] = Entry(name, word_of(name, value), 1)
    try:
        changed = _Reader(
            "settings", entries.values(), "it is neither an .mdp option nor a keyword here"
        ).settings()
    except InputError as error:  # there is no file, nor a line
        raise InputError(error.message) from error
    return replace(changed, ignored=settings.ignored)


_ELECTROSTATICS = {
    "reaction-field": ("epsilon_rf",),
    "pme": (
        *("fourierspacing", "fourier_nx", "fourier_ny", "fourier_nz"),
        *("pme_order", "ewald_rtol", "ewald_geometry"),
    ),
}


_ONLY_WITH = (
    (("comm_grps",), "comm_mode", "linear"),
    (("gen_temp", "gen_seed"), "gen_vel", True),
    (("disre_fc", "disre_tau"), "disre", "simple"),
    (("lincs_order", "lincs_iter", "lincs_warnangle"), "constraint_algorithm", "lincs"),
    (("shake_tol",), "constraint_algorithm", "shake"),
)
"""Options that act with one value of another option."""

_MINIMISATION = ("emtol", "emstep", "nbfgscorr")

_ONLY_IN_TIME = (
    *("tcoupl", "tc_grps", "tau_t", "ref_t", "nsttcouple", "pcoupl", *OF_BAROSTAT, *OF_ANNEALING),
    *("comm_grps", "gen_vel", "gen_temp", "nstxout", "nstvout", "nstfout", "nstxout_compressed"),
)
"""Options of moves in time alone, those of their trajectories included."""


class _Reader:
    """Turns assignments into settings; remembers where each was made for the messages."""

    def __init__(self, path: str, entries: Iterable[Entry], nowhere: str) -> None:
        self.path, self.nowhere = path, nowhere
        self.values: dict[str, Any] = {}
        self.lines: dict[str, int] = {}
        self.words: dict[str, int] = {}
        self.ignored: list[str] = []
        for entry in entries:
            self._take(entry)

    def _take(self, entry: Entry) -> None:
        name = CANONICAL.get(squeeze(entry.name))
        if name is None:
            honoured = [word for word, known in CANONICAL.items() if known in HONOURED]
            close = difflib.get_close_matches(squeeze(entry.name), honoured, n=1)
            hint = self.nowhere
            if method := method_of(entry.name):
                hint = f"{method} and its options are not supported{remedy(method)}"
            elif close:
                hint = f"did you mean {CANONICAL[close[0]].replace('_', '-')}?"
            raise InputError(f"unknown option {entry.name}; {hint}", self.path, entry.line)
        if not entry.value:  # as if it were not there, so another line may give it
            return
        if name in self.lines:
            raise InputError(f"{entry.name} was set before in line {self.lines[name]}", self.path, entry.line)
        self.lines[name] = entry.line
        if name in HONOURED:
            self.values[name] = self._convert(name, entry)
            self.words[name] = len(entry.value.split())
        elif name in FIXED:
            self._check_fixed(name, entry)
        else:
            self.ignored.append(f"{name} ({IGNORED[name]})")

    def _convert(self, name: str, entry: Entry) -> Any:
        try:
            return HONOURED[name](entry.value)
        except (ValueError, KeyError) as error:
            reason = (
                str(error) if "supported" in str(error) or "written" in str(error) else "not a valid value"
            )
            if reason.startswith("supported:"):
                reason += remedy(name)
            raise InputError(f"{entry.name} = {entry.value}: {reason}", self.path, entry.line) from error

    def _check_fixed(self, name: str, entry: Entry) -> None:
        for word in entry.value.split():
            if squeeze(word) not in FIXED[name] and not is_zero(word, FIXED[name]):
                only = " or ".join(FIXED[name]) or "an empty value"
                raise InputError(
                    f"{entry.name} = {entry.value} is not supported: only {only}{remedy(name)}",
                    self.path,
                    entry.line,
                )

    def refuse(self, name: str, message: str, asked_by: str = "") -> NoReturn:
        """Refuse a combination; points to the line of an option if it was set, else of the one that asks for it."""
        raise InputError(message, self.path, self.lines.get(name, self.lines.get(asked_by, 1)))

    def settings(self) -> RunSettings:
        """Check what was read and build the record."""
        settings = RunSettings(**self._resolve_types())
        self._check_numbers(settings)
        self._check_cutoffs(settings)
        settings = resolve_coupling(self, self._resolve_minimisation(settings))
        self._check_frozen(settings)
        settings = resolve_annealing(self, settings)
        settings = self._resolve_output(resolve_pressure(self, settings))
        if settings.verlet_buffer_tolerance > 0 and "rlist" in self.values:
            self.ignored.append("rlist (it follows from verlet_buffer_tolerance)")
        if settings.vdw_modifier in ("potential-shift", "none") and settings.rvdw_switch != 0.0:
            self.ignored.append("rvdw_switch (only for vdw_modifier = force-switch or potential-switch)")
        self._note_other_electrostatics(settings)
        self._note_options_of_others(settings)
        if not settings.has_chains and "nh_chain_length" in self.values:
            settings = replace(settings, nh_chain_length=DEFAULTS["nh_chain_length"])
            self.ignored.append("nh_chain_length (only with integrator = md-vv and tcoupl = nose-hoover)")
        return replace(settings, ignored=tuple(self.ignored))

    def _resolve_types(self) -> dict[str, Any]:
        """The values with older names of methods replaced by what gmx makes of them."""
        values = dict(self.values)
        modifier = {"switch": "potential-switch", "shift": "force-switch"}.get(values.get("vdwtype", ""))
        if modifier is not None:
            given = values.get("vdw_modifier", modifier)
            if given in ("force-switch", "potential-switch") and given != modifier:
                self.refuse(
                    "vdw_modifier",
                    f"vdwtype = {values['vdwtype']} contradicts vdw_modifier = {given}; use vdwtype = cut-off with it",
                )
            log.info("%s: vdwtype = %s is vdw-modifier = %s", self.path, values["vdwtype"], modifier)
            values |= {"vdwtype": "cut-off", "vdw_modifier": modifier}
        if values.get("coulombtype") == "reaction-field-zero":
            if values.get("epsilon_rf", 0.0) != 0.0:
                self.refuse("epsilon_rf", "coulombtype = reaction-field-zero needs epsilon_rf = 0 (infinite)")
            values["coulombtype"] = "reaction-field"
        return values

    def _note_other_electrostatics(self, s: RunSettings) -> None:
        """Options of another coulombtype than that of the run are without effect."""
        for coulombtype, names in _ELECTROSTATICS.items():
            if s.coulombtype != coulombtype:
                given = [name for name in names if name in self.values]
                self.ignored += [f"{name} (only for coulombtype = {coulombtype})" for name in given]

    def _note_options_of_others(self, s: RunSettings) -> None:
        """Options of what the other option of `_ONLY_WITH` switches on are without effect."""
        for names, other, value in _ONLY_WITH:
            if getattr(s, other) != value:
                given = [name for name in names if name in self.values]
                self.ignored += [f"{name} (only with {other} = {word_of(other, value)})" for name in given]

    def _check_numbers(self, s: RunSettings) -> None:
        for name in ("dt", "epsilon_r", "rcoulomb", "rvdw"):
            if getattr(s, name) <= 0:
                self.refuse(name, f"{name} = {getattr(s, name)} must be positive")
        for name in (
            *("init_step", "nstxout", "nstvout", "nstfout", "nstlog", "nstcalcenergy", "nstenergy"),
            *("nstxout_compressed", "nstcomm", "gen_temp", "epsilon_rf"),
        ):
            if getattr(s, name) < 0:
                self.refuse(name, f"{name} = {getattr(s, name)} must not be negative")
        if s.nsteps < -1:
            self.refuse("nsteps", f"nsteps = {s.nsteps}: a number of steps, or -1 for a run without end")
        for name, least in (("lincs_order", 1), ("lincs_iter", 0)):
            if getattr(s, name) < least:
                self.refuse(name, f"{name} = {getattr(s, name)} must be at least {least}")
        if not 0 < s.lincs_warnangle <= 90:
            self.refuse("lincs_warnangle", f"lincs_warnangle = {s.lincs_warnangle}: from 0 to 90 degrees")
        if not 0 < s.shake_tol < 0.1:
            self.refuse("shake_tol", f"shake_tol = {s.shake_tol} must be positive, and below 0.1")
        if s.nstlist < 1:
            self.refuse("nstlist", f"nstlist = {s.nstlist} must be at least 1")
        if s.disre != "no" and s.disre_tau != 0.0:
            self.refuse(
                "disre_tau", f"disre_tau = {s.disre_tau}: mean distances over time are not supported, use 0"
            )
        if s.gen_vel and s.continuation:
            self.refuse("gen_vel", "gen_vel = yes contradicts continuation = yes")

    def _check_cutoffs(self, s: RunSettings) -> None:
        if s.rcoulomb != s.rvdw:
            self.refuse(
                "rvdw",
                f"rcoulomb = {s.rcoulomb} and rvdw = {s.rvdw} must be equal; with PME give rcoulomb the value of "
                "rvdw and scale fourierspacing along with it, which keeps the accuracy",
                "rcoulomb",
            )
        if s.vdw_modifier in ("force-switch", "potential-switch") and not 0 <= s.rvdw_switch < s.rvdw:
            self.refuse(
                "rvdw_switch",
                f"rvdw_switch = {s.rvdw_switch} must be below rvdw = {s.rvdw} with vdw_modifier = {s.vdw_modifier}",
            )
        if s.dispcorr != "no" and s.vdw_modifier == "potential-switch" and s.rvdw_switch == 0:
            self.refuse(
                "rvdw_switch",
                "rvdw_switch = 0: DispCorr with potential-switch needs a value above 0",
                "dispcorr",
            )
        if s.verlet_buffer_tolerance == 0:
            self.refuse(
                "verlet_buffer_tolerance", "verlet_buffer_tolerance = 0: positive, or -1 to use rlist"
            )
        if s.verlet_buffer_tolerance < 0 and s.rlist < s.rvdw:
            self.refuse("rlist", f"rlist = {s.rlist} must not be smaller than the cut-off {s.rvdw}", "rvdw")
        if s.coulombtype == "pme":
            self._check_lattice_sum(s)
        if s.coulombtype == "reaction-field" and 0 < s.epsilon_rf < s.epsilon_r:
            self.refuse("epsilon_rf", f"epsilon_rf = {s.epsilon_rf} must be 0 (infinite) or >= epsilon_r")

    def _check_lattice_sum(self, s: RunSettings) -> None:
        if s.fourierspacing <= 0:
            self.refuse("fourierspacing", f"fourierspacing = {s.fourierspacing} must be positive")
        for name in ("fourier_nx", "fourier_ny", "fourier_nz"):
            if getattr(s, name) < 0:
                self.refuse(name, f"{name} = {getattr(s, name)}: a number of points, or 0 to choose it")
        if s.pme_order not in (4, 5, 6):
            self.refuse("pme_order", f"pme_order = {s.pme_order} is not supported: 4, 5 or 6")
        if not 1e-12 <= s.ewald_rtol <= 0.1:
            self.refuse("ewald_rtol", f"ewald_rtol = {s.ewald_rtol} is not supported: from 1e-12 to 0.1")

    def _resolve_minimisation(self, s: RunSettings) -> RunSettings:
        """Leave out what only moves in time have, or only minimisation has."""
        if not s.minimises:
            given = [name for name in _MINIMISATION if name in self.values]
            self.ignored += [f"{name} (only for integrator = steep or l-bfgs)" for name in given]
            return s
        for name in ("emtol", "emstep"):
            if getattr(s, name) <= 0:
                self.refuse(name, f"{name} = {getattr(s, name)} must be positive")
        if s.nbfgscorr < 1:
            self.refuse("nbfgscorr", f"nbfgscorr = {s.nbfgscorr} must be at least 1")
        if s.integrator == "l-bfgs" and s.constraints != "none":
            self.refuse(
                "constraints",
                f"integrator = l-bfgs moves atoms freely, not with constraints = {s.constraints}; use constraints = "
                "none, or integrator = steep",
            )
        given = [name for name in _ONLY_IN_TIME if getattr(s, name) != DEFAULTS[name]]
        self.ignored += [f"{name} (not for minimisation)" for name in given]
        return replace(s, **{name: DEFAULTS[name] for name in _ONLY_IN_TIME})

    def _check_frozen(self, s: RunSettings) -> None:
        if len(s.freezedim) != 3 * len(s.freezegrps):
            self.refuse(
                "freezedim",
                f"freezedim needs three values for each of {len(s.freezegrps)} freezegrps: Y Y Y",
                "freezegrps",
            )
        if any(word.lower() not in ("y", "yes") for word in s.freezedim):
            self.refuse(
                "freezedim",
                f"freezedim = {' '.join(s.freezedim)}: atoms are frozen in all three dimensions only, Y Y Y; use "
                "position restraints for one or two",
            )
        if s.freezegrps and s.pcoupl != "no":
            self.refuse("freezegrps", f"freezegrps is not supported with pcoupl = {s.pcoupl}")

    def _resolve_output(self, s: RunSettings) -> RunSettings:
        """Make nstenergy a multiple of nstcalcenergy as gmx does; note what is not written."""
        if s.nstxout and s.nstxout_compressed:
            self.ignored.append("nstxout (the one trajectory has the steps of nstxout_compressed)")
        if s.nstvout:
            self.ignored.append(
                "nstvout (velocities are in every frame of --trajectory trr, and in no other)"
            )
        if s.nstfout:
            self.ignored.append("nstfout (forces are not written)")
        if s.nstenergy == 0 or s.nstcalcenergy == 0:
            return s
        if s.nstcalcenergy > s.nstenergy:
            return replace(s, nstcalcenergy=s.nstenergy)
        rest = s.nstenergy % s.nstcalcenergy
        if rest == 0:
            return s
        nstenergy = s.nstenergy - rest + s.nstcalcenergy
        log.warning("%s: nstenergy raised to %d, a multiple of nstcalcenergy", self.path, nstenergy)
        return replace(s, nstenergy=nstenergy)
