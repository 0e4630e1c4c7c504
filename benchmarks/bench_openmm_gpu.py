"""Time of molecular dynamics on one GPU next to OpenMM's CUDA platform in the same process, in alternated repeats.

    python benchmarks/bench_openmm_gpu.py --out benchmarks/results [--atoms 11000 90000] [--dhfr FOLDER] [--pme]

Both run the same system, read by PulseMD and handed to OpenMM atom by atom: reaction field, or PME with one splitting
parameter and one mesh (OpenMM has splines of order 5; PulseMD also runs with the usual 4), and Lennard-Jones cut off
at 1.0 nm, constraints as the .mdp says, 2 fs, mixed precision. PulseMD has its v-rescale thermostat and the removal of
the centre of mass' motion; OpenMM has none of either (its Verlet integrator, the fastest it has). ``--dhfr`` names a
folder with dhfr.gro.gz and dhfr.top.gz: dihydrofolate reductase in water, 23,558 atoms.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from bench_md_gpu import PME, dhfr_system, water_system
from result_rows import timed_row, write_rows

from pulsemd.base.units import COULOMB
from pulsemd.engine.lattice import system_mesh
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import System
from pulsemd.halo import open_transport
from pulsemd.kernels.nonbonded.ewald import ewald_coefficient

SIZES: Final = (11_000, 45_000, 90_000, 720_000)
REPEATS: Final = 5
SECONDS: Final = 0.25
"""About how long a repeat of either program takes."""

INFINITE: Final = 1e10
"""Dielectric constant of conducting surroundings, which OpenMM has no other word for."""


def openmm_system(system: System) -> Any:
    """The same system for OpenMM."""
    import openmm

    topology, settings = system.topology, system.settings
    made = openmm.System()
    made.setDefaultPeriodicBoxVectors(*(openmm.Vec3(*row) for row in system.box))
    for mass in topology.mass.tolist():
        made.addParticle(mass)
    for (o, a, b), (d_oh, d_hh) in zip(
        topology.settle_atoms.tolist(), topology.settle_parameters.tolist(), strict=True
    ):
        made.addConstraint(o, a, d_oh)
        made.addConstraint(o, b, d_oh)
        made.addConstraint(a, b, d_hh)
    for atoms, (length,) in rows_of(system, "constraint"):
        made.addConstraint(*atoms, length)
    for force in bonded_forces(system, openmm):
        made.addForce(force)
    made.addForce(nonbonded_force(system, openmm))
    assert settings.rcoulomb == settings.rvdw
    return made


def rows_of(system: System, kind: str) -> list[tuple[list[int], list[float]]]:
    """Atoms and parameters of every term of a kind."""
    terms = system.topology.terms.get(kind)
    if terms is None or not len(terms):
        return []
    return list(zip(terms.atoms.tolist(), terms.parameters[terms.index].tolist(), strict=True))


def bonded_forces(system: System, openmm: Any) -> list[Any]:
    """Bonds, angles and torsions; other kinds are refused."""
    bonds, angles, torsions = (
        openmm.HarmonicBondForce(),
        openmm.HarmonicAngleForce(),
        openmm.PeriodicTorsionForce(),
    )
    known = {"bond", "angle", "proper", "periodic_improper", "lj14", "constraint"}
    others = [kind for kind, terms in system.topology.terms.items() if kind not in known and len(terms)]
    if others:
        raise ValueError(f"terms without a counterpart here: {others}")
    for atoms, (length, k) in rows_of(system, "bond"):
        bonds.addBond(*atoms, length, k)
    for atoms, (angle, k) in rows_of(system, "angle"):
        angles.addAngle(*atoms, np.deg2rad(angle), k)
    for kind in ("proper", "periodic_improper"):
        for atoms, (phase, k, multiplicity) in rows_of(system, kind):
            torsions.addTorsion(*atoms, int(multiplicity), np.deg2rad(phase), k)
    return [bonds, angles, torsions]


def nonbonded_force(system: System, openmm: Any) -> Any:
    """Lennard-Jones and reaction field, with the excluded and the 1-4 pairs as exceptions."""
    topology, table, settings = system.topology, system.table, system.settings
    force = openmm.NonbondedForce()
    force.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
    force.setCutoffDistance(settings.rcoulomb)
    force.setReactionFieldDielectric(settings.epsilon_rf or INFINITE)
    if settings.coulombtype == "pme":
        force.setNonbondedMethod(openmm.NonbondedForce.PME)
        force.setPMEParameters(
            ewald_coefficient(settings.rcoulomb, settings.ewald_rtol), *system_mesh(system, on_gpu=True).shape
        )
    force.setUseDispersionCorrection(False)
    c6, c12 = np.diag(table.c6)[topology.type_index], np.diag(table.c12)[topology.type_index]
    for charge, (sigma, epsilon) in zip(
        topology.charge.tolist(), lennard_jones(c6, c12).tolist(), strict=True
    ):
        force.addParticle(charge, sigma, epsilon)
    pairs14 = {}
    for (i, j), (pair6, pair12, factor) in rows_of(system, "lj14"):
        qq = factor * topology.charge[i] * topology.charge[j]
        pairs14[min(i, j), max(i, j)] = (qq, *lennard_jones(pair6, pair12).tolist())
    first = np.repeat(np.arange(topology.n_atoms), np.diff(topology.exclusion_offset))
    excluded = np.column_stack([first, topology.exclusion_atoms])[first < topology.exclusion_atoms].tolist()
    for i, j in excluded:
        force.addException(i, j, *pairs14.pop((i, j), (0.0, 1.0, 0.0)))
    for (i, j), parameters in pairs14.items():
        force.addException(i, j, *parameters)
    return force


def lennard_jones(c6: Any, c12: Any) -> np.ndarray:
    """(..., 2): sigma in nm and epsilon in kJ/mol."""
    c6, c12 = np.asarray(c6, np.float64), np.asarray(c12, np.float64)
    on = (c6 > 0) & (c12 > 0)
    six, twelve = np.where(on, c6, 1.0), np.where(on, c12, 1.0)
    return np.stack(
        [np.where(on, (twelve / six) ** (1 / 6), 1.0), np.where(on, six**2 / (4 * twelve), 0.0)], -1
    )


class OpenMM:
    """A run of OpenMM.

    Attributes
    ----------
    potential : float, kJ/mol
        At the start, without the reaction field of excluded pairs and the self energy.
    """

    def __init__(self, system: System, platform: str = "CUDA") -> None:
        import openmm

        self.version = openmm.version.short_version
        self._integrator = openmm.VerletIntegrator(system.settings.dt)
        properties = {"Precision": "mixed"} if platform == "CUDA" else {}
        found = openmm.Platform.getPlatformByName(platform)
        self._context = openmm.Context(openmm_system(system), self._integrator, found, properties)
        self._context.setPositions(system.whole_positions(system.x))
        start = self._context.getState(getEnergy=True).getPotentialEnergy()
        self.potential = float(start.value_in_unit(openmm.unit.kilojoule_per_mole))
        self._context.setVelocitiesToTemperature(300.0, 1)
        self._context.applyConstraints(1e-6)
        self.step(20)

    def step(self, n: int) -> None:
        """Steps, until they are done."""
        self._integrator.step(n)
        self._context.getState(getEnergy=True, groups={30})  # of no force: it only waits


class Ours:
    """A run of PulseMD, in whole list lifetimes."""

    def __init__(self, system: System) -> None:
        options = RunOptions(device="cuda", raise_nstlist=True)
        self.simulation = Simulation(open_transport("loopback"), system, options)
        self.simulation.warm_up()
        self.step(3 * self.simulation.nstlist)

    def step(self, n: int) -> None:
        """Steps, until they are done."""
        self.simulation.run(n)


def compare_potential(system: System, ours: dict[str, float], theirs: float) -> float:
    """Relative difference of the potential energies, once what OpenMM leaves out is left out of ours."""
    if system.settings.coulombtype == "pme":
        return (ours["potential"] - theirs) / abs(theirs)
    t, s = system.topology, system.settings
    first = np.repeat(np.arange(t.n_atoms), np.diff(t.exclusion_offset))
    once = first < t.exclusion_atoms
    i, j = first[once], t.exclusion_atoms[once]
    d = (system.x[i] - system.x[j]).astype(np.float64) / 2**32 @ system.box
    r2, k_rf = (d * d).sum(1), 0.5 / s.rcoulomb**3
    c_rf = 1.0 / s.rcoulomb + k_rf * s.rcoulomb**2
    excluded = (t.charge[i] * t.charge[j] * np.where(r2 < s.rcoulomb**2, k_rf * r2 - c_rf, 0.0)).sum()
    own = -0.5 * c_rf * (t.charge**2).sum()
    return (ours["potential"] - COULOMB * (excluded + own) - theirs) / abs(theirs)


def seconds_of(run: Any, n: int) -> float:
    """Wall time of one step."""
    start = time.perf_counter()
    run.step(n)
    return (time.perf_counter() - start) / n


def measure(name: str, system: System) -> dict[str, object]:
    """One row: medians of alternated repeats."""
    ours, theirs = Ours(system), OpenMM(system)
    lifetime = ours.simulation.nstlist
    steps = {}
    for run in (ours, theirs):
        per_step = seconds_of(run, 3 * lifetime)
        steps[run] = lifetime * max(1, round(SECONDS / per_step / lifetime))
    times: dict[Any, list[float]] = {run: [seconds_of(run, n)] for run, n in steps.items()}
    for _ in range(REPEATS - 1):
        for run, n in steps.items():
            times[run].append(seconds_of(run, n))
    rank: Any = ours.simulation.rank
    row = timed_row(
        rank.device.name,
        times[ours],
        precision="fast",
        system=name,
        n_atoms=system.topology.n_atoms,
        nstlist=lifetime,
        steps=steps[ours],
        peer=f"openmm {theirs.version} cuda mixed",
        peer_us=f"{1e6 * float(np.median(times[theirs])):.2f}",
        r_list=f"{ours.simulation.r_list:.4f}",
        ratio=f"{np.median(times[theirs]) / np.median(times[ours]):.3f}",
    )
    print({key: value for key, value in row.items() if value != ""}, flush=True)
    return row


def check_energies(name: str, system: System) -> None:
    """Print how far the potential energies of the start are apart, without the shift that OpenMM does not have."""
    system = replace(system, settings=replace(system.settings, vdw_modifier="none", coulomb_modifier="none"))
    simulation = Simulation(open_transport("loopback"), system, RunOptions(device="cuda"))
    difference = compare_potential(system, simulation.evaluate(), OpenMM(system).potential)
    print(f"{name}: potential energies differ by {difference:.2e} of OpenMM's", flush=True)


def main() -> None:
    """Measure and write ``md_gpu__openmm__DEVICEx1__COMMIT.csv``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--atoms", type=int, nargs="*", default=SIZES)
    parser.add_argument("--dhfr", type=Path)
    parser.add_argument("--pme", action="store_true", help="in place of the reaction field")
    options = parser.parse_args()
    cases = {f", PME of order {n}": PME | {"pme_order": n} for n in (5, 4)} if options.pme else {"": {}}
    rows = []

    def keep(row: dict[str, object]) -> None:
        """Write at once what is measured so far."""
        rows.append(row)
        write_rows(options.out, "md_gpu", "openmm-pme" if options.pme else "openmm", rows)

    for suffix, changes in cases.items():
        if options.dhfr is not None:
            system = dhfr_system(options.dhfr, **changes)
            check_energies(f"dhfr{suffix}", system)
            keep(measure(f"dhfr{suffix}", system))
        for n_atoms in options.atoms:
            keep(measure(f"water{suffix}", water_system(n_atoms, 20, **changes)))


if __name__ == "__main__":
    main()
