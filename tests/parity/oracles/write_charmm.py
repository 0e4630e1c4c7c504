"""Write a System with CHARMM36 of OpenMM's charmm36.xml as a topology of GROMACS, every parameter in its row.

Rule 2 gives what it can of the table of Lennard-Jones parameters, ``[ nonbond_params ]`` the rest; 1-4 pairs,
exclusions, Urey-Bradley terms (bonds between the ends of an angle), harmonic impropers and correction maps are those of
the System. Waters are rigid.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import openmm
from openmm import app

SETTLES = ["1  1  0.09572  0.15139"]
DEGREES = 180.0 / np.pi


def write_top(topology: app.Topology, system: openmm.System, title: str) -> str:
    """The topology as text; atoms of a molecule follow each other."""
    forces = {force.getName(): force for force in system.getForces()}
    molecules = split(topology)
    named = own_types(forces["LennardJones"], forces["CMAPTorsionForce"])
    kinds: dict[str, tuple[int, int]] = {}
    counts: list[list] = []
    atoms = list(topology.atoms())
    for first, last in molecules:
        name = atoms[first].residue.name if last - first < 4 else "SOLUTE"
        kinds.setdefault(name, (first, last))
        if counts and counts[-1][0] == name:
            counts[-1][1] += 1
        else:
            counts.append([name, 1])
    out = [f"; {title}", "[ defaults ]", "1  2  no  1.0  1.0"]
    out += lennard_jones(forces["LennardJones"], named)
    out += maps(forces["CMAPTorsionForce"], named)
    for name, (first, last) in kinds.items():
        out += molecule(name, atoms[first:last], system, forces, named)
    out += ["[ system ]", title, "[ molecules ]", *(f"{name}  {n}" for name, n in counts), ""]
    return "\n".join(out)


def split(topology: app.Topology) -> list[tuple[int, int]]:
    """First and last atom, exclusive, of each molecule."""
    n = topology.getNumAtoms()
    joined = np.zeros(n, bool)  # to the atom before it
    for one, two in topology.bonds():
        low, high = sorted((one.index, two.index))
        joined[low + 1 : high + 1] = True
    starts = [*np.flatnonzero(~joined), n]
    return list(pairwise(starts))


def own_types(pairs: openmm.CustomNonbondedForce, cmap: openmm.CMAPTorsionForce) -> list[tuple[str, str]]:
    """Name of the type of each atom, and of its bonded type; atoms of maps have types of their own."""
    of_maps = {
        atom for k in range(cmap.getNumTorsions()) for atom in map_atoms(cmap.getTorsionParameters(k)[1:])
    }
    names = []
    for atom in range(pairs.getNumParticles()):
        kind = f"T{pairs.getParticleParameters(atom)[0]:.0f}"
        names.append((f"M{atom}", f"M{atom}") if atom in of_maps else (kind, "OTHER"))
    return names


def map_atoms(torsions: list[int]) -> tuple[int, ...]:
    """The five atoms of two torsions that follow each other."""
    assert torsions[1:4] == torsions[4:7]
    return (*torsions[:4], torsions[7])


def lennard_jones(pairs: openmm.CustomNonbondedForce, named: list[tuple[str, str]]) -> list[str]:
    """Types of atoms, and pairs of them that break the rule."""
    tables = {pairs.getTabulatedFunctionName(k): pairs.getTabulatedFunction(k) for k in range(2)}
    acoef, bcoef = (
        np.array(tables[name].getFunctionParameters()[2]).reshape(tables[name].getFunctionParameters()[:2])
        for name in ("acoef", "bcoef")
    )
    a, b = np.diag(acoef), np.diag(bcoef)
    real = b > 0
    sigma = np.where(real, (a / np.where(real, b, 1.0)) ** (1 / 6), 0.1)
    epsilon = np.where(real, b**2 / (4 * np.where(real, a, 1.0)), 0.0)
    number = {name: int(pairs.getParticleParameters(k)[0]) for k, (name, _) in enumerate(named)}
    bonded = dict(named)
    out = ["[ atomtypes ]"]
    out += [
        f"{name}  {bonded[name]}  6  1.0  0.0  A  {sigma[k]:.12g}  {epsilon[k]:.12g}"
        for name, k in number.items()
    ]
    out.append("[ nonbond_params ]")
    names = list(number)
    for i, one in enumerate(names):
        for two in names[: i + 1]:
            k, m = number[one], number[two]
            s, e = 0.5 * (sigma[k] + sigma[m]), np.sqrt(epsilon[k] * epsilon[m])
            if not np.isclose(4 * e * s**6, bcoef[k, m], rtol=1e-6):
                s = (acoef[k, m] / bcoef[k, m]) ** (1 / 6)
                out.append(f"{one}  {two}  1  {s:.12g}  {bcoef[k, m] / (4 * s**6):.12g}")
    return out


def maps(cmap: openmm.CMAPTorsionForce, named: list[tuple[str, str]]) -> list[str]:
    """Each torsion's map, phi in rows, from -180 degrees on."""
    out = ["[ cmaptypes ]"] if cmap.getNumTorsions() else []
    for k in range(cmap.getNumTorsions()):
        number, *torsions = cmap.getTorsionParameters(k)
        n, values = cmap.getMapParameters(number)
        grid = np.roll(np.array([v._value for v in values]).reshape(n, n).T, (n // 2, n // 2), (0, 1)).ravel()
        types = " ".join(named[atom][1] for atom in map_atoms(torsions))
        rows = [" ".join(f"{v:.8g}" for v in grid[start : start + 12]) for start in range(0, n * n, 12)]
        out.append(" \\\n".join([f"{types} 1 {n} {n}", *rows]))
    return out


def molecule(
    name: str, atoms: list, system: openmm.System, forces: dict, named: list[tuple[str, str]]
) -> list[str]:
    """One molecule type."""
    first, n = atoms[0].index, len(atoms)

    def rows(force: openmm.Force, count: str, get: str, n_atoms: int, at: int = 0) -> list[tuple]:
        """Atoms from 1 and parameters of the terms of this molecule."""
        found = []
        for k in range(getattr(force, count)()):
            values = getattr(force, get)(k)
            members = [i - first + 1 for i in values[at : at + n_atoms]]
            if 0 < members[0] <= n:
                found.append((members, values[at + n_atoms :]))
        return found

    charges = [forces["NonbondedForce"].getParticleParameters(a.index)[0]._value for a in atoms]
    sections: dict[str, list[str]] = {"moleculetype": [f"{name}  0"], "atoms": []}
    for k, atom in enumerate(atoms):
        mass = system.getParticleMass(atom.index)._value
        residue = atom.residue.index - atoms[0].residue.index + 1
        number, kind = k + 1, named[atom.index][0]
        sections["atoms"].append(
            f"{number} {kind} {residue} {atom.residue.name} {atom.name} {number} {charges[k]:.12g} {mass:.12g}"
        )
    exceptions = rows(forces["NonbondedForce"], "getNumExceptions", "getExceptionParameters", 2)
    if name == "HOH":
        sections |= {"settles": SETTLES}
    else:
        sections |= listed(forces, rows)
    sections["exclusions"] = [f"{i} {j}" for (i, j), _ in exceptions]
    return [line for key, lines in sections.items() if lines for line in (f"[ {key} ]", *lines)]


def listed(forces: dict, rows) -> dict[str, list[str]]:
    """Sections of bonds, pairs, angles, dihedrals and maps."""
    bonds = {
        tuple(sorted(m)): (r._value, k._value)
        for m, (r, k) in rows(forces["HarmonicBondForce"], "getNumBonds", "getBondParameters", 2)
    }
    angles = rows(forces["HarmonicAngleForce"], "getNumAngles", "getAngleParameters", 3)
    out: dict[str, list[str]] = {"bonds": [], "pairs": [], "angles": [], "dihedrals": [], "cmap": []}
    for (i, j, k), (theta, stiffness) in angles:
        r, k_ub = bonds.pop(tuple(sorted((i, k))), (0.0, 0.0))
        out["angles"].append(
            f"{i} {j} {k} 5 {theta._value * DEGREES:.12g} {stiffness._value:.12g} {r:.12g} {k_ub:.12g}"
        )
    out["bonds"] = [f"{i} {j} 1 {r:.12g} {k:.12g}" for (i, j), (r, k) in bonds.items()]
    for (i, j), ((sigma, epsilon),) in rows(forces["LennardJones14"], "getNumBonds", "getBondParameters", 2):
        out["pairs"].append(f"{i} {j} 1 {sigma:.12g} {epsilon:.12g}")
    torsions = rows(forces["PeriodicTorsionForce"], "getNumTorsions", "getTorsionParameters", 4)
    for members, (periodicity, phase, k) in torsions:
        row = " ".join(map(str, members))
        out["dihedrals"].append(f"{row} 9 {phase._value * DEGREES:.12g} {k._value:.12g} {periodicity}")
    for members, ((k, theta),) in rows(
        forces["CustomTorsionForce"], "getNumTorsions", "getTorsionParameters", 4
    ):
        row = " ".join(map(str, members))
        out["dihedrals"].append(f"{row} 2 {theta * DEGREES:.12g} {2 * k:.12g}")
    for members, _ in rows(forces["CMAPTorsionForce"], "getNumTorsions", "getTorsionParameters", 8, 1):
        out["cmap"].append(" ".join(map(str, map_atoms(members))) + " 1")
    return out
