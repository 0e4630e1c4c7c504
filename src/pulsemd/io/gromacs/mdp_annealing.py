"""What simulated annealing in a settings file may say."""

from __future__ import annotations

from dataclasses import replace

from pulsemd.forcefield.settings import RunSettings
from pulsemd.io.gromacs.mdp_entries import Reader

OF_ANNEALING = ("annealing", "annealing_npoints", "annealing_time", "annealing_temp")


def resolve_annealing(reader: Reader, s: RunSettings) -> RunSettings:
    """The settings without annealing where there is none, and checked where there is."""
    given = [name for name in OF_ANNEALING if name in reader.values]
    without = replace(s, annealing=(), annealing_npoints=(), annealing_time=(), annealing_temp=())
    if set(s.annealing) <= {"no"}:
        reader.ignored += [f"{name} (only with annealing)" for name in given[1 if s.annealing else 0 :]]
        return without
    if not s.has_temperature:
        reader.ignored += [f"{name} (only with tcoupl or integrator = sd)" for name in given]
        return without
    _check(reader, s)
    return s


def _check(reader: Reader, s: RunSettings) -> None:
    if s.tcoupl == "nose-hoover":
        reader.refuse(
            "annealing",
            "annealing is not supported with tcoupl = nose-hoover; use v-rescale or integrator = sd",
        )
    n, n_points = len(s.tc_grps), sum(s.annealing_npoints)
    for name, wanted, of in (
        ("annealing", n, f"{n} tc_grps"),
        ("annealing_npoints", n, f"{n} tc_grps"),
        ("annealing_time", n_points, f"{n_points} annealing_npoints"),
        ("annealing_temp", n_points, f"{n_points} annealing_npoints"),
    ):
        if len(getattr(s, name)) != wanted:
            reader.refuse(
                name, f"{name} has {len(getattr(s, name))} values for {of}; give one each", "annealing"
            )
    if min(s.annealing_npoints) < 0 or min(s.annealing_temp, default=0.0) < 0:
        reader.refuse(
            "annealing_temp", "annealing_npoints and annealing_temp must not be negative", "annealing"
        )
    for group, schedule in zip(s.tc_grps, s.schedules, strict=True):
        if schedule is None:
            continue
        times = schedule.times
        if len(times) < 2 or list(times) != sorted(times):
            reader.refuse(
                "annealing_time",
                f"annealing of {group} needs two points or more, at times that ascend",
                "annealing",
            )
        first = 0.0 if schedule.periodic else s.tinit
        if times[0] > first or (schedule.periodic and (times[0] < 0.0 or times[-1] <= 0.0)):
            reader.refuse(
                "annealing_time",
                f"annealing of {group} has to begin at {first:g} ps"
                + (" or before" if not schedule.periodic else ""),
                "annealing",
            )
