"""Volume and its fluctuation at constant pressure as the pressures at fixed volumes make them: without a barostat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from block_errors import mean_and_error
from numpy.typing import NDArray
from result_rows import timed_row, write_rows

from pulsemd.base.units import ATOMIC_MASS_PER_NM3, BAR, BOLTZMANN
from pulsemd.engine.options import RunOptions
from pulsemd.engine.reporters import Reporter
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import System, constrain_start
from pulsemd.halo import open_transport

EVERY: Final = 20
"""Steps between two samples of the pressure, which changes as fast as bonds vibrate."""
SKIPPED: Final = 10.0
"""ps left out after the volume was changed."""
DRAWS: Final = 1000

Float64 = NDArray[np.float64]


def in_volume(system: System, ratio: float) -> System:
    """The system without a barostat in `ratio` times its volume."""
    settings = replace(system.settings, pcoupl="no")
    cell = system.cell.scaled(np.full(3, ratio ** (1.0 / 3.0)))
    return constrain_start(replace(system.in_cell(cell), settings=settings))


def pressures(system: System, picoseconds: float) -> tuple[str, Float64]:
    """Name of the GPU, and pressures [bar] of every `EVERY` steps of a run at constant volume."""
    found: list[float] = []
    reporter = Reporter(EVERY, energies=lambda _step, _time, record: found.append(record["pressure"]))
    options = RunOptions(device="cuda", raise_nstlist=True)
    simulation = Simulation(open_transport("loopback"), system, options, [reporter])
    simulation.warm_up()
    steps = [round(time / system.settings.dt) for time in (SKIPPED, picoseconds)]
    simulation.run(sum(steps))
    return str(simulation.rank.device.name), np.array(found[steps[0] // EVERY :])


def at_pressure(
    volumes: Sequence[float], mean: Sequence[float], error: Sequence[float], wanted: float, kelvin: float
) -> dict[str, tuple[float, float]]:
    """Volume, its standard deviation and isothermal compressibility, each with its error.

    Parameters
    ----------
    volumes : nm^3
    mean, error : bar
        Pressure at each and its error.
    wanted : float, bar
    kelvin : float

    Notes
    -----
    The pressure as a polynomial of second order in the logarithm of the volume; the variance of the volume is kT
    compressibility V (Landau & Lifshitz, Statistical Physics, section 112). Errors are those of fits to values drawn
    around the ones found.
    """
    strain, sigma, fits = np.log(np.array(volumes) / volumes[0]), np.array(error), []
    noise = np.random.default_rng(1).standard_normal((DRAWS, len(mean)))
    for values in mean + sigma * np.concatenate([np.zeros((1, len(mean))), noise]):
        c2, c1, c0 = np.polyfit(strain, values - wanted, 2, w=1.0 / sigma)
        root = 2.0 * c0 / (-c1 + np.sqrt(c1 * c1 - 4.0 * c2 * c0))
        volume, softness = volumes[0] * np.exp(root), -1.0 / (c1 + 2.0 * c2 * root)
        fits.append(np.array([volume, np.sqrt(BOLTZMANN * kelvin * BAR * softness * volume), softness]))
    errors = np.std(fits[1:], axis=0)
    names = ("volume", "volume_width", "compressibility")
    return {name: (float(a), float(b)) for name, a, b in zip(names, fits[0], errors, strict=True)}


def measure(system: System, ratios: Sequence[float], picoseconds: float, out: Path) -> None:
    """Pressures in these multiples of the volume, and what follows from them at the pressure of the settings.

    Writes ``npt_gpu__fixed-volumes__DEVICEx1__COMMIT.csv``, a row for each volume.
    """
    rows, s = [], system.settings
    for ratio in ratios:
        at = in_volume(system, ratio)
        device, values = pressures(at, picoseconds)
        rows.append((at.volume, *mean_and_error(values)))
        print(*(f"{value:.3f}" for value in rows[-1]), flush=True)
    expected = at_pressure(*zip(*rows, strict=True), s.ref_p[0], s.baths[0].ref_t)
    volume, error = expected["volume"]
    density = float(system.topology.mass.sum()) / volume * ATOMIC_MASS_PER_NM3
    expected["density"] = density, density * error / volume
    found = {key: f"{value:.6g}" for key, (value, _) in expected.items()}
    found |= {f"{key}_error": f"{error:.2g}" for key, (_, error) in expected.items()}
    print("expected", found, flush=True)
    base = timed_row(
        device, [0.0], precision="fast", system="dhfr, PME, NVT", n_atoms=system.topology.n_atoms
    )
    base |= dict.fromkeys(("us_per_step", "us_min", "us_max"), "") | {"steps": round(picoseconds / s.dt)}
    names = ("at_volume", "pressure", "pressure_error")
    table = [dict(zip(names, (f"{value:.4f}" for value in row), strict=True)) for row in rows]
    write_rows(out, "npt_gpu", "fixed-volumes", [base | row | found for row in table])
