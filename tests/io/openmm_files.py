"""XML as OpenMM writes it, for tests of the reader."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pulsemd.io.openmm import OpenMMSystem, read_openmm

N = 8
BOX = "".join(
    f'<{v} x="{x}" y="{y}" z="{z}"/>' for v, x, y, z in (("A", 3, 0, 0), ("B", 0, 3, 0), ("C", 0, 0, 3))
)


def nonbonded(n=N, exceptions="", particle='<Particle q="0" sig="0.3" eps="0.5"/>', **attributes) -> str:
    """A NonbondedForce with a reaction field; keywords replace its attributes."""
    chosen = {
        "type": "NonbondedForce", "name": "NonbondedForce", "method": 2, "cutoff": 1,
        "rfDielectric": 78.3, "dispersionCorrection": 0, "useSwitchingFunction": 0, "switchingDistance": -1,
        "ewaldTolerance": 0.0005, "alpha": 0, "nx": 0, "ny": 0, "nz": 0, "includeDirectSpace": 1,
    } | attributes  # fmt: skip
    sections = f"<Particles>{particle * n}</Particles><Exceptions>{exceptions}</Exceptions>"
    return f"<Force {as_attributes(chosen)}>{sections}</Force>"


def custom_pairs(energy, names=(), values=(), exclusions="", extra="", **attributes) -> str:
    """A CustomNonbondedForce; `values` has the parameters of each particle."""
    chosen = {
        "type": "CustomNonbondedForce", "energy": energy, "method": 2, "cutoff": 1, "useLongRangeCorrection": 0,
        "useSwitchingFunction": 0, "switchingDistance": -1,
    } | attributes  # fmt: skip
    rows = "".join(f"<Particle {numbered(row)}/>" for row in values) or "<Particle/>" * N
    return (
        f"<Force {as_attributes(chosen)}><PerParticleParameters>{parameters(names)}</PerParticleParameters>"
        f"<GlobalParameters/><Particles>{rows}</Particles><Exclusions>{exclusions}</Exclusions>{extra}</Force>"
    )


def custom(kind, energy, names, rows, **attributes) -> str:
    """A custom bonded force of a kind, as ``custom('Bond', 'k*r^2', ['k'], [((0, 1), [3.0])])``."""
    plural = "Particles" if kind == "External" else f"{kind}s"
    listed = ""
    for atoms, values in rows:
        places = {"index" if kind == "External" else f"p{k + 1}": atom for k, atom in enumerate(atoms)}
        listed += f"<{plural[:-1]} {as_attributes(places)} {numbered(values)}/>"
    per = f"Per{'Particle' if kind == 'External' else kind}Parameters"
    chosen = {"type": f"Custom{kind}Force", "energy": energy} | attributes
    return (
        f"<Force {as_attributes(chosen)}><{per}>{parameters(names)}</{per}><GlobalParameters/>"
        f"<{plural}>{listed}</{plural}></Force>"
    )


def numbered(values) -> str:
    """``param1="..." param2="..."``."""
    return " ".join(f'param{k + 1}="{value}"' for k, value in enumerate(values))


def parameters(names) -> str:
    """Rows of a section of parameters."""
    return "".join(f'<Parameter name="{name}"/>' for name in names)


def as_attributes(values) -> str:
    """Attributes of an element; what XML reserves is written as it asks."""
    text = {key: str(value).replace("&", "&amp;").replace("<", "&lt;") for key, value in values.items()}
    return " ".join(f'{key}="{value}"' for key, value in text.items())


def write_system(folder: Path, *forces: str, particles=None, constraints=()) -> Path:
    """A System; `particles` are elements, by default eight of mass 12."""
    rows = particles if particles is not None else ['<Particle mass="12"/>'] * N
    bonds = "".join(f'<Constraint p1="{i}" p2="{j}" d="{d}"/>' for i, j, d in constraints)
    path = folder / "system.xml"
    path.write_text(
        f'<?xml version="1.0" ?><System openmmVersion="8.6.1" type="System" version="1"><PeriodicBoxVectors>{BOX}'
        f"</PeriodicBoxVectors><Particles>{''.join(rows)}</Particles><Constraints>{bonds}</Constraints>"
        f"<Forces>{''.join(forces)}</Forces></System>"
    )
    return path


def write_integrator(folder: Path, kind="VerletIntegrator", **attributes) -> Path:
    """An Integrator with a step of 2 fs."""
    path = folder / "integrator.xml"
    chosen = {"type": kind, "stepSize": 0.002, "constraintTolerance": 1e-5} | attributes
    path.write_text(f'<?xml version="1.0" ?><Integrator {as_attributes(chosen)}/>')
    return path


def positions(n=N) -> np.ndarray:
    """(n, 3) nm, apart from each other."""
    return 0.4 * np.array(list(np.ndindex(5, 5, 5))[:n], float) + 0.1


def read(
    folder: Path, *forces: str, particles=None, constraints=(), integrator=None, **options
) -> OpenMMSystem:
    """Write a System and read it."""
    path = write_system(folder, *forces, particles=particles, constraints=constraints)
    n = N if particles is None else len(particles)
    return read_openmm(path, positions(n), integrator, options=options)
