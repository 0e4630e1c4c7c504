"""Small systems that have every function of the force field, one at a time and all at once.

Four chains of eight atoms across the faces of a small box, in data/force_field/conf.gro; `CASES` says what each case
adds to the topology. What gmx makes of them is in energies.csv there, see oracles/force_field_references.py.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from pulsemd.engine.system import System, prepare_system
from pulsemd.io.gromacs.system import read_system

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
{site_atoms}
[ bonds ]
1 2 1 0.15 2000
2 3 1 0.15 2000
3 4 1 0.15 2000
4 5 1 0.15 2000
5 6 1 0.15 2000
6 7 1 0.15 2000
7 8 1 0.15 2000
{sites}
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


SITE_ATOMS = "\n".join(f"{n} M 1 CHN M{n} {n} {0.2 if n % 2 else -0.25} 0.0" for n in range(9, 17))

WATER = {
    "tip4p": """[ defaults ]
1 2 yes 0.5 0.8333
[ atomtypes ]
OW 8 16.0 0.0 A 0.315365 0.648520
HW 1 1.008 0.52 A 0.0 0.0
MW 0 0.0 -1.04 V 0.0 0.0
[ moleculetype ]
SOL 2
[ atoms ]
1 OW 1 SOL OW 1 0.0 16.0
2 HW 1 SOL HW1 1 0.52 1.008
3 HW 1 SOL HW2 1 0.52 1.008
4 MW 1 SOL MW 1 -1.04 0.0
[ settles ]
1 1 0.09572 0.15139
[ virtual_sites3 ]
4 1 2 3 1 0.128012065 0.128012065
[ exclusions ]
1 2 3 4
2 1 3 4
3 1 2 4
4 1 2 3
[ system ]
water
[ molecules ]
SOL 248
""",
    "tip5p": """[ defaults ]
1 2 yes 0.5 0.8333
[ atomtypes ]
OW 8 16.0 0.0 A 0.312 0.66944
HW 1 1.008 0.241 A 0.0 0.0
LP 0 0.0 -0.241 V 0.0 0.0
[ moleculetype ]
SOL 2
[ atoms ]
1 OW 1 SOL OW 1 0.0 16.0
2 HW 1 SOL HW1 1 0.241 1.008
3 HW 1 SOL HW2 1 0.241 1.008
4 LP 1 SOL LP1 1 -0.241 0.0
5 LP 1 SOL LP2 1 -0.241 0.0
[ settles ]
1 1 0.09572 0.15139
[ virtual_sites3 ]
4 1 2 3 4 -0.344908 -0.344908 -6.4437903493
5 1 2 3 4 -0.344908 -0.344908 6.4437903493
[ exclusions ]
1 2 3 4 5
2 1 3 4 5
3 1 2 4 5
4 1 2 3 5
5 1 2 3 4
[ system ]
water
[ molecules ]
SOL 280
""",
}


@dataclass(frozen=True)
class Case:
    """What a case adds: sections of the molecule, those after ``[ molecules ]``, .mdp options; its .gro."""

    more: str = ""
    after: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    conf: str = "conf.gro"
    sites: str = ""
    """Sections that make atoms 9 to 16 virtual sites; then there are that many atoms."""

    @property
    def restrained(self) -> bool:
        """Whether it needs reference positions."""
        return "position_restraints" in self.more

    def topology(self) -> str:
        if self.conf.startswith("tip"):
            return WATER[self.conf.partition(".")[0]].format(more=self.more)
        atoms = SITE_ATOMS if self.sites else ""
        return TOPOLOGY.format(more=self.more, after=self.after, sites=self.sites, site_atoms=atoms)

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
    "angle_restraints": "[ angle_restraints ]\n1 2 2 3 1 30 20 1\n1 2 7 8 1 50 30 2\n3 4 5 6 1 100 10 3",
    "angle_restraints_z": "[ angle_restraints_z ]\n1 3 1 30 20 1\n2 7 1 40 10 2\n5 8 1 90 10 3",
    "position_restraints": "[ position_restraints ]\n"
    + "\n".join(f"{g} 2 {g} 0.01 1000" for g in range(1, 9))
    + "\n"
    + "\n".join(f"{g} 2 {9 - g} -0.05 2000" for g in range(1, 9))
    + "\n1 1 100 200 300",
}
"""Sections added to the molecule, by name."""

SITES = {
    "virtual_sites1": "9 1 1",
    "virtual_sites2": "10 1 2 1 0.4\n11 3 4 2 0.08",
    "virtual_sites3": "12 2 3 4 1 0.3 -0.2\n13 5 6 7 2 0.4 0.1\n14 6 7 8 3 120 0.12\n15 5 6 7 4 0.3 0.2 1.5",
    "virtual_sites4": "16 5 6 7 8 2 0.9 1.1 0.09",
    "virtual_sites4_1": "16 5 6 7 8 1 0.2 0.3 0.11",
    "virtual_sitesn": "9 1 1 2 3\n10 2 2 3 4 5\n11 3 4 0.2 5 0.3 6 1.5\n12 2 1 8",
}
"""Virtual sites by section; the rest of the atoms 9 to 16 are put on bonds by `sites_of`."""


def sites_of(*names: str) -> str:
    """Sections of sites, the rest of the atoms 9 to 16 on bonds, and exclusions with the parents."""
    sections, used, exclusions = [], set(), []
    for name in names:
        sections.append(f"[ {name.removesuffix('_1')} ]\n{SITES[name]}")
        for row in SITES[name].splitlines():
            site, *rest = row.split()
            used.add(int(site))
            exclusions.append(
                f"{site} " + " ".join(word for word in rest if word.isdigit() and int(word) <= 8)
            )
    free = [(n, n - 8, n - 7 if n < 16 else 7) for n in range(9, 17) if n not in used]
    sections.append("[ virtual_sites2 ]\n" + "\n".join(f"{n} {i} {j} 1 {0.02 * n}" for n, i, j in free))
    exclusions += [f"{n} {i} {j}" for n, i, j in free]
    return "\n".join([*sections, "[ exclusions ]", *exclusions])


CASES: dict[str, Case] = {name: Case(text) for name, text in TERMS.items()}
CASES["all_terms"] = Case("\n".join(text for name, text in TERMS.items() if name != "constraints_2"))

BETWEEN = """[ intermolecular_interactions ]
[ bonds ]
14 32 6 0.9 1000
11 31 10 0.3 0.5 0.8 900
[ pairs ]
12 32 1 0.3 0.2
13 32 1
[ pairs_nb ]
12 31 1 0.1 -0.1 0.28 0.2
[ angles ]
14 32 11 1 100 50
[ dihedrals ]
13 14 32 31 1 20 5 2
11 12 32 31 2 20 8
[ distance_restraints ]
11 30 1 0 1 0.2 0.3 0.5 1
13 32 1 1 2 1.9 2.2 2.4 0.5
15 32 1 2 1 0.1 9.2 9.4 1
[ angle_restraints ]
12 13 31 32 1 60 20 2
[ dihedral_restraints ]
12 14 32 30 1 10 5 20
"""
"""Between the second and the fourth chain."""

CASES["between_molecules"] = Case(after=BETWEEN, options={"disre": "simple", "disre-fc": "700"})
CASES["between_molecules_no"] = Case(after=BETWEEN)

MACROS = """#ifdef POSRES
[ position_restraints ]
1 1 POSRES_FC_BB POSRES_FC_BB POSRES_FC_BB
3 1 POSRES_FC_SC POSRES_FC_SC 0.0
#endif
#ifdef DIHRES
[ dihedral_restraints ]
1 2 3 4 1 120.0 2.5 DIHRES_FC
#else
[ bonds ]
1 4 6 0.1 9e9
#endif
[ angles ]
1 2 3 5 110.0 400.0 0.25 2000.0
2 3 4 5 115.0 300.0 0.0 0.0
[ dihedrals ]
1 2 3 4 9 0.0 1.2 1
1 2 3 4 9 180.0 0.8 2
2 1 3 4 2 0.0 40.0
"""
"""In the manner of CHARMM-GUI: restraints whose constants the settings define."""
DEFINED = "-DPOSRES -DPOSRES_FC_BB=400.0 -DPOSRES_FC_SC=40.0 -DDIHRES -DDIHRES_FC=4.0"
CASES["charmm_macros"] = Case(
    MACROS, options={"define": DEFINED, "vdw-modifier": "force-switch", "rvdw-switch": "0.8"}
)

LONG = {"rcoulomb": "1.4", "rvdw": "1.4", "rlist": "1.4", "rvdw-switch": "0.4"}
ENDINGS = {
    "force_switch": {"vdw-modifier": "force-switch"},
    "potential_switch": {"vdw-modifier": "potential-switch"},
    "vdwtype_shift": {"vdwtype": "shift", "rvdw-switch": "0.9"},
    "vdwtype_switch": {"vdwtype": "switch", "coulombtype": "reaction-field-zero", "epsilon-rf": "0"},
    "coulomb_shift": {
        "coulombtype": "cut-off",
        "coulomb-modifier": "potential-shift",
        "vdw-modifier": "potential-shift",
    },
}
"""How pair potentials end at the cut-off, by name: options besides `LONG`."""

CASES |= {name: Case(options=LONG | options) for name, options in ENDINGS.items()}
DISPERSION = {
    "dispersion_plain": {"DispCorr": "EnerPres", "vdw-modifier": "none"},
    "dispersion_shift": {"DispCorr": "AllEnerPres", "vdw-modifier": "potential-shift"},
    "dispersion_force_switch": {"DispCorr": "AllEnerPres", "vdw-modifier": "force-switch"},
    "dispersion_potential_switch": {"DispCorr": "AllEnerPres", "vdw-modifier": "potential-switch"},
    "dispersion_energy": {"DispCorr": "Ener", "vdw-modifier": "force-switch"},
    "dispersion_all_energy": {"DispCorr": "AllEner", "vdw-modifier": "potential-shift"},
}
"""Long-range corrections by name: options besides `LONG`."""

CASES |= {name: Case(options=LONG | options) for name, options in DISPERSION.items()}
CASES |= {name: Case(conf="sites.gro", sites=sites_of(name)) for name in SITES}
SHORT = {"rcoulomb": "0.6", "rvdw": "0.6", "rlist": "0.6"}
CASES["all_sites"] = Case(conf="sites.gro", sites=sites_of(*list(SITES)[:4]), options=SHORT)
CASES |= {name: Case(conf=f"{name}.gro", options=SHORT) for name in WATER}


def recorded() -> dict[str, dict[str, float]]:
    """Energies [kJ/mol] of double-precision GROMACS by case and name."""
    found: dict[str, dict[str, float]] = {}
    with open(DATA / "energies.csv") as handle:
        for row in csv.DictReader(line for line in handle if not line.startswith("#")):
            found.setdefault(row["case"], {})[row["energy"]] = float(row["gmx_d"])
    return found


def write_case(name: str, folder: Path) -> None:
    """Write conf.gro, topol.top and run.mdp of a case."""
    conf = CASES[name].conf
    packed = DATA / f"{conf}.gz"
    text = gzip.decompress(packed.read_bytes()) if packed.exists() else (DATA / conf).read_bytes()
    (folder / "conf.gro").write_bytes(text)
    (folder / "topol.top").write_text(CASES[name].topology())
    (folder / "run.mdp").write_text(CASES[name].settings())


OF_RUNS = ("pressure",)
"""What gmx gives for the state of motion, whose half steps differ."""


@lru_cache(maxsize=1)
def read(name: str) -> System:
    """The system of a case."""
    with TemporaryDirectory() as folder:
        write_case(name, Path(folder))
        topology, table, frame, settings = read_system(
            Path(folder) / "conf.gro",
            Path(folder) / "topol.top",
            Path(folder) / "run.mdp",
            (),
            DATA / "ref.gro" if CASES[name].restrained else None,
        )
    start = (frame.positions, frame.velocities, frame.box, frame.reference)
    return prepare_system(topology, table, settings, *start)
