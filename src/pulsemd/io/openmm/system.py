"""A whole system from OpenMM: a System, its positions, and how to run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import TopologyError
from pulsemd.forcefield.dispersion import DispersionCorrection
from pulsemd.forcefield.nonbonded import LennardJonesTable
from pulsemd.io.openmm import bonded, custom, custom_torsions, nonbonded, pair_potential, restraints, settings
from pulsemd.io.openmm.constraints import Constraints, sort_constraints
from pulsemd.io.openmm.document import Document, Force, columns, read_document, section_of
from pulsemd.io.openmm.draft import SystemDraft
from pulsemd.io.openmm.images import check_distances, warn_of_images
from pulsemd.io.openmm.molecules import Names, WholeSystem, split
from pulsemd.io.openmm.pairs import PairTable, build_pairs
from pulsemd.io.openmm.sites import read_site
from pulsemd.io.openmm.start import read_names, read_start, read_state
from pulsemd.kernels.nonbonded.potential import PairPotential
from pulsemd.topology.configuration import Configuration
from pulsemd.topology.expand import build_topology
from pulsemd.topology.records import Topology
from pulsemd.topology.terms import Terms

Float64 = NDArray[np.float64]


def _refuse(what: str, remedy: str) -> Callable[[SystemDraft, Force], NoReturn]:
    def refuse(draft: SystemDraft, force: Force) -> NoReturn:
        raise force.error(what, remedy)

    return refuse


FORCES: Mapping[str, Callable[[SystemDraft, Force], None]] = {
    "HarmonicBondForce": bonded.harmonic_bonds,
    "HarmonicAngleForce": bonded.harmonic_angles,
    "PeriodicTorsionForce": bonded.periodic_torsions,
    "RBTorsionForce": bonded.rb_torsions,
    "CMAPTorsionForce": bonded.cmap_torsions,
    "NonbondedForce": nonbonded.nonbonded,
    "CustomNonbondedForce": pair_potential.custom_nonbonded,
    "CustomBondForce": custom.custom_bonds,
    "CustomAngleForce": custom.custom_angles,
    "CustomTorsionForce": custom_torsions.custom_torsions,
    "CustomExternalForce": restraints.custom_external,
    **dict.fromkeys(settings.OF_RUNS, settings.remember_run_force),
    "MonteCarloFlexibleBarostat": _refuse(
        "changes of the angles of the box are not supported",
        "use MonteCarloAnisotropicBarostat, or MonteCarloBarostat, with pcoupl='c-rescale'",
    ),
    **dict.fromkeys(
        ("GBSAOBCForce", "CustomGBForce", "LCPOForce"),
        _refuse("implicit solvent is not supported", "build the System with water"),
    ),
    **dict.fromkeys(
        ("AmoebaMultipoleForce", "AmoebaVdwForce", "AmoebaGeneralizedKirkwoodForce", "AmoebaWcaDispersionForce",
         "AmoebaTorsionTorsionForce", "HippoNonbondedForce", "DrudeForce"),
        _refuse("polarizable force fields are not supported", "build the System with fixed charges"),
    ),
}  # fmt: skip
"""What each force of OpenMM adds to a draft; others are refused by name."""


@dataclass(frozen=True, eq=False)
class OpenMMSystem:
    """A system as read.

    Parameters
    ----------
    topology : Topology
    table : LennardJonesTable
    configuration : Configuration
    options : dict
        Options of a run by .mdp name.
    pair_potential : PairPotential or None
        In place of Lennard-Jones.
    dispersion : DispersionCorrection or None
    """

    topology: Topology
    table: LennardJonesTable
    configuration: Configuration
    options: dict[str, Any]
    pair_potential: PairPotential | None
    dispersion: DispersionCorrection | None


def read_openmm(
    system: Any,
    positions: Any,
    integrator: Any = None,
    *,
    velocities: Any = None,
    box: Any = None,
    names: Any = None,
    options: Mapping[str, Any] | None = None,
) -> OpenMMSystem:
    """Read a System of OpenMM.

    Parameters
    ----------
    system : System, or path of its XML
    positions : (n, 3) array or Quantity, State, or path of a State's XML
        Numbers without unit are nm. A State also has velocities, the box, and what global parameters are.
    integrator : Integrator or path of its XML, optional
    velocities : (n, 3) array or Quantity, nm/ps, optional
    box : (3, 3) array or Quantity, nm, optional
        Default: that of the State, else of the System.
    names : openmm.app.Topology, optional
        Names of atoms and residues, for output and messages.
    options : mapping, optional
        Options of the caller by .mdp name, which say whether thermostats of another kind may be replaced.

    Raises
    ------
    InputError
        For whatever is not supported: which force, with its index, what, why, and the remedy.
    """
    document = read_document(system, "System")
    run = None if integrator is None else read_document(integrator, "Integrator")
    state = read_state(positions)
    settings.check_groups(document, run)
    draft = _read_draft(document if state is None else settings.with_parameters(document, state))
    start = read_start(document, draft.n_atoms, positions if state is None else state, velocities, box)
    check_distances(draft, start.positions, start.box)
    warn_of_images(draft, start.positions, start.box)
    constraints = sort_constraints(draft.constraints, draft.lengths, draft.mass, draft.file)
    pairs = build_pairs(draft, start.box)
    topology = _topology(draft, constraints, pairs, read_names(names, draft.n_atoms, constraints.waters))
    found = settings.run_options(draft, run, options or {})
    reference = None if draft.reference is None else np.nan_to_num(draft.reference)
    configuration = Configuration(start.positions, start.velocities, start.box, "OpenMM system", reference)
    return OpenMMSystem(
        topology, pairs.table, configuration, {**pairs.options, **found}, pairs.potential, pairs.dispersion
    )


def _read_draft(document: Document) -> SystemDraft:
    """Particles, constraints and forces."""
    root, file = document.element, document.file
    particles = section_of(root, "Particles")
    if len(particles) == 0:
        document.refuse("the System has no particles")
    mass = columns(particles, ("mass",))[:, 0]
    sites = [read_site(i, child, file) for i, particle in enumerate(particles) for child in particle]
    for i in np.flatnonzero(mass < 0)[:1]:
        document.refuse(f"particle {i} has the mass {mass[i]:g}; masses must not be negative")
    for site in sites:
        if mass[site.atom] != 0:
            document.refuse(
                f"particle {site.atom} is a virtual site with a mass; set it to 0, as OpenMM needs"
            )
    frozen = np.flatnonzero(mass == 0)
    frozen = frozen[~np.isin(frozen, [site.atom for site in sites])]
    if len(frozen):
        document.refuse(
            f"particle {frozen[0]} has no mass and is no virtual site; frozen particles are not supported: give it a "
            "mass and hold it with a CustomExternalForce, k*periodicdistance(x, y, z, x0, y0, z0)^2, or by the name of "
            "its residue with freezegrps= and freezedim='Y Y Y'"
        )
    ends = columns(section_of(root, "Constraints"), ("p1", "p2", "d"))
    draft = SystemDraft(
        file, mass, ends[:, :2].astype(np.int32), ends[:, 2].copy(), sites, np.zeros(len(mass))
    )
    forces = [Force(index, element, file) for index, element in enumerate(section_of(root, "Forces"))]
    for force in forces:
        if force.type not in FORCES:
            raise force.error(
                f"{force.type} is not supported", f"supported are {', '.join(supported_forces())}"
            )
    for force in sorted(
        forces, key=lambda force: force.type in supported_forces()
    ):  # what is refused comes first
        draft.reading = force
        FORCES[force.type](draft, force)
    _check_particles(draft, document)
    return draft


def _check_particles(draft: SystemDraft, document: Document) -> None:
    """Every particle that something refers to must be there."""
    named = [(kind, atoms) for kind, parts in draft.bonded.items() for atoms, _ in parts]
    named += [("excluded pair", pairs) for _, pairs in draft.excluded]
    named += [("constraint", draft.constraints)]
    named += [("virtual site", np.array(site.parents, np.int32)) for site in draft.sites]
    for what, atoms in named:
        bad = atoms[(atoms < 0) | (atoms >= draft.n_atoms)]
        if bad.size:
            document.refuse(
                f"{what} of particle {bad[0]}: there are {draft.n_atoms}, counted from 0; correct it"
            )


def supported_forces() -> list[str]:
    """Names of the forces that are read."""
    return [name for name, read in FORCES.items() if read.__name__ != "refuse"]


def _topology(draft: SystemDraft, constraints: Constraints, pairs: PairTable, names: Names) -> Topology:
    terms = {
        kind: _terms([a for a, _ in parts], [p for _, p in parts]) for kind, parts in draft.bonded.items()
    }
    if len(constraints.pairs):
        terms["constraint"] = _terms([constraints.pairs], [constraints.lengths[:, None]])
    whole = WholeSystem(
        names, pairs.type_index, draft.charge, draft.mass, pairs.excluded, constraints.waters,
        constraints.water_lengths, terms, draft.sites,
    )  # fmt: skip
    try:
        types, counts = split(whole)
    except ValueError as error:
        raise TopologyError(
            "virtual sites are constructed from each other in a circle", draft.file
        ) from error
    return build_topology("OpenMM system", pairs.table.type_names, types, counts)


def _terms(atoms: list[NDArray[np.int32]], parameters: list[Float64]) -> Terms:
    rows, index = np.unique(np.concatenate(parameters), axis=0, return_inverse=True)
    return Terms(np.concatenate(atoms), index.ravel().astype(np.int32), rows)
