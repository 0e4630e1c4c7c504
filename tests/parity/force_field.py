"""Small systems that have every function of the force field, one at a time and all at once.

Four chains of eight atoms across the faces of a small box, in data/force_field/conf.gro; `CASES` says what each case
adds to the topology. What gmx makes of them is in energies.csv there, see oracles/force_field_references.py.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DATA = Path(__file__).parent / "data" / "force_field"

TOPOLOGY = """[ defaults ]
1 2 yes 0.5 0.8333
[ atomtypes ]
A 6 12.0 0.0 A 0.30 0.5
B 6 12.0 0.0 A 0.25 0.3
M 0 0.0 0.0 V 0.0 0.0
[ moleculetype ]
CHAIN 3
[ atoms ]
1 A 1 CHN C1 1 0.3 12.0
2 A 1 CHN C2 2 -0.2 14.0
3 B 1 CHN C3 3 0.1 12.0
4 B 1 CHN C4 4 -0.4 15.0
5 A 1 CHN C5 5 0.2 12.0
6 A 1 CHN C6 6 0.3 16.0
7 B 1 CHN C7 7 -0.3 12.0
8 B 1 CHN C8 8 0.1 12.0
[ bonds ]
1 2 1 0.15 2000
2 3 1 0.15 2000
3 4 1 0.15 2000
4 5 1 0.15 2000
5 6 1 0.15 2000
6 7 1 0.15 2000
7 8 1 0.15 2000
{more}
[ system ]
chains
[ molecules ]
CHAIN 4
{after}
"""

SETTINGS = """integrator = md
nsteps = 0
cutoff-scheme = Verlet
rcoulomb = 1.0
rvdw = 1.0
rlist = 1.0
verlet-buffer-tolerance = -1
coulombtype = reaction-field
epsilon-rf = 78
vdwtype = cut-off
vdw-modifier = none
coulomb-modifier = none
nstenergy = 1
nstcalcenergy = 1
continuation = yes
DispCorr = no
"""


@dataclass(frozen=True)
class Case:
    """What a case adds: sections of the molecule, those after ``[ molecules ]``, .mdp options; its .gro."""

    more: str = ""
    after: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    conf: str = "conf.gro"

    @property
    def restrained(self) -> bool:
        """Whether it needs reference positions."""
        return "position_restraints" in self.more

    def topology(self) -> str:
        return TOPOLOGY.format(more=self.more, after=self.after)

    def settings(self) -> str:
        text = SETTINGS
        for name, value in self.options.items():
            text = re.sub(rf"(?m)^{name} *=.*\n", "", text) + f"{name} = {value}\n"
        return text


TERMS = {
    "bonds_2": "[ bonds ]\n1 3 2 0.14 3e4\n5 6 2 0.13 2e4",
    "bonds_3": "[ bonds ]\n1 3 3 0.14 400 20\n4 5 3 0.15 300 15",
    "bonds_4": "[ bonds ]\n1 2 4 0.14 20000 -2\n5 7 4 0.2 2000 1",
    "bonds_5": "[ bonds ]\n1 5 5",
    "bonds_6": "[ bonds ]\n1 6 6 0.4 2000",
    "bonds_7": "[ bonds ]\n2 3 7 0.6 1000\n6 8 7 0.7 900",
    "bonds_10": "[ bonds ]\n1 2 10 0.2 0.24 0.3 1000\n1 4 10 0.1 0.12 0.14 900\n2 6 10 0.1 0.2 2 800\n"
    "5 6 10 0.1 1 2 700",
    "angles_2": "[ angles ]\n1 2 3 2 110 400\n4 5 6 2 90 300",
    "angles_3": "[ angles ]\n1 2 3 3 0.14 0.16 3000\n6 7 8 3 0.14 0.12 2000",
    "angles_4": "[ angles ]\n1 2 3 4 0.14 0.16 0.2 3000\n5 4 3 4 0.15 0.15 0.25 2000",
    "angles_6": "[ angles ]\n1 2 3 6 110 1 2 30 -4 5\n5 6 7 6 100 1 0 100 10 10",
    "angles_9": "[ angles ]\n1 2 3 9 0.4 1000\n4 5 6 9 0.5 2000",
    "angles_10": "[ angles ]\n1 2 3 10 110 40\n4 5 6 10 100 30",
    "dihedrals_5": "[ dihedrals ]\n1 2 3 4 5 1.0 -0.5 0.3 0.1\n4 5 6 7 5 2 3 4 5",
    "dihedrals_10": "[ dihedrals ]\n1 2 3 4 10 60 5\n3 4 5 6 10 120 4",
    "dihedrals_11": "[ dihedrals ]\n1 2 3 4 11 1 2 -3 4 5 6\n4 5 6 7 11 2 3 4 -1 2 1",
    "pairs_2": "[ pairs ]\n1 4 2 0.5 0.1 -0.1 0.28 0.2\n2 5 2 1 0.2 0.3 0.3 0.3\n5 8 1",
    "pairs_nb": "[ pairs_nb ]\n1 4 1 0.1 -0.1 0.28 0.2\n2 7 1 0.3 0.2 0.3 0.3",
    "constraints_2": "[ constraints ]\n1 8 2 0.4",
    "dihedral_restraints": "[ dihedral_restraints ]\n1 2 3 4 1 100 10 50\n4 5 6 7 1 -170 20 40\n2 3 4 5 1 0 180 40",
    "position_restraints": "[ position_restraints ]\n"
    + "\n".join(f"{g} 2 {g} 0.01 1000" for g in range(1, 9))
    + "\n"
    + "\n".join(f"{g} 2 {9 - g} -0.05 2000" for g in range(1, 9))
    + "\n1 1 100 200 300",
}
"""Sections added to the molecule, by name."""

CASES: dict[str, Case] = {name: Case(text) for name, text in TERMS.items()}
CASES["all_terms"] = Case("\n".join(text for name, text in TERMS.items() if name != "constraints_2"))


def recorded() -> dict[str, dict[str, float]]:
    """Energies [kJ/mol] of double-precision GROMACS by case and name."""
    found: dict[str, dict[str, float]] = {}
    with open(DATA / "energies.csv") as handle:
        for row in csv.DictReader(line for line in handle if not line.startswith("#")):
            found.setdefault(row["case"], {})[row["energy"]] = float(row["gmx_d"])
    return found


def write_case(name: str, folder: Path) -> None:
    """Write topol.top and run.mdp of a case."""
    (folder / "topol.top").write_text(CASES[name].topology())
    (folder / "run.mdp").write_text(CASES[name].settings())
