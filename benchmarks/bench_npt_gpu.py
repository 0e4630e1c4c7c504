"""Density and volume fluctuations at constant pressure on one GPU, beside OpenMM's CUDA platform in the same process.

    python benchmarks/bench_npt_gpu.py --out benchmarks/results --dhfr FOLDER [--seconds 100]

Both run one Hamiltonian, dihydrofolate reductase in water (23,558 atoms): PME, Lennard-Jones whose potential is
switched off from 0.9 to 1.0 nm by the same polynomial (a plain cut-off means something else to a Monte Carlo barostat
than to a virial), bonds to hydrogens rigid, 2 fs, 300 K, 1 bar. PulseMD couples by C-rescale and v-rescale, OpenMM by
its Monte Carlo barostat, every 25 steps, and its Langevin integrator. They take turns; the first `EQUILIBRATION` ps of
each are left out. Errors are those of means of blocks, of the length at which they are largest, and for the width of
the distribution those of the jackknife over blocks. Times of a step count if nothing else runs on the GPU.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
from bench_openmm_gpu import dhfr_system, openmm_system
from numpy.typing import NDArray
from result_rows import timed_row, write_rows

from pulsemd.base.units import ATOMIC_MASS_PER_NM3, BOLTZMANN
from pulsemd.engine.options import RunOptions
from pulsemd.engine.reporters import Reporter
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import System
from pulsemd.halo import open_transport

EVERY: Final = 100
"""Steps between two samples of the volume."""
TURN: Final = 5000
"""Steps of a turn."""
EQUILIBRATION: Final = 20.0
BLOCKS: Final = (8, 12, 16, 24, 32)
KELVIN: Final = 300.0
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
    "compressibility": (4.5e-5,),
    "ref_p": (1.0,),
}


class Ours:
    """A run of PulseMD; volumes [nm^3] and temperatures [K] of every `EVERY` steps."""

    def __init__(self, system: System) -> None:
        self.volumes: list[float] = []
        self.temperatures: list[float] = []
        self.drift: list[float] = []
        options = RunOptions(device="cuda", raise_nstlist=True)
        reporters = [Reporter(EVERY, energies=self._note)]
        self.simulation = Simulation(open_transport("loopback"), system, options, reporters)
        self.simulation.warm_up()

    def _note(self, step: int, time: float, record: dict[str, float]) -> None:
        self.volumes.append(record["volume"])
        self.temperatures.append(record["temperature"])
        self.drift.append(record["conserved"])

    def step(self) -> None:
        """A turn."""
        self.simulation.run(TURN)


class Theirs:
    """The same of OpenMM."""

    def __init__(self, system: System) -> None:
        import openmm

        self.volumes: list[float] = []
        self.temperatures: list[float] = []
        self.version = openmm.version.short_version
        s, made = system.settings, openmm_system(system)
        (pairs,) = (f for f in made.getForces() if isinstance(f, openmm.NonbondedForce))
        pairs.setUseSwitchingFunction(True)
        pairs.setSwitchingDistance(s.rvdw_switch)
        made.addForce(openmm.MonteCarloBarostat(s.ref_p[0], KELVIN, 25))
        integrator = openmm.LangevinMiddleIntegrator(KELVIN, 1.0, s.dt)
        platform = openmm.Platform.getPlatformByName("CUDA")
        self._context = openmm.Context(made, integrator, platform, {"Precision": "mixed"})
        self._context.setPositions(system.whole_positions(system.x))
        self._context.setVelocitiesToTemperature(KELVIN, 1)
        self._integrator, self._unit = integrator, openmm.unit
        self._half_dof = 0.5 * (3 * np.count_nonzero(system.topology.mass) - made.getNumConstraints())
        integrator.step(20)

    def step(self) -> None:
        """A turn."""
        for _ in range(TURN // EVERY):
            self._integrator.step(EVERY)
            state = self._context.getState(getEnergy=True)
            kinetic = state.getKineticEnergy().value_in_unit(self._unit.kilojoule_per_mole)
            self.volumes.append(float(state.getPeriodicBoxVolume().value_in_unit(self._unit.nanometer**3)))
            self.temperatures.append(kinetic / (self._half_dof * BOLTZMANN))


def mean_and_error(values: NDArray[np.float64]) -> tuple[float, float]:
    """Mean, and its error by blocks."""
    errors = [
        np.std([block.mean() for block in np.array_split(values, n)], ddof=1) / np.sqrt(n) for n in BLOCKS
    ]
    return float(values.mean()), float(max(errors))


def width_and_error(values: NDArray[np.float64], n: int = 16) -> tuple[float, float]:
    """Standard deviation, and its error by leaving out one block after another."""
    blocks = np.array_split(values, n)
    without = np.array([np.std(np.concatenate(blocks[:k] + blocks[k + 1 :])) for k in range(n)])
    return float(values.std()), float(np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum()))


def row_of(name: str, device: str, run: Any, system: System, seconds: list[float]) -> dict[str, object]:
    """What is found of one program."""
    skipped = round(EQUILIBRATION / system.settings.dt / EVERY)
    volumes = np.array(run.volumes[skipped:])
    mass = float(system.topology.mass.sum())
    volume, volume_error = mean_and_error(volumes)
    density, density_error = mean_and_error(mass / volumes * ATOMIC_MASS_PER_NM3)
    width, width_error = width_and_error(volumes)
    temperature, temperature_error = mean_and_error(np.array(run.temperatures[skipped:]))
    row = timed_row(
        device,
        [s / TURN for s in seconds],
        precision="fast",
        system="dhfr, PME, NPT",
        n_atoms=system.topology.n_atoms,
        steps=EVERY * len(volumes),
        peer=name,
        picoseconds=f"{EVERY * len(volumes) * system.settings.dt:.1f}",
        density=f"{density:.3f}",
        density_error=f"{density_error:.3f}",
        volume=f"{volume:.4f}",
        volume_error=f"{volume_error:.4f}",
        volume_width=f"{width:.4f}",
        volume_width_error=f"{width_error:.4f}",
        temperature=f"{temperature:.3f}",
        temperature_error=f"{temperature_error:.3f}",
    )
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
    parser.add_argument("--seconds", type=float, default=100.0, help="of both programs")
    options = parser.parse_args()
    begin = time.perf_counter()
    system = dhfr_system(options.dhfr, **OPTIONS)
    print(f"read after {time.perf_counter() - begin:.1f} s", flush=True)
    ours = Ours(system)
    print(f"PulseMD is ready after {time.perf_counter() - begin:.1f} s", flush=True)
    theirs = Theirs(system)
    print(f"OpenMM is ready after {time.perf_counter() - begin:.1f} s", flush=True)
    times: dict[Any, list[float]] = {ours: [], theirs: []}
    begin = written = time.perf_counter()
    while time.perf_counter() - begin < options.seconds:
        for run, found in times.items():
            start = time.perf_counter()
            run.step()
            found.append(time.perf_counter() - start)
        if time.perf_counter() - written > WRITE_EVERY:
            written = time.perf_counter()
            report(system, times, options.out)
    report(system, times, options.out)


def report(system: System, times: dict[Any, list[float]], out: Path) -> None:
    """Write and print what is known so far."""
    ours, theirs = times
    if EVERY * len(ours.volumes) * system.settings.dt < 1.5 * EQUILIBRATION:
        return
    device = str(ours.simulation.rank.device.name)
    programs = {"pulsemd c-rescale": ours, f"openmm {theirs.version} cuda monte carlo": theirs}
    rows = [row_of(name, device, run, system, times[run]) for name, run in programs.items()]
    slope = np.polyfit(np.arange(len(ours.drift)) * EVERY * system.settings.dt, ours.drift, 1)[0]
    print(f"drift of the conserved quantity: {slope / system.topology.n_atoms:.2e} kJ/mol/ps per atom")
    for name in ("density", "volume_width", "temperature"):
        print(f"{name}: {apart(rows[0], rows[1], name):+.2f} standard errors apart", flush=True)
    write_rows(out, "npt_gpu", "openmm", rows)


if __name__ == "__main__":
    main()
