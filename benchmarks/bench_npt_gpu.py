"""Density and volume fluctuations at constant pressure on one GPU, beside OpenMM's CUDA platform in the same process.

    python benchmarks/bench_npt_gpu.py --out benchmarks/results --dhfr FOLDER [--thermostats sd v-rescale]

All run one Hamiltonian, dihydrofolate reductase in water (23,558 atoms): PME, Lennard-Jones whose potential is
switched off from 0.9 to 1.0 nm by the same polynomial (a plain cut-off means something else to a Monte Carlo barostat
than to a virial), bonds to hydrogens rigid, 2 fs, 300 K, 1 bar. OpenMM has its Monte Carlo barostat and Langevin
integrator, PulseMD C-rescale and the same Langevin dynamics (``sd``), or v-rescale. These two thermostats do not mean
quite the same at 2 fs: friction and noise hold every motion at 300 K, v-rescale the sum of all, of which fast
rotations of water then have more than their part and translations less, as much as leap-frog's step makes of it. The
temperature of the motion of whole waters shows it.

PulseMD equilibrates the box for `EQUILIBRATION` ps; all start from there, take turns, and leave out another `SKIPPED`
ps. With ``--ratios`` pressures at fixed volumes are found first, and from them, without any barostat, the volume at
1 bar and its fluctuation (``npt_gpu__fixed-volumes__*.csv``). Errors are those of means of blocks, of the length at
which they are largest, and for the width of the distribution those of the jackknife over blocks. Times of a step count
if nothing else runs on the GPU.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from bench_openmm_gpu import dhfr_system, openmm_system
from block_errors import mean_and_error, width_and_error
from fixed_volumes import measure
from numpy.typing import NDArray
from result_rows import timed_row, write_rows

from pulsemd.base.units import ATOMIC_MASS_PER_NM3, BOLTZMANN
from pulsemd.engine.options import RunOptions
from pulsemd.engine.reporters import Frame, Reporter
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import System
from pulsemd.halo import open_transport
from pulsemd.topology.records import Topology

EVERY: Final = 100
"""Steps between two samples of the volume."""
TURN: Final = 5000
"""Steps of a turn."""
VELOCITIES_EVERY: Final = 1000
"""Steps between two looks at velocities."""
EQUILIBRATION: Final = 100.0
SKIPPED: Final = 10.0
ATTEMPTS_EVERY: Final = 10
"""Steps between two attempts of the Monte Carlo barostat."""
KELVIN: Final = 300.0
NAMES: Final = ("density", "volume_width", "temperature", "translation")
WRITE_EVERY: Final = 10.0
"""Seconds after which the results so far are written."""

OPTIONS: Final = {
    "coulombtype": "pme",
    "fourierspacing": 0.125,
    "pme_order": 5,
    "vdw_modifier": "potential-switch",
    "rvdw_switch": 0.9,
    "tcoupl": "v-rescale",
    "tc_grps": ("System",),
    "tau_t": 0.5,
    "ref_t": KELVIN,
    "pcoupl": "c-rescale",
    "tau_p": 1.0,
    "nstpcouple": 4,
    "compressibility": (4.5e-5,),
    "ref_p": (1.0,),
}


THERMOSTATS: Final = {
    "sd": {"integrator": "sd", "tcoupl": "no", "tau_t": 1.0},
    "v-rescale": {},
}
"""Settings of PulseMD in place of `OPTIONS`."""


class Samples:
    """What is kept of a run: volumes [nm^3] and temperatures [K] of every `EVERY` steps, of whole waters of fewer."""

    def __init__(self, topology: Topology) -> None:
        self._waters, self._mass = topology.settle_atoms, topology.mass
        self.volumes: list[float] = []
        self.temperatures: list[float] = []
        self.translation: list[float] = []

    def note_velocities(self, v: NDArray[Any]) -> None:
        """Keep the temperature that the motion of whole waters has."""
        mass = self._mass[self._waters]
        momentum = (mass[:, :, None] * v[self._waters]).sum(1)
        twice = ((momentum**2).sum(1) / mass.sum(1)).sum()
        self.translation.append(float(twice) / (3 * len(mass) * BOLTZMANN))


class Ours:
    """A run of PulseMD."""

    def __init__(self, system: System, **settings: Any) -> None:
        system = replace(system, settings=replace(system.settings, **settings))
        self.samples = Samples(system.topology)
        options = RunOptions(device="cuda", raise_nstlist=True)
        reporters = [
            Reporter(EVERY, energies=self._note),
            Reporter(VELOCITIES_EVERY, frame=self._note_frame),
        ]
        self.simulation = Simulation(open_transport("loopback"), system, options, reporters)
        self.simulation.warm_up()

    def _note(self, step: int, time: float, record: dict[str, float]) -> None:
        self.samples.volumes.append(record["volume"])
        self.samples.temperatures.append(record["temperature"])

    def _note_frame(self, frame: Frame) -> None:
        self.samples.note_velocities(frame.v)

    def step(self) -> None:
        """A turn."""
        self.simulation.run(TURN)


class Theirs:
    """The same of OpenMM."""

    def __init__(self, system: System) -> None:
        import openmm

        self.samples, self.version = Samples(system.topology), openmm.version.short_version
        s, made = system.settings, openmm_system(system)
        (pairs,) = (f for f in made.getForces() if isinstance(f, openmm.NonbondedForce))
        pairs.setUseSwitchingFunction(True)
        pairs.setSwitchingDistance(s.rvdw_switch)
        made.addForce(openmm.MonteCarloBarostat(s.ref_p[0], KELVIN, ATTEMPTS_EVERY))
        integrator = openmm.LangevinMiddleIntegrator(KELVIN, 1.0 / THERMOSTATS["sd"]["tau_t"], s.dt)
        platform = openmm.Platform.getPlatformByName("CUDA")
        self._context = openmm.Context(made, integrator, platform, {"Precision": "mixed"})
        self._context.setPositions(system.whole_positions(system.x))
        self._context.setVelocities(system.v.tolist())
        self._integrator, self._unit = integrator, openmm.unit
        self._half_dof = 0.5 * (3 * np.count_nonzero(system.topology.mass) - made.getNumConstraints())
        integrator.step(20)

    def step(self) -> None:
        """A turn."""
        for done in range(EVERY, TURN + EVERY, EVERY):
            self._integrator.step(EVERY)
            look = done % VELOCITIES_EVERY == 0
            state = self._context.getState(getEnergy=True, getVelocities=look)
            kinetic = state.getKineticEnergy().value_in_unit(self._unit.kilojoule_per_mole)
            self.samples.volumes.append(
                float(state.getPeriodicBoxVolume().value_in_unit(self._unit.nanometer**3))
            )
            self.samples.temperatures.append(kinetic / (self._half_dof * BOLTZMANN))
            if look:
                per_ps = self._unit.nanometer / self._unit.picosecond
                self.samples.note_velocities(state.getVelocities(asNumpy=True).value_in_unit(per_ps))


def equilibrated(system: System) -> System:
    """The system after `EQUILIBRATION` ps."""
    run = Ours(system).simulation
    run.run(round(EQUILIBRATION / system.settings.dt))
    frame = run.gather()
    assert frame is not None
    return replace(system.in_cell(frame.cell), x=frame.x, v=frame.v)


def row_of(
    name: str, device: str, samples: Samples, system: System, seconds: list[float]
) -> dict[str, object]:
    """What is found of one program."""
    skipped = round(SKIPPED / system.settings.dt)
    volumes = np.array(samples.volumes[skipped // EVERY :])
    mass = float(system.topology.mass.sum())
    found = {
        "density": mean_and_error(mass / volumes * ATOMIC_MASS_PER_NM3),
        "volume": mean_and_error(volumes),
        "volume_width": width_and_error(volumes),
        "temperature": mean_and_error(np.array(samples.temperatures[skipped // EVERY :])),
        "translation": mean_and_error(np.array(samples.translation[skipped // VELOCITIES_EVERY :])),
    }
    row = timed_row(
        device,
        [s / TURN for s in seconds],
        precision="fast",
        system="dhfr, PME, NPT",
        n_atoms=system.topology.n_atoms,
        steps=EVERY * len(volumes),
        peer=name,
        picoseconds=f"{EVERY * len(volumes) * system.settings.dt:.1f}",
    )
    for key, (value, error) in found.items():
        row |= {key: f"{value:.4f}", f"{key}_error": f"{error:.4f}"}
    print({key: value for key, value in row.items() if value != ""}, flush=True)
    return row


def apart(a: dict[str, Any], b: dict[str, Any], name: str) -> float:
    """Distance of two results in standard errors."""
    error = np.hypot(float(a[f"{name}_error"]), float(b[f"{name}_error"]))
    return (float(a[name]) - float(b[name])) / float(error)


def main() -> None:
    """Measure and write ``npt_gpu__openmm__DEVICEx1__COMMIT.csv``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dhfr", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=100.0, help="of all, after equilibration")
    parser.add_argument("--thermostats", nargs="+", choices=THERMOSTATS, default=["sd"], help="of PulseMD")
    parser.add_argument("--ratios", type=float, nargs="+", help="of fixed volumes to the one at the start")
    parser.add_argument("--picoseconds", type=float, default=100.0, help="at each of them")
    options = parser.parse_args()
    begin = time.perf_counter()
    system = equilibrated(dhfr_system(options.dhfr, **OPTIONS))
    print(f"equilibrated after {time.perf_counter() - begin:.1f} s", flush=True)
    if options.ratios:
        coupled = replace(system, settings=replace(system.settings, **THERMOSTATS["sd"]))
        measure(coupled, options.ratios, options.picoseconds, options.out)
        print(f"fixed volumes after {time.perf_counter() - begin:.1f} s", flush=True)
    theirs = Theirs(system)
    runs: dict[str, Any] = {f"openmm {theirs.version} cuda monte carlo, langevin": theirs}
    runs |= {f"pulsemd c-rescale, {name}": Ours(system, **THERMOSTATS[name]) for name in options.thermostats}
    print(f"all are ready after {time.perf_counter() - begin:.1f} s", flush=True)
    times: dict[str, list[float]] = {name: [] for name in runs}
    begin = written = time.perf_counter()
    while time.perf_counter() - begin < options.seconds:
        for name, run in runs.items():
            start = time.perf_counter()
            run.step()
            times[name].append(time.perf_counter() - start)
        if time.perf_counter() - written > WRITE_EVERY:
            written = time.perf_counter()
            report(system, runs, times, options.out)
    report(system, runs, times, options.out)


def report(system: System, runs: dict[str, Any], times: dict[str, list[float]], out: Path) -> None:
    """Write and print what is known so far."""
    theirs, *ours = runs.values()
    if EVERY * len(theirs.samples.volumes) * system.settings.dt < 5 * SKIPPED:
        return
    device = str(ours[0].simulation.rank.device.name)
    rows = [row_of(name, device, run.samples, system, times[name]) for name, run in runs.items()]
    for row in rows[1:]:
        print(
            f"{row['peer']}:",
            ", ".join(f"{name} {apart(row, rows[0], name):+.2f}" for name in NAMES),
            "errors apart",
        )
    write_rows(out, "npt_gpu", "openmm", rows)


if __name__ == "__main__":
    main()
