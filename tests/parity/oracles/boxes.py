"""What the scripts that make reference values share: the parity tests' boxes and the model of water."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np

WATER = Path(__file__).resolve().parents[3] / "src/pulsemd/systems/files/water"
COULOMB = 138.935458  # kJ mol^-1 nm e^-2
SIGMA, EPSILON, CHARGE = (
    0.316557,
    0.650194,
    0.4238,
)  # SPC/E: nm, kJ/mol; hydrogen, e (oxygen has twice its negative)


def gro_text(data: Path, box: str) -> str:
    """Text of the .gro file of a box."""
    if box == "water":
        return (WATER / "conf.gro").read_text()
    return gzip.decompress((data / f"{box}.gro.gz").read_bytes()).decode()


def read_gro(data: Path, box: str) -> tuple[np.ndarray, np.ndarray]:
    """Positions (n, 3) and box vectors (3, 3) [nm]; columns are as wide as from one decimal point to the next."""
    lines = gro_text(data, box).splitlines()
    first = lines[2].index(".")
    width = lines[2].index(".", first + 1) - first
    columns = [slice(20 + k * width, 20 + (k + 1) * width) for k in range(3)]
    positions = np.array([[line[column] for column in columns] for line in lines[2:-1]], dtype=float)
    v = [float(field) for field in lines[-1].split()]
    v += [0.0] * (9 - len(v))
    return positions, np.array([[v[0], v[3], v[4]], [v[5], v[1], v[6]], [v[7], v[8], v[2]]])


def gmx_energies(data: Path) -> dict[tuple[str, str], dict[str, float]]:
    """Rows of gmx_single_points.csv by box and case."""
    with open(data / "gmx_single_points.csv") as handle:
        table = csv.DictReader(line for line in handle if not line.startswith("#"))
        return {
            (row.pop("box"), row.pop("case")): {key: float(value) for key, value in row.items() if value}
            for row in table
        }
