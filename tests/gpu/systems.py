"""Systems for tests on a device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pulsemd.engine.system import prepare_system
from pulsemd.io.gromacs.mdp import read_settings
from pulsemd.io.gromacs.system import read_system
from pulsemd.systems import system_files

SEEDS = {"gen_seed": 7, "ld_seed": 11}


def load(configuration, top, mdp, reference=None, **settings):
    """A system from files with fixed seeds; keywords replace settings."""
    found, _ = read_settings(mdp)
    found = replace(found, **SEEDS, **settings)
    topology, table, frame, found = read_system(configuration, top, found, (), reference)
    given = (frame.positions, frame.velocities, frame.box, frame.reference)
    return prepare_system(topology, table, found, *given)


def bundled_system(name="water", **settings):
    """A bundled system."""
    files = system_files(name)
    return load(files.configuration, files.topology, files.parameters, **settings)


def overlapping_waters():
    """A single point of the bundled water with two oxygens 0.05 nm apart, and their repulsion, kJ/mol."""
    system = bundled_system(nsteps=0)
    o, h = system.topology.settle_atoms[[0, 100], 0]
    r = np.array([0.04, 0.03, 0.0]) @ np.linalg.inv(system.box) * 2**32
    for atom in range(3):
        system.x[h + atom] = system.x[o + atom] + r.astype(np.int32)
    kinds = system.topology.type_index[[o, h]]
    return system, system.table.c12[kinds[0], kinds[1]] / 0.05**12


MIXED_TOP = """
[ defaults ]
1 2 yes 0.5 0.5
[ atomtypes ]
C4  15.035 0 A 0.390 0.73
CM  12.011 0 A 0.350 0.276
HM   1.008 0 A 0.250 0.125
OW 15.9994 0 A 0.31657 0.65017
HW  1.008  0 A 0.0 0.0
[ moleculetype ]
BUT 3
[ atoms ]
1 C4 1 BUT C1 1  0.1 15.035
2 C4 1 BUT C2 1 -0.1 15.035
3 C4 1 BUT C3 1 -0.1 15.035
4 C4 1 BUT C4 1  0.1 15.035
[ bonds ]
1 2 1 0.153 224262
2 3 1 0.153 224262
3 4 1 0.153 224262
[ pairs ]
1 4 1
[ angles ]
1 2 3 1 112 520
2 3 4 1 112 520
[ dihedrals ]
1 2 3 4 3 9.28 12.16 -13.12 -3.06 26.24 -31.5
[ moleculetype ]
MET 3
[ atoms ]
1 CM 1 MET C  1 -0.24 12.011
2 HM 1 MET H1 1 0.06 1.008
3 HM 1 MET H2 1 0.06 1.008
4 HM 1 MET H3 1 0.06 1.008
5 HM 1 MET H4 1 0.06 1.008
[ bonds ]
1 2 1 0.109 284512
1 3 1 0.109 284512
1 4 1 0.109 284512
1 5 1 0.109 284512
[ angles ]
2 1 3 1 107.8 276
2 1 4 1 107.8 276
2 1 5 1 107.8 276
3 1 4 1 107.8 276
3 1 5 1 107.8 276
4 1 5 1 107.8 276
[ moleculetype ]
SOL 2
[ atoms ]
1 OW 1 SOL OW  1 -0.8476 15.9994
2 HW 1 SOL HW1 1 0.4238 1.008
3 HW 1 SOL HW2 1 0.4238 1.008
[ settles ]
1 1 0.1 0.16330
[ exclusions ]
1 2 3
2 1 3
3 1 2
[ system ]
butane, methane and water
[ molecules ]
"""
SITES_TOP = (
    MIXED_TOP.replace(
        "[ moleculetype ]\nBUT",
        "OE 15.9994 0 A 0.316435 0.680946\nMW 0 0 V 0 0\n[ moleculetype ]\nBUT",
    )
    .replace(
        "4 C4 1 BUT C4 1  0.1 15.035",
        "4 C4 1 BUT C4 1  0.1 15.035\n5 MW 1 BUT M1 1 0.2 0\n6 MW 1 BUT M2 1 -0.2 0",
    )
    .replace(
        "1 2 3 4 3 9.28 12.16 -13.12 -3.06 26.24 -31.5",
        """1 2 3 4 3 9.28 12.16 -13.12 -3.06 26.24 -31.5
[ virtual_sites2 ]
6 5 4 1 0.3
[ virtual_sites3 ]
5 2 3 1 4 0.3 0.2 1.5
[ exclusions ]
5 1 2 3 4 6
6 1 2 3 4 5""",
    )
    .replace("5 HM 1 MET H4 1 0.06 1.008", "5 HM 1 MET H4 1 0.26 1.008\n6 MW 1 MET M 1 -0.2 0")
    .replace(
        "4 1 5 1 107.8 276",
        "4 1 5 1 107.8 276\n[ virtual_sites3 ]\n6 1 2 3 3 120 0.05\n[ exclusions ]\n6 1 2 3 4 5",
    )
    .partition("[ moleculetype ]\nSOL")[0]
    + """[ moleculetype ]
SOL 2
[ atoms ]
1 OE 1 SOL OW  1 0 15.9994
2 HW 1 SOL HW1 1 0.52422 1.008
3 HW 1 SOL HW2 1 0.52422 1.008
4 MW 1 SOL MW 1 -1.04844 0
[ settles ]
1 1 0.09572 0.15139
[ virtual_sites3 ]
4 1 2 3 1 0.106676721 0.106676721
[ exclusions ]
1 2 3 4
2 1 3 4
3 1 2 4
4 1 2 3
[ system ]
butane and methane with sites, and TIP4P-Ew water
[ molecules ]
"""
)
"""The same with virtual sites: of free atoms, one on another, of a group with constraints, of every water."""

MIXED_MDP = """
integrator = md
dt = 0.001
nsteps = 1000
nstlist = 10
cutoff-scheme = verlet
verlet-buffer-tolerance = -1
rlist = 1.15
coulombtype = reaction-field
rcoulomb = 1.0
epsilon-rf = 0
rvdw = 1.0
constraints = h-bonds
tcoupl = v-rescale
tc-grps = system
tau-t = 0.1
ref-t = 300
gen-vel = yes
gen-temp = 300
nstcalcenergy = 10
nstenergy = 100
"""
SHAPES = {
    "BUT": [[0, 0, 0], [0.153, 0, 0], [0.21, 0.142, 0], [0.363, 0.142, 0]],
    "MET": [[0, 0, 0], *(0.109 / np.sqrt(3) * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]))],
    "SOL": [[0, 0, 0], [0.1, 0, 0], [-0.0333, 0.0943, 0]],
}


SITES_OF = {"BUT": 2, "MET": 1, "SOL": 1}


def mixed_system(folder, per_edge=5, spacing=0.62, top=MIXED_TOP, **settings):
    """Butane with all kinds of bonded terms, methane with constraints, and rigid water, on a lattice of places."""
    shapes = dict(SHAPES)
    if top is SITES_TOP:
        shapes = {kind: [*shape, *[shape[0]] * SITES_OF[kind]] for kind, shape in SHAPES.items()}
    sites = np.stack(np.meshgrid(*[np.arange(per_edge)] * 3, indexing="ij"), -1).reshape(-1, 3) * spacing
    kinds = np.array(list(SHAPES))[np.arange(len(sites)) % 3]
    order = np.argsort([list(SHAPES).index(kind) for kind in kinds], kind="stable")
    lines, counts = [], {kind: int((kinds == kind).sum()) for kind in SHAPES}
    for number, site in enumerate(order, 1):
        for k, place in enumerate(np.array(shapes[kinds[site]]) + sites[site] + 0.05):
            x, y, z = place
            lines.append(
                f"{number:5d}{kinds[site]:<5}{'A' + str(k):>5}{len(lines) + 1:5d}{x:8.3f}{y:8.3f}{z:8.3f}"
            )
    edge = per_edge * spacing
    text = "\n".join(["mixed", str(len(lines)), *lines, f"{edge:10.5f}{edge:10.5f}{edge:10.5f}", ""])
    files = [folder / name for name in ("conf.gro", "topol.top", "run.mdp")]
    molecules = "".join(f"{kind} {count}\n" for kind, count in counts.items())
    for path, content in zip(files, (text, top + molecules, MIXED_MDP), strict=True):
        path.write_text(content)
    return load(*files, **settings)


def restrained_system(folder, **settings):
    """The same with restraints of butane and flat bottoms of methane."""
    mixed_system(folder)
    conf, top, mdp = (folder / name for name in ("conf.gro", "topol.top", "run.mdp"))
    text = top.read_text()
    for after, rows in (
        ("MET", "1 1 1000 500 200\n3 1 50 50 50"),
        ("SOL", "1 2 1 0.001 5000\n2 2 8 0.001 5000"),
    ):
        start = f"[ moleculetype ]\n{after}"
        text = text.replace(start, f"[ position_restraints ]\n{rows}\n{start}")
    top.write_text(text)
    return load(conf, top, mdp, conf, **settings)
