"""Systems of OpenMM as topologies, tables and settings."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from openmm_files import N, custom, custom_pairs, nonbonded, positions, read, write_integrator, write_system
from openmm_systems import NAMES as RECORDED
from openmm_systems import read as recorded
from pulsemd.base.errors import TopologyError
from pulsemd.forcefield.settings import RunSettings
from pulsemd.io.gromacs.mdp import override_settings
from pulsemd.io.openmm import read_openmm
from pulsemd.topology.virtual_sites import SiteKind

PARTICLE = '<Particle mass="{}"/>'
WATER = [PARTICLE.format(16), PARTICLE.format(1), PARTICLE.format(1)]


def pairs_of(found) -> set[tuple[int, int]]:
    """Excluded pairs, each once."""
    t = found.topology
    first = np.repeat(np.arange(t.n_atoms), np.diff(t.exclusion_offset))
    return {(int(i), int(j)) for i, j in zip(first, t.exclusion_atoms, strict=True) if i < j}


# ---- constraints ----------------------------------------------------------------------------------------------------


def test_rigid_water_is_settled_in_any_order_of_its_constraints(tmp_path):
    particles = [*WATER, PARTICLE.format(1), PARTICLE.format(16), PARTICLE.format(1)]
    constraints = [(0, 1, 0.1), (1, 2, 0.16), (2, 0, 0.1), (5, 3, 0.16), (4, 3, 0.1), (4, 5, 0.1)]
    found = read(tmp_path, nonbonded(6), particles=particles, constraints=constraints)
    assert found.topology.settle_atoms.tolist() == [[0, 1, 2], [4, 3, 5]]
    assert found.topology.settle_parameters.tolist() == [[0.1, 0.16]] * 2
    assert found.topology.n_constraints == 6
    assert "constraint" not in found.topology.terms
    assert found.topology.leader.tolist() == [0, 0, 0, 3, 3, 3]


def test_triangle_that_is_no_water_and_stars_are_groups_with_constraints(tmp_path):
    unequal = [(0, 1, 0.1), (1, 2, 0.16), (2, 0, 0.11)]
    star = [(4, 3, 0.1), (5, 4, 0.1), (6, 4, 0.1), (5, 6, 0.17)]
    masses = [16, 1, 1, 1, 12, 1, 1, 12]
    found = read(
        tmp_path, nonbonded(), particles=[PARTICLE.format(m) for m in masses], constraints=unequal + star
    )
    assert len(found.topology.settle_atoms) == 0
    assert len(found.topology.terms["constraint"]) == 7
    assert found.topology.leader.tolist() == [0, 0, 0, 3, 3, 3, 3, 7]


def test_water_with_unequal_hydrogens_is_no_settle(tmp_path):
    particles = [PARTICLE.format(16), PARTICLE.format(1), PARTICLE.format(2)]
    found = read(
        tmp_path, nonbonded(3), particles=particles, constraints=[(0, 1, 0.1), (0, 2, 0.1), (1, 2, 0.16)]
    )
    assert len(found.topology.settle_atoms) == 0
    assert found.topology.n_constraints == 3


# ---- pairs ----------------------------------------------------------------------------------------------------------


def test_exceptions_are_excluded_pairs_and_those_that_act_are_terms(tmp_path):
    rows = ((0, 1, 0, 0.3, 0), (1, 2, 0.5, 1, 0), (2, 3, 0, 0.3, 0.2), (3, 0, -0.25, 0.4, 0.1))
    text = "".join(f'<Exception p1="{i}" p2="{j}" q="{q}" sig="{s}" eps="{e}"/>' for i, j, q, s, e in rows)
    found = read(tmp_path, nonbonded(exceptions=text))
    assert pairs_of(found) == {(0, 1), (1, 2), (2, 3), (0, 3)}
    terms = found.topology.terms["charged_pair14"]
    values = {tuple(a): p for a, p in zip(terms.atoms.tolist(), terms.parameters[terms.index], strict=True)}
    assert values.keys() == {(1, 2), (2, 3), (3, 0)}
    np.testing.assert_allclose(values[1, 2], [0, 0, 0.5])
    np.testing.assert_allclose(values[2, 3], [0.8 * 0.3**6, 0.8 * 0.3**12, 0])
    np.testing.assert_allclose(values[3, 0], [0.4 * 0.4**6, 0.4 * 0.4**12, -0.25])


def test_particles_of_equal_parameters_share_a_type_and_epsilon_zero_has_no_diameter(tmp_path):
    force = nonbonded(0).replace(
        "<Particles>",
        "<Particles>" + "".join(
            f'<Particle q="0.1" sig="{s}" eps="{e}"/>'
            for s, e in ((0.3, 0.5), (1, 0), (0.3, 0.5), (0.2, 0), (0.4, 0.5), (1, 0), (0.4, 0.5), (0.3, 0.2))
        ),
    )  # fmt: skip
    found = read(tmp_path, force)
    index = found.topology.type_index
    assert index[[0, 1, 1, 4]].tolist() == index[[2, 3, 5, 6]].tolist()
    assert len(found.table.type_names) == 4
    assert found.table.combination == "lorentz-berthelot"
    i, j = index[0], index[4]
    assert found.table.c6[i, j] == pytest.approx(2.0 * 0.35**6)
    assert found.table.c12[index[1]].max() == 0


@pytest.mark.parametrize(
    "energy",
    [
        "a(t1,t2)/r^12-b(t1,t2)/r^6",
        "(sqrt(a(t1,t2))/r6)^2-b(t1,t2)/r6; r6=r^6",
        "x*(x-y); x=s/r^6*1; y=b(t1,t2)/s; s=sqrt(a(t1,t2))",
    ],
)
def test_tables_over_types_and_nonbonded_force_add_up(tmp_path, energy):
    tables = "".join(
        f'<Function name="{name}" type="Discrete2DFunction" xsize="2" ysize="2"><Values>'
        + "".join(f'<Value v="{v}"/>' for v in values)
        + "</Values></Function>"
        for name, values in (("a", (1.0, 2.0, 2.0, 3.0)), ("b", (0.1, 0.2, 0.2, 0.3)))
    )
    kinds = [[k % 2] for k in range(N)]
    force = custom_pairs(energy, ["t"], kinds, extra=f"<Functions>{tables}</Functions>")
    found = read(tmp_path, nonbonded(), force)
    i, j = found.topology.type_index[:2]
    assert found.pair_potential is None
    assert found.table.combination == "table"
    for (k, m), c12, c6 in (((i, i), 1.0, 0.1), ((i, j), 2.0, 0.2), ((j, j), 3.0, 0.3)):
        assert found.table.c12[k, m] == pytest.approx(c12 + 2.0 * 0.3**12, rel=1e-12)
        assert found.table.c6[k, m] == pytest.approx(c6 + 2.0 * 0.3**6, rel=1e-12)


def test_another_potential_contains_lennard_jones_of_the_nonbonded_force(tmp_path):
    found = read(tmp_path, nonbonded(), custom_pairs("exp(-3*r)"))
    potential = found.pair_potential.resolve(found.table)
    r = np.linspace(0.3, 0.9, 5)
    expected = np.exp(-3 * r) + 2.0 * ((0.3 / r) ** 12 - (0.3 / r) ** 6)
    np.testing.assert_allclose(potential.energies(np.array([0]), np.array([0]), r)[0], expected, rtol=1e-12)
    assert found.options["vdw_modifier"] == "none"


def test_switching_function_and_dispersion_correction_of_one_kind_of_particle(tmp_path):
    plain = read(tmp_path, nonbonded(dispersionCorrection=1))
    c6 = 2.0 * 0.3**6
    expected = 2.0 * np.pi * N * N * (c6 * 0.3**6 / 9.0 - c6 / 3.0)
    assert plain.dispersion.energy(27.0) == pytest.approx(expected / 27.0, rel=1e-12)
    tail = 2.0 * np.pi * N * N * (4.0 * c6 * 0.3**6 / 9.0 - 2.0 * c6 / 3.0)
    assert plain.dispersion.pressure(27.0) == pytest.approx(tail / 27.0**2, rel=1e-12)
    switched = read(
        tmp_path, nonbonded(dispersionCorrection=1, useSwitchingFunction=1, switchingDistance=0.8)
    )
    assert (switched.options["vdw_modifier"], switched.options["rvdw_switch"]) == ("potential-switch", 0.8)
    assert switched.dispersion.energy(1.0) < plain.dispersion.energy(1.0)
    assert switched.dispersion.pressure(1.0) == pytest.approx(switched.dispersion.energy(1.0))
    assert read(tmp_path, nonbonded()).dispersion is None


@pytest.mark.parametrize("switch", [{}, {"useSwitchingFunction": 1, "switchingDistance": 0.8}])
def test_dispersion_correction_of_another_potential_is_that_of_its_powers(tmp_path, switch):
    """exp(-99) is nothing, but makes it a potential of its own."""
    energy, options = "a1*a2*(1/r^12-1/r^6)", {"useLongRangeCorrection": 1, **switch}
    values = [[1.0 + k % 3] for k in range(N)]
    powers = read(tmp_path, custom_pairs(energy, ["a"], values, **options))
    formula = read(tmp_path, custom_pairs(f"{energy}+exp(-99-r)", ["a"], values, **options))
    assert powers.pair_potential is None
    assert formula.pair_potential is not None
    assert formula.dispersion.energy(2.0) == pytest.approx(powers.dispersion.energy(2.0), rel=1e-12)
    assert formula.dispersion.pressure(2.0) == pytest.approx(powers.dispersion.pressure(2.0), rel=1e-12)


def test_electrostatics_become_options_of_the_run(tmp_path):
    field = read(tmp_path, nonbonded(cutoff=0.9)).options
    assert (field["coulombtype"], field["epsilon_rf"], field["rcoulomb"]) == ("reaction-field", 78.3, 0.9)
    given = read(tmp_path, nonbonded(method=4, alpha=3.0, nx=20, ny=24, nz=28)).options
    assert [given[f"fourier_n{axis}"] for axis in "xyz"] == [20, 24, 28]
    assert given["ewald_rtol"] == pytest.approx(2.209e-5, rel=1e-3)  # erfc(3)
    assert (given["pme_order"], given["coulomb_modifier"]) == (5, "none")
    followed = read(tmp_path, nonbonded(method=4)).options
    assert [followed[f"fourier_n{axis}"] for axis in "xyz"] == [
        25,
        25,
        25,
    ]  # 2 * 2.628 * 3 / (3 * 0.2187) = 24.04
    none = read(tmp_path, custom_pairs("1/r^12")).options
    assert (none["coulombtype"], none["coulomb_modifier"]) == ("cut-off", "none")


GMX = (
    "0.5*k*(thetap-t)^2; thetap=step(-(theta-t+pi))*2*pi+theta+step(theta-t-pi)*(-2*pi); pi=3.141592653589793"
)


@pytest.mark.parametrize(
    ("energy", "angle"),
    [
        *((GMX, angle) for angle in (0.0, 2.6, -3.1)),
        *(("0.5*k*min(d, 2*3.141592653589793-d)^2; d=abs(theta-t)", angle) for angle in (0.0, 2.6, -3.1)),
        ("k/2*(theta-t)^2", 0.0),
    ],
)
def test_harmonic_impropers_are_known_however_they_are_written(tmp_path, energy, angle):
    found = read(
        tmp_path, nonbonded(), custom("Torsion", energy, ["k", "t"], [((0, 1, 2, 3), [50.0, angle])])
    )
    terms = found.topology.terms["improper"]
    np.testing.assert_allclose(terms.parameters, [[np.degrees(angle), 50.0]], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("energy", "expected"),
    [
        ("k*(1+cos(n*theta-t))", [(np.degrees(0.7), 4.0, 3)]),
        ("0.5*k*(1-cos(theta-t))", [(np.degrees(0.7) - 180.0, 2.0, 1)]),
        ("k*cos(theta)^2", [(0.0, 2.0, 2)]),
        ("k*(5-cos(theta)-2*sin(2*theta))", [(180.0, 4.0, 1), (-90.0, 8.0, 2)]),
        ("k*cos(n*theta-t)", [(np.degrees(0.7), 4.0, 3)]),
    ],
)
def test_sums_of_cosines_are_proper_dihedrals(tmp_path, energy, expected):
    rows = [((0, 1, 2, 3), [4.0, 3, 0.7])]
    found = read(tmp_path, nonbonded(), custom("Torsion", energy, ["k", "n", "t"], rows))
    terms = found.topology.terms["proper"]
    for row, (phase, k, n) in zip(terms.parameters[terms.index], expected, strict=True):
        assert np.cos(np.radians(row[0] - phase)) == pytest.approx(1.0)
        assert tuple(row[1:]) == pytest.approx((k, n))
    rest = {"k*(5-cos(theta)-2*sin(2*theta))": 8.0, "k*cos(n*theta-t)": -4.0}.get(energy)
    constant = found.topology.terms.get("ryckaert_bellemans")
    assert (constant is None) == (rest is None)
    assert constant is None or constant.parameters[0].tolist() == pytest.approx([rest, 0, 0, 0, 0, 0])


def test_1_4_pairs_with_a_switched_force_are_pairs_and_a_constant(tmp_path):
    """As scripts of CHARMM-GUI have them: no such pair gets to where the switching begins."""
    energy = "step(1-r)*(a/r^12-b/r^6+c)+step(r-1)*b*(1/r^3-1)^2; c=2*b"
    exceptions = "".join(
        f'<Exception p1="{i}" p2="{j}" q="0" sig="0.3" eps="0"/>' for i, j in ((0, 1), (1, 2))
    )
    pairs = custom("Bond", energy, ["a", "b"], [((1, 0), [3, 4]), ((1, 2), [5, 6])])
    found = read(tmp_path, pairs, nonbonded(exceptions=exceptions))
    terms = found.topology.terms["charged_pair14"]
    assert sorted(terms.parameters[terms.index].tolist()) == [[4.0, 3.0, 0.0], [6.0, 5.0, 0.0]]
    assert found.dispersion.energy(27.0) == 2 * (4 + 6)
    assert found.dispersion.pressure(27.0) == 0.0


def test_bonds_and_angles_of_gromos_are_known(tmp_path):
    bond = custom("Bond", "0.25*k*(r^2-r0^2)^2", ["r0", "k"], [((0, 1), [0.15, 1e7])])
    angle = custom("Angle", "0.5*k*(cos(theta)-cos(t))^2", ["t", "k"], [((0, 1, 2), [1.9, 400.0])])
    terms = read(tmp_path, bond, angle, nonbonded()).topology.terms
    np.testing.assert_allclose(terms["quartic_bond"].parameters, [[0.15, 1e7]], rtol=1e-9)
    np.testing.assert_allclose(terms["cosine_angle"].parameters, [[np.degrees(1.9), 400.0]], rtol=1e-9)


@pytest.mark.parametrize(
    "energy",
    [
        "k*periodicdistance(x, y, z, x0, y0, z0)^2",
        "k*periodicdistance(x0, y0, z0, x, y, z)^2",
        "k*square(periodicdistance(x, y, z, x0, y0, z0))",
        "k*((x-x0)^2+(y-y0)^2+(z-z0)^2)",
        "k*(dx*dx+dy*dy+dz*dz); dx=x-x0; dy=y0-y; dz=z-z0",
    ],
)
def test_position_restraints_are_known_however_they_are_written(tmp_path, energy):
    rows = [((1,), [5.0, 0.1, 0.2, 0.3]), ((4,), [6.0, -0.4, 0.0, 7.0])]
    found = read(tmp_path, nonbonded(), custom("External", energy, ["k", "x0", "y0", "z0"], rows))
    terms = found.topology.terms["position_restraint"]
    assert terms.atoms.tolist() == [[1], [4]]
    np.testing.assert_allclose(terms.parameters[terms.index], [[10.0] * 3, [12.0] * 3], rtol=1e-12)
    np.testing.assert_allclose(found.configuration.reference[[1, 4]], [r[1][1:] for r in rows], atol=1e-15)


def test_restraint_along_one_axis_leaves_the_others_free(tmp_path):
    force = custom("External", "k*(z-2.5)^2", ["k"], [((3,), [8.0])])
    found = read(tmp_path, nonbonded(), force)
    terms = found.topology.terms["position_restraint"]
    assert terms.parameters[terms.index].tolist() == [[0.0, 0.0, 16.0]]
    assert found.configuration.reference[3].tolist() == [0.0, 0.0, 2.5]


@pytest.mark.parametrize(
    ("energy", "low", "up"),
    [
        ("k*max(0, r-r0)^2", 0, 0.5),
        ("step(r-r0)*k*(r-r0)*(r-r0)", 0, 0.5),
        ("select(step(r-r0), k*(r-r0)^2, 0)", 0, 0.5),
        ("k*min(0, r-r0)^2", 0.5, 1e4),
        ("k*max(0, abs(r-r0)-0.1)^2", 0.4, 0.6),
        ("k*(max(0, r-r0)^2+max(0, 0.2-r)^2)", 0.2, 0.5),
    ],
)
def test_flat_bottomed_wells_are_known_however_they_are_written(tmp_path, energy, low, up):
    rows = [((0, 1), [0.5, 30.0]), ((2, 5), [0.5, 0.0]), ((3, 4), [0.5, 70.0])]
    terms = read(tmp_path, nonbonded(), custom("Bond", energy, ["r0", "k"], rows)).topology.terms[
        "restraint_bond"
    ]
    assert terms.atoms.tolist() == [[0, 1], [3, 4]]
    expected = [[low, up, 1e4, 60.0], [low, up, 1e4, 140.0]]
    np.testing.assert_allclose(terms.parameters[terms.index], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("energy", "expected"),
    [
        ("k*max(0, d-0.4)^2; d=periodicdistance(x, y, z, x0, y0, 2)", [1, 1, 1, 0.4]),
        ("k*step(d-0.4)*(d-0.4)^2; d=periodicdistance(x0, y0, 2, x, y, z)", [1, 1, 1, 0.4]),
        ("k*max(0, periodicdistance(x, y, z, x0, y0, z)-0.4)^2", [1, 1, 0, 0.4]),
        ("k*max(0, 0.4-periodicdistance(x, y, z, x0, y0, 2))^2", [1, 1, 1, -0.4]),
        ("k*d*d; d=periodicdistance(x, y, z, x0, y0, 2)", [1, 1, 1, 0]),
    ],
)
def test_flat_bottomed_position_restraints_are_known_beside_harmonic_ones(tmp_path, energy, expected):
    wells = custom("External", energy, ["k", "x0", "y0"], [((1,), [5.0, 0.1, 0.2])])
    held = custom("External", "k*periodicdistance(x, y, z, 1, 1, 1)^2", ["k"], [((4,), [6.0])])
    found = read(tmp_path, nonbonded(), wells, held)
    terms = found.topology.terms["flat_bottom"]
    assert terms.atoms.tolist() == [[1]]
    assert terms.parameters[0].tolist() == pytest.approx([*expected, 10.0], rel=1e-12)
    assert found.configuration.reference[1].tolist() == [0.1, 0.2, 2.0 * expected[2]]
    assert found.topology.terms["position_restraint"].atoms.tolist() == [[4]]
    assert found.configuration.reference[4].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("angle", "width"), [(2.6, 0.1), (-3.1, 0.8), (0.0, 2.0)])
def test_flat_bottomed_impropers_are_dihedral_restraints(tmp_path, angle, width):
    energy = "k*max(0, min(a, 2*3.141592653589793-a)-w)^2; a=abs(theta-t)"
    rows = [((0, 1, 2, 3), [50.0, angle, width]), ((4, 5, 6, 7), [70.0, angle, 0.0])]
    terms = read(tmp_path, nonbonded(), custom("Torsion", energy, ["k", "t", "w"], rows)).topology.terms
    found = terms["dihedral_restraint"]
    expected = [[np.degrees(angle), np.degrees(width), 100.0], [np.degrees(angle), 0.0, 140.0]]
    np.testing.assert_allclose(found.parameters[found.index], expected, rtol=1e-9, atol=1e-9)


# ---- particles and molecules ----------------------------------------------------------------------------------------


def test_local_coordinates_on_a_line_and_in_a_plane_become_sites(tmp_path):
    def local(weights, place):
        ends = " ".join(f'{name}{k + 1}="{v}"' for name, row in weights.items() for k, v in enumerate(row))
        pos = " ".join(f'pos{k + 1}="{v}"' for k, v in enumerate(place))
        return f'<Particle mass="0"><LocalCoordinatesSite {ends} {pos}/></Particle>'

    line = local({"p": (1, 0), "wo": (1, 0), "wx": (-1, 1), "wy": (-1, 1)}, (-0.05, 0, 0))
    plane = local({"p": (0, 1, 2), "wo": (0, 1, 0), "wx": (0, 1, -1), "wy": (-1, 1, 0)}, (0.02, 0.03, 0))
    found = read(tmp_path, nonbonded(5), particles=[PARTICLE.format(12)] * 3 + [line, plane])
    sites = found.topology.virtual_sites
    assert sites.kind.tolist() == [SiteKind.FIXED_DISTANCE, SiteKind.FIXED_ANGLE]
    assert sites.atoms.tolist() == [3, 1, 0, 4, 1, 2, 0]
    np.testing.assert_allclose(sites.values, [0, -0.05, 1, 0, -0.02, -0.03, 0])


def test_particles_that_anything_links_are_one_molecule_and_equal_ones_one_type(tmp_path):
    particles = WATER * 2 + [PARTICLE.format(23)] * 2
    bonds = "".join(f'<Bond p1="{i}" p2="{j}" d="0.1" k="10"/>' for i, j in ((0, 1), (0, 2), (3, 4), (3, 5)))
    force = f'<Force type="HarmonicBondForce"><Bonds>{bonds}</Bonds></Force>'
    found = read(tmp_path, force, nonbonded(), particles=particles)
    assert [(b.molecule_type, b.n_molecules) for b in found.topology.blocks] == [(0, 2), (1, 2)]
    assert [t.n_atoms for t in found.topology.molecule_types] == [3, 1]
    assert found.topology.terms["bond"].atoms.tolist() == [[0, 1], [0, 2], [3, 4], [3, 5]]
    crossing = '<Exception p1="1" p2="4" q="0" sig="0.3" eps="0"/>'
    joined = read(tmp_path, force, nonbonded(exceptions=crossing), particles=particles)
    assert [t.n_atoms for t in joined.topology.molecule_types] == [6, 1]
    assert pairs_of(joined) == {(1, 4)}


def test_names_are_those_of_the_topology_and_waters_are_named_without_one(tmp_path):
    residue = [SimpleNamespace(name=n, index=k, id=str(k + 7)) for k, n in enumerate(("WAT", "NA"))]
    atoms = [
        SimpleNamespace(name=n, residue=residue[k]) for n, k in (("OW", 0), ("HA", 0), ("HB", 0), ("NA", 1))
    ]
    constraints = [(0, 1, 0.1), (0, 2, 0.1), (1, 2, 0.16)]
    path = write_system(
        tmp_path, nonbonded(4), particles=[*WATER, PARTICLE.format(23)], constraints=constraints
    )
    named = read_openmm(path, positions(4), names=SimpleNamespace(atoms=lambda: atoms)).topology
    assert named.labels(0, 4).atom_name.tolist() == [b"OW", b"HA", b"HB", b"NA"]
    assert named.labels(0, 4).residue_name.tolist() == [b"WAT", b"WAT", b"WAT", b"NA"]
    plain = read_openmm(path, positions(4)).topology
    assert plain.describe_atom(1).endswith("HOH 1 H1 (atom 2)")


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_system_has_as_many_atoms_charges_and_excluded_pairs_as_its_xml(name):
    found, expected = recorded(name)
    topology = found.topology
    assert topology.n_atoms == len(expected.forces)
    assert (topology.mass[topology.virtual_sites.sites] == 0).all()
    assert np.count_nonzero(topology.mass == 0) == len(topology.virtual_sites)
    assert topology.group_atoms.shape == (topology.n_atoms,)


# ---- how to run -----------------------------------------------------------------------------------------------------

REMOVER = '<Force type="CMMotionRemover" frequency="{}"/>'


def test_integrators_and_forces_of_a_run_become_options(tmp_path):
    verlet = read(tmp_path, nonbonded(), REMOVER.format(5), integrator=write_integrator(tmp_path)).options
    assert (verlet["dt"], verlet["comm_mode"], verlet["nstcomm"]) == (0.002, "linear", 5)
    langevin = write_integrator(tmp_path, "LangevinMiddleIntegrator", friction=2, temperature=310)
    found = read(tmp_path, nonbonded(), integrator=langevin).options
    assert (found["integrator"], found["ref_t"], found["tau_t"]) == ("sd", 310.0, 0.5)
    pressed = '<Force type="MonteCarloBarostat" pressure="1.5" temperature="310" frequency="25"/>'
    found = read(tmp_path, nonbonded(), pressed, integrator=langevin, pcoupl="C-rescale").options
    assert (found["integrator"], found["ref_p"]) == ("sd", 1.5)
    found = read(tmp_path, nonbonded(), integrator=langevin, tcoupl="v-rescale").options
    assert "integrator" not in found
    assert (found["ref_t"], found["tau_t"], found["comm_mode"]) == (310.0, 0.25, "none")
    hoover = write_integrator(tmp_path, "NoseHooverIntegrator", collisionFrequency=4, temperature=310)
    for tcoupl, tau in (("Nose_Hoover", 2.0 * math.pi / 4.0), ("v-rescale", 0.125)):
        found = read(tmp_path, nonbonded(), integrator=hoover, tcoupl=tcoupl).options
        assert found["tau_t"] == pytest.approx(tau, rel=1e-15)
    bath = '<Force type="AndersenThermostat" temperature="290" frequency="1"/>'
    found = read(
        tmp_path, nonbonded(), bath, integrator=write_integrator(tmp_path), tcoupl="V-rescale"
    ).options
    assert (found["ref_t"], found["tau_t"]) == (290.0, 0.5)


def test_seed_of_an_integrator_is_that_of_the_run_and_0_draws_one(tmp_path):
    for seed, expected in ((0, None), (42, 42)):
        langevin = write_integrator(
            tmp_path, "LangevinMiddleIntegrator", friction=2, temperature=310, randomSeed=seed
        )
        for options in ({}, {"tcoupl": "v-rescale"}):
            assert (
                read(tmp_path, nonbonded(), integrator=langevin, **options).options.get("ld_seed") == expected
            )


def test_barostat_of_frequency_0_does_nothing(tmp_path):
    still = '<Force type="MonteCarloBarostat" pressure="1.5" temperature="310" frequency="0"/>'
    assert "ref_p" not in read(tmp_path, nonbonded(), still).options


MEMBRANE = (
    '<Force type="MonteCarloMembraneBarostat" pressure="1.5" surfaceTension="{}" frequency="25" '
    'xymode="{}" zmode="{}"/>'
)
AXES = (
    '<Force type="MonteCarloAnisotropicBarostat" pressurex="1" pressurey="2" pressurez="3" '
    'scalex="1" scaley="0" scalez="1" frequency="25"/>'
)


@pytest.mark.parametrize(
    ("barostat", "kind", "ref_p", "free"),
    [
        (MEMBRANE.format(0, 0, 0), "semiisotropic", (1.5, 1.5), (1, 1)),
        (MEMBRANE.format(0, 0, 1), "semiisotropic", (1.5, 1.5), (1, 0)),
        (MEMBRANE.format(0, 1, 0), "anisotropic", (1.5, 1.5, 1.5, 0, 0, 0), (1, 1, 1, 0, 0, 0)),
        (AXES, "anisotropic", (1, 2, 3, 0, 0, 0), (1, 0, 1, 0, 0, 0)),
    ],
)
def test_barostats_of_membranes_and_axes_become_those_of_gromacs(tmp_path, barostat, kind, ref_p, free):
    options = read(tmp_path, nonbonded(), barostat, pcoupl="c-rescale").options
    bath = {"tcoupl": "v-rescale", "tc_grps": "System", "ref_t": 300, "tau_t": 1}
    chosen = override_settings(RunSettings(), {**options, **bath, "pcoupl": "c-rescale"})
    assert chosen.pcoupltype == kind
    assert chosen.ref_p == ref_p
    assert chosen.compressibility == tuple(4.5e-5 * f for f in free)


@pytest.mark.parametrize(
    ("barostat", "message"),
    [
        (MEMBRANE.format(20, 0, 0), "a surface tension is not supported; set it to 0"),
        (MEMBRANE.format(0, 0, 2), "ConstantVolume is not supported; use ZFree or ZFixed"),
    ],
)
def test_barostats_of_membranes_without_equivalent_are_refused(tmp_path, barostat, message):
    with pytest.raises(TopologyError, match=message):
        read(tmp_path, nonbonded(), barostat, pcoupl="c-rescale")


STATE = "<State>{parameters}<Positions>{rows}</Positions></State>"


def test_global_parameters_have_the_values_of_the_state(tmp_path):
    """As a context that loads it; a parameter that the state does not have stays at its default."""
    rows = "".join(f'<Position x="{x}" y="{y}" z="{z}"/>' for x, y, z in positions())
    bond = custom("Bond", "0.5*k*(r-d)^2", [], [((0, 1), [])]).replace(
        "<GlobalParameters/>",
        '<GlobalParameters><Parameter name="k" default="100"/><Parameter name="d" default="0.3"/></GlobalParameters>',
    )
    pressed = '<Force type="MonteCarloBarostat" pressure="1.5" temperature="310" frequency="25"/>'
    path = write_system(tmp_path, nonbonded(), bond, pressed)
    state = tmp_path / "state.xml"
    for parameters, k, pressure in (
        ("", 100, 1.5),
        ('<Parameters k="7" MonteCarloPressure="3"/>', 7, 3),
    ):
        state.write_text(STATE.format(parameters=parameters, rows=rows))
        found = read_openmm(path, state, options={"pcoupl": "c-rescale"})
        assert found.topology.terms["harmonic_distance"].parameters.tolist() == [[0.3, k]]
        assert found.options["ref_p"] == pressure


def test_terms_that_act_at_another_image_than_in_openmm_are_warned_of(tmp_path, caplog):
    bond = '<Force type="HarmonicBondForce" usesPeriodic="{}"><Bonds>{}</Bonds></Force>'
    bonds = "".join(f'<Bond p1="{i}" p2="{j}" d="0.4" k="5"/>' for i, j in ((0, 1), (0, 4), (1, 6)))
    where = positions()
    where[4] += [0.0, 0.0, 1.5]  # 3.1 nm from particle 0, and 0.1 nm from its image
    for periodic, told in ((1, 0), (0, 1)):
        caplog.clear()
        read_openmm(write_system(tmp_path, nonbonded(), bond.format(periodic, bonds)), where)
        assert len(caplog.messages) == told
    assert caplog.messages[0].startswith(
        "force 1 (HarmonicBondForce): particles 0 and 4 are 3.1 nm apart in these positions and 0.1 nm to the nearest "
        "image, which is what acts here; OpenMM takes the first unless setUsesPeriodicBoundaryConditions(True)"
    )
