"""Build systems with OpenMM's force fields and record energies and forces of its Reference platform.

usage: openmm_systems.py DATA_DIRECTORY [NAME ...]

Needs OpenMM (made with 8.6.1); ``parmed`` needs ParmEd (4.3.1) and gmx (2022.5), too. For each system writes
``openmm/NAME.npz``:

system, topology : the System as XML and the topology as PDB, UTF-8 bytes in uint8 arrays
positions : (n, 3) float32, nm, virtual sites in place
box : (3, 3) float64, nm
forces : (n, 3) float32, kJ/mol/nm, on particles with mass: those of virtual sites are on their parents
names, energies : of every force, kJ/mol, and ``total``
program : str

Structures come from OpenMM's own data: a stretch of the protein in ``test.pdb`` between caps, lipids of ``POPC.pdb``.
Benzenesulfonamide starts from random places, which the minimiser then makes a molecule. All are minimised and run
for 1 ps at 300 K on the CPU platform, so that every term has a force.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import openmm
from openmm import app, unit

DATA = Path(app.__file__).parent / "data"
CUTOFF = 0.9 * unit.nanometer
SEED = 3


def segment(first: int, n: int, capped: bool = True) -> app.Modeller:
    """Residues of the protein in test.pdb, heavy atoms only.

    Between ACE and NME, made of their neighbours, or with charged ends.
    """
    pdb = app.PDBFile(str(DATA / "test.pdb"))
    residues = list(pdb.topology.residues())
    topology, positions = app.Topology(), []
    chain = topology.addChain()

    def add(
        place: int, name: str, renamed: dict[str, str] | None, residue: app.topology.Residue | None = None
    ) -> None:
        residue = residue or topology.addResidue(name, chain)
        for atom in residues[place].atoms():
            if atom.element is app.element.hydrogen or (renamed is not None and atom.name not in renamed):
                continue
            new = atom.name if renamed is None else renamed[atom.name]
            topology.addAtom(new, app.element.oxygen if new == "OXT" else atom.element, residue)
            positions.append(pdb.positions[atom.index].value_in_unit(unit.nanometer))

    if capped:
        add(first - 1, "ACE", {"CA": "CH3", "C": "C", "O": "O"})
    for place in range(first, first + n):
        add(place, residues[place].name, None)
    if capped:
        add(first + n, "NME", {"N": "N", "CA": "C"})
    else:
        add(first + n, "", {"N": "OXT"}, list(topology.residues())[-1])
    topology.createStandardBonds()
    return app.Modeller(topology, np.array(positions) * unit.nanometer)


def ligand(field: app.ForceField, name: str) -> app.Modeller:
    """A residue of a force field from random places, minimised."""
    template = field._templates[name]
    topology = app.Topology()
    residue = topology.addResidue(name, topology.addChain())
    atoms = [topology.addAtom(atom.name, atom.element, residue) for atom in template.atoms]
    for i, j in template.bonds:
        topology.addBond(atoms[i], atoms[j])
    system = field.createSystem(topology, nonbondedMethod=app.NoCutoff)
    positions = np.random.default_rng(SEED).normal(0.0, 0.2, (len(atoms), 3))
    flat = openmm.XmlSerializer.clone(system)
    for index in reversed(range(flat.getNumForces())):
        if isinstance(flat.getForce(index), openmm.NonbondedForce | openmm.CustomNonbondedForce):
            flat.removeForce(index)
    repel = openmm.CustomNonbondedForce("10*step(0.2-r)*(0.2-r)^2*1000")
    for _ in atoms:
        repel.addParticle([])
    repel.createExclusionsFromBonds([(i, j) for i, j in template.bonds], 2)
    flat.addForce(repel)
    for stage in (flat, system):
        simulation = app.Simulation(
            topology,
            stage,
            openmm.LangevinMiddleIntegrator(600, 10, 0.0005),
            openmm.Platform.getPlatformByName("CPU"),
        )
        simulation.integrator.setRandomNumberSeed(SEED)
        simulation.context.setPositions(positions)
        simulation.minimizeEnergy()
        simulation.step(4000)
        simulation.minimizeEnergy()
        positions = simulation.context.getState(positions=True).getPositions(asNumpy=True)
    return app.Modeller(topology, positions)


def dipeptide() -> tuple[app.Topology, openmm.System, object]:
    """Alanine dipeptide, ff14SB and TIP3P; bonds to hydrogens and waters rigid."""
    field = app.ForceField("amber14/protein.ff14SB.xml", "amber14/tip3p.xml")
    model = segment(alanine(), 1)
    model.addHydrogens(field)
    model.addSolvent(field, model="tip3p", boxSize=openmm.Vec3(2.6, 2.6, 2.6))
    options = {"nonbondedMethod": app.CutoffPeriodic, "nonbondedCutoff": CUTOFF, "constraints": app.HBonds}
    return model.topology, field.createSystem(model.topology, **options), model.positions


def alanine() -> int:
    """Index of the first alanine of test.pdb that has neighbours."""
    residues = list(app.PDBFile(str(DATA / "test.pdb")).topology.residues())
    return next(i for i, residue in enumerate(residues) if i > 1 and residue.name == "ALA")


def tip4pew() -> tuple[app.Topology, openmm.System, object]:
    """Five residues, ff14SB and TIP4P-Ew, flexible bonds, a switching function, conducting surroundings."""
    field = app.ForceField("amber14/protein.ff14SB.xml", "amber14/tip4pew.xml")
    model = segment(5, 5)
    model.addHydrogens(field)
    model.addSolvent(field, model="tip4pew", boxSize=openmm.Vec3(2.8, 2.6, 2.7), neutralize=False)
    system = field.createSystem(
        model.topology,
        nonbondedMethod=app.CutoffPeriodic,
        nonbondedCutoff=CUTOFF,
        switchDistance=0.75 * unit.nanometer,
    )
    nonbonded_of(system).setReactionFieldDielectric(1e30)
    return model.topology, system, model.positions


def charmm36() -> tuple[app.Topology, openmm.System, object]:
    """Seven residues, CHARMM36 with correction maps, Urey-Bradley terms, impropers and NBFIX; 0.4 M NaCl."""
    field = app.ForceField("charmm36.xml", "charmm36/water.xml")
    model = segment(5, 7, capped=False)
    model.addHydrogens(field)
    model.addSolvent(field, boxSize=openmm.Vec3(2.7, 2.8, 2.9), ionicStrength=0.4 * unit.molar)
    options = {"nonbondedMethod": app.CutoffPeriodic, "nonbondedCutoff": CUTOFF, "constraints": app.HBonds}
    return model.topology, field.createSystem(model.topology, **options), model.positions


def popc() -> tuple[app.Topology, openmm.System, object]:
    """A patch of a POPC bilayer, lipid17 and TIP3P."""
    field = app.ForceField("amber14/lipid17.xml", "amber14/tip3p.xml")
    pdb = app.PDBFile(str(DATA / "POPC.pdb"))
    edge, corner = np.array([2.5, 2.5]), np.array([1.5, 1.5])
    places = np.array(pdb.positions.value_in_unit(unit.nanometer))
    far = []
    for residue in pdb.topology.residues():
        centre = places[[atom.index for atom in residue.atoms()]].mean(0)[:2] - places.min(0)[:2] - corner
        if (centre < 0).any() or (centre > edge).any():
            far.append(residue)
    model = app.Modeller(pdb.topology, pdb.positions)
    model.delete(far)
    height = pdb.topology.getPeriodicBoxVectors()[2][2].value_in_unit(unit.nanometer)
    model.topology.setUnitCellDimensions(openmm.Vec3(*(edge + 0.25), height))
    options = {"nonbondedMethod": app.CutoffPeriodic, "nonbondedCutoff": CUTOFF, "constraints": app.HBonds}
    return model.topology, field.createSystem(model.topology, **options), model.positions


def pme() -> tuple[app.Topology, openmm.System, object]:
    """Nine residues with charged ends and their ions, ff19SB with its correction maps and OPC, PME."""
    field = app.ForceField("amber19/protein.ff19SB.xml", "amber19/opc.xml")
    model = segment(5, 9, capped=False)
    model.addHydrogens(field)
    model.addSolvent(
        field, model="tip4pew", boxSize=openmm.Vec3(2.7, 2.8, 3.1), ionicStrength=0.2 * unit.molar
    )
    options = {"nonbondedMethod": app.PME, "nonbondedCutoff": CUTOFF, "constraints": app.HBonds}
    return model.topology, field.createSystem(model.topology, **options), model.positions


def sulfonamide() -> tuple[app.Topology, openmm.System, object]:
    """Benzenesulfonamide with CHARMM36 (CGenFF) in its TIP3P, a switching function."""
    field = app.ForceField("charmm36.xml", "charmm36/water.xml")
    model = ligand(field, "BSAM")
    model.addSolvent(field, boxSize=openmm.Vec3(2.6, 2.7, 2.6), neutralize=False)
    system = field.createSystem(
        model.topology,
        nonbondedMethod=app.CutoffPeriodic,
        nonbondedCutoff=CUTOFF,
        switchDistance=0.8 * unit.nanometer,
    )
    return model.topology, system, model.positions


def parmed() -> tuple[app.Topology, openmm.System, object]:
    """Three residues with OPLS-AA (geometric rules) from files of gmx pdb2gmx, read by ParmEd."""
    import parmed as reader

    model = segment(5, 3, capped=False)
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/in.pdb", "w") as handle:
            app.PDBFile.writeFile(model.topology, model.positions, handle)
        for command in (
            "pdb2gmx -f in.pdb -o a.gro -p topol.top -ff oplsaa -water tip3p -ignh",
            "editconf -f a.gro -o b.gro -box 2.6 2.6 2.6",
            "solvate -cp b.gro -cs spc216.gro -p topol.top -o c.gro",
        ):
            subprocess.run(["gmx", "-quiet", *command.split()], cwd=folder, check=True, capture_output=True)
        reader.gromacs.GROMACS_TOPDIR = "/usr/share/gromacs/top"
        top = reader.load_file(f"{folder}/topol.top", xyz=f"{folder}/c.gro")
    system = top.createSystem(
        nonbondedMethod=app.CutoffPeriodic, nonbondedCutoff=CUTOFF, constraints=app.HBonds
    )
    return top.topology, system, top.positions


def zoo() -> tuple[app.Topology, openmm.System, object]:
    """Molecules with every kind of virtual site and of custom force; a Born-Mayer repulsion, switched off."""
    edge = 2.9
    shape = np.array([[0, 0, 0], [0.11, 0, 0], [0.15, 0.1, 0], [0.25, 0.12, 0.05], [-0.04, 0.09, 0.02]])
    system, topology, positions = openmm.System(), app.Topology(), []
    system.setDefaultPeriodicBoxVectors(*np.diag([edge] * 3))
    topology.setUnitCellDimensions(openmm.Vec3(edge, edge, edge))
    forces = zoo_forces()
    chain, rng = topology.addChain(), np.random.default_rng(SEED)
    for corner in np.ndindex(5, 5, 5):
        first, residue = system.getNumParticles(), topology.addResidue("ZOO", chain)
        for name, place in zip("ABCDE", shape, strict=True):
            system.addParticle(12.0 if name in "AC" else 14.0)
            topology.addAtom(name, app.element.carbon, residue)
            positions.append(np.array(corner) * edge / 5 + place + rng.normal(0.0, 0.005, 3))
        a, b, c, d, e = range(first, first + 5)
        sites = (
            openmm.TwoParticleAverageSite(a, b, 0.3, 0.7),
            openmm.ThreeParticleAverageSite(a, b, c, 0.5, 0.2, 0.3),
            openmm.OutOfPlaneSite(a, b, c, 0.2, 0.3, 2.0),
            openmm.LocalCoordinatesSite([d, c], [1, 0], [-1, 1], [-1, 1], openmm.Vec3(-0.05, 0, 0)),
            openmm.LocalCoordinatesSite(
                [b, a, c], [1, 0, 0], [-1, 0.5, 0.5], [-1, 1, 0], openmm.Vec3(0.03, 0, 0)
            ),
            openmm.LocalCoordinatesSite(
                [a, b, e], [1, 0, 0], [-1, 1, 0], [-1, 0, 1], openmm.Vec3(0.02, -0.04, 0)
            ),
            openmm.LocalCoordinatesSite(
                [b, c, a], [1, 0, 0], [1, -1, 0], [0, -1, 1], openmm.Vec3(0.02, 0.03, -0.04)
            ),
        )
        for k, site in enumerate(sites):
            index = system.addParticle(0.0)
            topology.addAtom(f"M{k}", None, residue)
            system.setVirtualSite(index, site)
            positions.append(positions[first])
        add_zoo_molecule(forces, first, shape, positions[first])
    for force in forces.values():
        system.addForce(force)
    return topology, system, np.array(positions) * unit.nanometer


def zoo_forces() -> dict[str, openmm.Force]:
    """Empty forces of `zoo`."""
    pairs = openmm.CustomNonbondedForce(
        "A*exp(-b*r)+select(step(r-0.3), w, 2*w)/max(r, 0.2)^8; A=sqrt(A1*A2); b=0.5*(b1+b2); "
        "w=scale*table(kind1, kind2)"
    )
    pairs.setUseLongRangeCorrection(True)
    pairs.addGlobalParameter("scale", 0.001)
    pairs.addTabulatedFunction("table", openmm.Discrete2DFunction(2, 2, [0.0, 0.1, 0.1, 0.3]))
    for name in ("A", "b", "kind"):
        pairs.addPerParticleParameter(name)
    nonbonded = openmm.NonbondedForce()
    for force in (pairs, nonbonded):
        force.setNonbondedMethod(type(force).CutoffPeriodic)
        force.setCutoffDistance(0.7)
        force.setUseSwitchingFunction(True)
        force.setSwitchingDistance(0.5)
    nonbonded.setUseDispersionCorrection(False)
    spring = openmm.CustomBondForce("0.5*k*(r-r0)^2")
    bend = openmm.CustomAngleForce("k*(theta-theta0)^2")
    gromos_bond = openmm.CustomBondForce("0.25*k*(r^2-r0^2)^2")
    gromos_angle = openmm.CustomAngleForce("0.5*k*(cos(theta)-cos(theta0))^2")
    cosine = openmm.CustomTorsionForce("k*(1+cos(n*theta-theta0))")
    for force, name in (
        (gromos_bond, "GromosBond"),
        (gromos_angle, "GromosAngle"),
        (cosine, "CosineTorsion"),
    ):
        force.setName(name)
    improper = openmm.CustomTorsionForce("k*min(d, 2*pi-d)^2; d=abs(theta-theta0); pi=3.1415926535")
    for force, method, names in (
        (spring, "addPerBondParameter", ("k", "r0")),
        (bend, "addPerAngleParameter", ("k", "theta0")),
        (improper, "addPerTorsionParameter", ("k", "theta0")),
        (gromos_bond, "addPerBondParameter", ("k", "r0")),
        (gromos_angle, "addPerAngleParameter", ("k", "theta0")),
        (cosine, "addPerTorsionParameter", ("k", "n", "theta0")),
    ):
        for name in names:
            getattr(force, method)(name)
    held = openmm.CustomExternalForce("k*periodicdistance(x, y, z, x0, y0, z0)^2")
    for name in ("k", "x0", "y0", "z0"):
        held.addPerParticleParameter(name)
    return {
        "bond": openmm.HarmonicBondForce(),
        "rb": openmm.RBTorsionForce(),
        "pairs": pairs,
        "nonbonded": nonbonded,
        "spring": spring,
        "bend": bend,
        "improper": improper,
        "gromos_bond": gromos_bond,
        "gromos_angle": gromos_angle,
        "cosine": cosine,
        "held": held,
    }


def add_zoo_molecule(
    forces: dict[str, openmm.Force], first: int, shape: np.ndarray, place: np.ndarray
) -> None:
    """Terms of one molecule of five atoms and seven sites."""
    a, b, c, d, e = range(first, first + 5)
    for i, j in ((a, b), (b, c), (c, d), (a, e)):
        forces["bond"].addBond(i, j, float(np.linalg.norm(shape[i - first] - shape[j - first])), 2e5)
    forces["spring"].addBond(a, d, [500.0, 0.27])
    forces["bend"].addAngle(a, b, c, [200.0, 1.8])
    forces["bend"].addAngle(b, c, d, [200.0, 2.2])
    forces["rb"].addTorsion(a, b, c, d, 3.0, -2.0, 1.0, 0.5, -0.3, 0.2)
    forces["gromos_bond"].addBond(b, d, [5e3, 0.2])
    forces["gromos_angle"].addAngle(e, a, b, [100.0, 1.7])
    forces["cosine"].addTorsion(a, b, c, d, [4.0, 3.0, 0.7])
    forces["improper"].addTorsion(e, a, b, c, [20.0, 3.0])
    forces["held"].addParticle(a, [100.0, *(place + 0.02)])
    charges = [0.3, -0.3, 0.2, -0.2, 0.0, 0.1, -0.1, 0.2, -0.2, 0.1, -0.2, 0.1]
    for k, charge in enumerate(charges):
        forces["nonbonded"].addParticle(charge, 0.3, 0.2 if k in (1, 3) else 0.0)
        forces["pairs"].addParticle([4e4 if k < 5 else 0.0, 35.0 + k % 2, k % 2 if k < 5 else 0])
    for i in range(len(charges)):
        for j in range(i):
            acts = (i, j) == (3, 0)
            forces["nonbonded"].addException(first + i, first + j, 0.05 * acts, 0.3, 0.1 * acts)
            forces["pairs"].addExclusion(first + i, first + j)


SYSTEMS = (dipeptide, tip4pew, charmm36, popc, pme, sulfonamide, parmed, zoo)


def nonbonded_of(system: openmm.System) -> openmm.NonbondedForce:
    """The force with the charges."""
    return next(force for force in system.getForces() if isinstance(force, openmm.NonbondedForce))


def relaxed(topology: app.Topology, system: openmm.System, positions: object) -> np.ndarray:
    """Positions (n, 3) float32, nm, after a minimisation and 1 ps at 300 K."""
    integrator = openmm.LangevinMiddleIntegrator(300, 10, 0.0005)
    integrator.setRandomNumberSeed(SEED)
    simulation = app.Simulation(topology, system, integrator, openmm.Platform.getPlatformByName("CPU"))
    simulation.context.setPositions(positions)
    simulation.minimizeEnergy(maxIterations=500)
    simulation.context.setVelocitiesToTemperature(300, SEED)
    simulation.step(2000)
    state = simulation.context.getState(positions=True)
    return state.getPositions(asNumpy=True).value_in_unit(unit.nanometer).astype(np.float32)


def record(path: Path, topology: app.Topology, system: openmm.System, start: object) -> None:
    """Write one archive."""
    if topology.getPeriodicBoxVectors() is not None:
        system.setDefaultPeriodicBoxVectors(*topology.getPeriodicBoxVectors())
    positions = relaxed(topology, system, start)
    for index, force in enumerate(system.getForces()):
        force.setForceGroup(index)
    context = openmm.Context(
        system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference")
    )
    context.setPositions(positions)
    context.computeVirtualSites()
    positions = context.getState(positions=True).getPositions(asNumpy=True).value_in_unit(unit.nanometer)
    state = context.getState(energy=True, forces=True)
    names, energies = ["total"], [state.getPotentialEnergy()]
    for index, force in enumerate(system.getForces()):
        if not isinstance(force, openmm.CMMotionRemover):
            names.append(force.getName())
            energies.append(context.getState(energy=True, groups={index}).getPotentialEnergy())
    pdb = io.StringIO()
    app.PDBFile.writeFile(topology, positions * unit.nanometer, pdb)
    values = [energy.value_in_unit(unit.kilojoules_per_mole) for energy in energies]
    np.savez_compressed(
        path,
        system=np.frombuffer(openmm.XmlSerializer.serialize(system).encode(), np.uint8),
        topology=np.frombuffer(pdb.getvalue().encode(), np.uint8),
        positions=positions.astype(np.float32),
        box=np.array(state.getPeriodicBoxVectors().value_in_unit(unit.nanometer)),
        forces=np.asarray(state.getForces(asNumpy=True)._value, np.float32),
        names=names,
        energies=values,
        program=f"OpenMM {openmm.__version__} Reference",
    )
    rows = ", ".join(f"{name} {value:.3f}" for name, value in zip(names, values, strict=True))
    print(f"{path.stem}: {system.getNumParticles()} particles, {rows}", flush=True)


def main(data: Path, names: list[str]) -> None:
    for build in SYSTEMS:
        if not names or build.__name__ in names:
            record(data / "openmm" / f"{build.__name__}.npz", *build())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
