"""What thermostats and barostats in a settings file may say, and what follows where it does not."""

from __future__ import annotations

from dataclasses import replace

from pulsemd.forcefield.settings import RunSettings
from pulsemd.io.gromacs.mdp_entries import Reader
from pulsemd.io.gromacs.mdp_writer import DEFAULTS, OF_BAROSTAT, OF_GROUPS

_STEPS_PER_TAU = 25
"""Couplings in one tau_p at least, where nstpcouple is not given, as in gmx."""

_STEPS_PER_SWING = 20
"""Couplings in one tau_t of Nose and Hoover's thermostat at least, where nsttcouple is not given."""

_LEAST_PER_SWING = 5
"""With pi or fewer its swings grow without bound."""

_SUCH_AS = {"compressibility": "4.5e-5 (1/bar, water)", "ref_p": "1 (bar)"}


def resolve_coupling(reader: Reader, s: RunSettings) -> RunSettings:
    """The settings without what a thermostat and a stopped centre of mass have where there is none, checked else."""
    if s.nstcomm == 0 or s.comm_mode == "none":
        s = replace(s, comm_mode="none", comm_grps=())
    if s.minimises:
        return s
    if s.integrator == "sd":
        return _resolve_bath(reader, s)
    if s.integrator == "md-vv":
        _check_velocity_verlet(reader, s)
    if s.tcoupl == "no":
        given = [name for name in ("tc_grps", "tau_t", "ref_t", "nsttcouple") if name in reader.values]
        reader.ignored += [f"{name} (only with tcoupl)" for name in given]
        return replace(s, **{name: DEFAULTS[name] for name in given})
    _check_bath(reader, s, "tcoupl")
    return _resolve_interval(reader, s)


def _resolve_interval(reader: Reader, s: RunSettings) -> RunSettings:
    """The settings with a number of steps between couplings, which Nose and Hoover's swings bound."""
    coupled = [bath for bath in s.baths if bath.tau_t > 0]
    if s.tcoupl == "nose-hoover" and any(bath.ref_t == 0 for bath in coupled):
        reader.refuse("ref_t", "tcoupl = nose-hoover needs a ref_t above 0")
    swings = s.tcoupl == "nose-hoover"
    shortest = min(bath.tau_t for bath in coupled)
    if s.nsttcouple == -1 or (swings and "nsttcouple" not in reader.values):
        most = max(1, int(shortest / (_STEPS_PER_SWING * s.dt))) if swings else DEFAULTS["nsttcouple"]
        s = replace(s, nsttcouple=min(most, DEFAULTS["nsttcouple"]))
    if s.nsttcouple < 1:
        reader.refuse("nsttcouple", f"nsttcouple = {s.nsttcouple} must be at least 1, or -1 for the default")
    if swings and shortest < _LEAST_PER_SWING * s.nsttcouple * s.dt:
        reader.refuse(
            "nsttcouple",
            f"nsttcouple = {s.nsttcouple} and dt = {s.dt:g}: Nose-Hoover with tau_t = {shortest:g} has to couple "
            f"at least {_LEAST_PER_SWING} times in it, better {_STEPS_PER_SWING}; raise tau_t or lower nsttcouple",
            "tau_t",
        )
    return s


def _check_velocity_verlet(reader: Reader, s: RunSettings) -> None:
    """Parrinello and Rahman's box is one of leap-frog; chains have a length and no barostat."""
    if s.tcoupl == "nose-hoover" and s.pcoupl != "no":
        reader.refuse(
            "pcoupl",
            f"pcoupl = {s.pcoupl} is not supported with integrator = md-vv and tcoupl = nose-hoover; use tcoupl = "
            "v-rescale, or integrator = md",
        )
    if s.tcoupl == "nose-hoover" and not 1 <= s.nh_chain_length <= 100:
        reader.refuse("nh_chain_length", f"nh_chain_length = {s.nh_chain_length}: from 1 to 100", "tcoupl")
    if s.pcoupl == "parrinello-rahman":
        reader.refuse(
            "pcoupl",
            "pcoupl = parrinello-rahman is not supported with integrator = md-vv, nor does gmx have it; use "
            "c-rescale, or integrator = md",
        )


def _resolve_bath(reader: Reader, s: RunSettings) -> RunSettings:
    """Stochastic dynamics is its own thermostat."""
    given = [name for name in ("tcoupl", "nsttcouple") if name in reader.values]
    reader.ignored += [f"{name} (integrator = sd is a thermostat itself)" for name in given]
    _check_bath(reader, s, "integrator")
    return replace(s, **{name: DEFAULTS[name] for name in ("tcoupl", "nsttcouple")})


def _check_bath(reader: Reader, s: RunSettings, name: str) -> None:
    asked = f"{name} = {getattr(s, name)}"
    if not s.tc_grps:
        reader.refuse(name, f"{asked} needs tc_grps = System")
    _check_groups(reader, s)
    baths = s.baths
    uncoupled = [bath.tau_t for bath in baths if bath.tau_t <= 0]
    cold = len(uncoupled) == len(baths) or (s.integrator == "sd" and len(uncoupled) > 0)
    if cold or min(bath.ref_t for bath in baths) < 0 or "ref_t" not in reader.values:
        reader.refuse(
            "tau_t" if cold else "ref_t",
            f"{asked} needs a positive tau_t and a ref_t, not {s.tau_t} and {s.ref_t}",
            name,
        )
    if any(tau_t not in (0.0, -1.0) for tau_t in uncoupled):
        reader.refuse("tau_t", "tau_t must be positive, or -1 for a group that is not coupled")


def _check_groups(reader: Reader, s: RunSettings) -> None:
    for option in sorted(OF_GROUPS & reader.values.keys()):
        if reader.words[option] not in (1, len(s.tc_grps)):
            reader.refuse(
                option,
                f"{option} has {reader.words[option]} values for {len(s.tc_grps)} tc_grps; give one each",
            )


def resolve_pressure(reader: Reader, s: RunSettings) -> RunSettings:
    """The settings without what a barostat has where there is none, checked where there is."""
    if s.minimises:
        return s
    if s.pcoupl == "no":
        given = [name for name in OF_BAROSTAT if name in reader.values]
        reader.ignored += [f"{name} (only with pcoupl)" for name in given]
        return replace(s, **{name: DEFAULTS[name] for name in given})
    if s.pcoupl == "c-rescale" and not s.has_temperature:
        reader.refuse(
            "pcoupl", "pcoupl = c-rescale needs a temperature: set tcoupl or integrator = sd, with ref_t"
        )
    if s.tau_p <= 0:
        reader.refuse("tau_p", f"tau_p = {s.tau_p} must be positive: a time in ps, such as 2")
    expected = {"isotropic": 1, "semiisotropic": 2, "anisotropic": 6}[s.pcoupltype]
    for name in ("compressibility", "ref_p"):
        if len(getattr(s, name)) != expected:
            reader.refuse(
                name,
                f"pcoupltype = {s.pcoupltype} needs {expected} value(s) of {name}, such as {_SUCH_AS[name]}",
                "pcoupl",
            )
    if any(s.compressibility[3:]):
        reader.refuse(
            "compressibility",
            "pcoupltype = anisotropic: shear of the box is not supported; its last three values have to be 0",
            "pcoupltype",
        )
    if min(s.compressibility) < 0 or max(s.compressibility) == 0:
        reader.refuse("compressibility", "compressibility must not be negative, nor 0 in every direction")
    if s.nstpcouple == -1:
        most = int(s.tau_p / (_STEPS_PER_TAU * s.dt))
        return replace(s, nstpcouple=max(1, min(DEFAULTS["nstpcouple"], most)))
    if s.nstpcouple < 1:
        reader.refuse("nstpcouple", f"nstpcouple = {s.nstpcouple} must be at least 1, or -1 for the default")
    return s
