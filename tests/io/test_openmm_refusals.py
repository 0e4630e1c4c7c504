"""What the reader of OpenMM's systems refuses: each names the force, what is wrong, and the remedy."""

# ruff: noqa: E501 (one case on one line)
from __future__ import annotations

import pytest

from openmm_files import custom, custom_pairs, nonbonded, positions, read, write_integrator, write_system
from pulsemd.base.errors import InputError
from pulsemd.io.openmm import read_openmm

RUN_ONLY = '<Force type="{0}" name="{0}" frequency="25" pressure="1" temperature="300"/>'
EXCEPTION = '<Exception p1="0" p2="1" q="0" sig="0.3" eps="0"/>'
MAP = '<Map size="{n}">' + '<Energy e="0"/>' * 9 + "</Map>"


def bare(kind, inside=""):
    return f'<Force type="{kind}" name="{kind}">{inside}</Force>'


def cmap(maps, atoms="0 1 2 3 1 2 3 4"):
    names = ("a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4")
    torsion = " ".join(f'{name}="{atom}"' for name, atom in zip(names, atoms.split(), strict=True))
    return bare("CMAPTorsionForce", f'<Maps>{maps}</Maps><Torsions><Torsion {torsion} map="0"/></Torsions>')


CASES = {
    "gayberne": ((bare("GayBerneForce"), nonbonded()), "force 0 (GayBerneForce): GayBerneForce is not supported; supported are HarmonicBondForce"),
    "named": (('<Force type="CustomCVForce" name="bias"/>',), "force 0 (CustomCVForce 'bias'): CustomCVForce is not supported"),
    "barostat": ((nonbonded(), RUN_ONLY.format("MonteCarloBarostat")), "force 1 (MonteCarloBarostat): changes of the volume by Monte Carlo are not supported; a barostat with the same ensemble is C-rescale: add pcoupl='c-rescale'"),
    "membrane": ((nonbonded(), RUN_ONLY.format("MonteCarloMembraneBarostat")), "force 1 (MonteCarloMembraneBarostat): changes of the volume by Monte Carlo are not supported; a barostat with the same ensemble is C-rescale: add pcoupl='c-rescale'"),
    "flexible": ((RUN_ONLY.format("MonteCarloFlexibleBarostat"),), "force 0 (MonteCarloFlexibleBarostat): changes of the angles of the box are not supported; use MonteCarloAnisotropicBarostat"),
    "two barostats": ((nonbonded(), RUN_ONLY.format("MonteCarloBarostat"), RUN_ONLY.format("MonteCarloMembraneBarostat")), "force 2 (MonteCarloMembraneBarostat): force 1 (MonteCarloBarostat) changes the volume already; keep one"),
    "implicit": ((bare("GBSAOBCForce"),), "force 0 (GBSAOBCForce): implicit solvent is not supported; build the System with water"),
    "drude": ((bare("DrudeForce"),), "force 0 (DrudeForce): polarizable force fields are not supported; build the System with fixed charges"),
    "amoeba after its bonds": ((custom("Bond", "k*r^4+k*r", ["k"], [((0, 1), [1])]), bare("AmoebaMultipoleForce")), "force 1 (AmoebaMultipoleForce): polarizable force fields are not supported"),
    "amoeba": ((bare("AmoebaMultipoleForce"),), "force 0 (AmoebaMultipoleForce): polarizable"),
    "andersen": ((nonbonded(), RUN_ONLY.format("AndersenThermostat")), "force 1 (AndersenThermostat): collisions with a heat bath are not supported; a thermostat with the same ensemble is v-rescale"),
    "two removers": ((nonbonded(), *[RUN_ONLY.format("CMMotionRemover")] * 2), "force 2 (CMMotionRemover): force 1 (CMMotionRemover) is there already; keep one"),
    "no cutoff": ((nonbonded(method=0),), "force 0 (NonbondedForce): the method NoCutoff is not supported; give the system a box and use PME or CutoffPeriodic"),
    "not periodic": ((nonbonded(method=1),), "the method CutoffNonPeriodic is not supported"),
    "ewald": ((nonbonded(method=3),), "the method Ewald is not supported; use PME"),
    "ljpme": ((nonbonded(method=5),), "the method LJPME is not supported; use PME, with the long-range correction"),
    "direct space": ((nonbonded(method=4, includeDirectSpace=0),), "pairs without direct space are not supported"),
    "two nonbonded": ((nonbonded(), nonbonded()), "force 1 (NonbondedForce): force 0 (NonbondedForce) gives particles charges already"),
    "no pairs": ((bare("HarmonicBondForce"),), "the System has no NonbondedForce or CustomNonbondedForce"),
    "offsets": ((nonbonded().replace("<Particles>", '<ParticleOffsets><Offset/></ParticleOffsets><Particles>'),), "force 0 (NonbondedForce): ParticleOffset 0 makes parameters depend on a global parameter"),
    "switch": ((nonbonded(useSwitchingFunction=1, switchingDistance=1.2),), "its switching distance 1.2 nm is not below the cut-off 1 nm"),
    "cut-offs": ((nonbonded(), custom_pairs("1/r^12", cutoff=0.9)), "force 1 (CustomNonbondedForce): its cut-off is 0.9 nm, that of force 0 (NonbondedForce) 1 nm"),
    "exclusions": ((nonbonded(exceptions=EXCEPTION), custom_pairs("1/r^12")), "force 1 (CustomNonbondedForce): its excluded pairs differ from those of force 0 (NonbondedForce): particles 0 and 1 are in one only"),
    "switches": ((nonbonded(), custom_pairs("1/r^12", useSwitchingFunction=1, switchingDistance=0.8)), "force 1 (CustomNonbondedForce): its switching function differs from that of force 0"),
    "pair method": ((custom_pairs("1/r^12", method=0),), "force 0 (CustomNonbondedForce): the method NoCutoff is not supported"),
    "groups": ((custom_pairs("1/r^12", extra="<InteractionGroups><InteractionGroup/></InteractionGroups>"),), "interaction groups are not supported"),
    "computed": ((custom_pairs("1/r^12", extra="<ComputedValues><Value/></ComputedValues>"),), "computed values are not supported"),
    "tabulated": ((custom_pairs("f(r)", extra='<Functions><Function name="f" type="Continuous1DFunction"/></Functions>'),), "the tabulated function 'f' is a Continuous1DFunction, which is not supported; tables over types are"),
    "table entry": ((custom_pairs("f(t1)/r^12", ["t"], [[3]] * 8, extra='<Functions><Function name="f" type="Discrete1DFunction"><Values><Value v="1"/></Values></Function></Functions>'),), "f() is asked for entry 3 of 1; correct the parameters"),
    "sine": ((custom_pairs("sin(r)"),), "force 0 (CustomNonbondedForce): its expression 'sin(r)' has sin() of the distance, which is not supported; supported are"),
    "unknown name": ((custom_pairs("exp(-r*q)"),), "its expression 'exp(-r*q)' uses 'q', which is no parameter of it"),
    "unreadable": ((custom_pairs("1/(r^12"),), "its expression '1/(r^12' cannot be read: ')' is missing"),
    "exponent": ((custom_pairs("exp(r)*r^(n1+n2)", ["n"], [[k] for k in range(8)]),), "has an exponent that is not one number"),
    "third power": ((custom_pairs("exp(r)*r^0.3"),), "exponents must be whole or half numbers"),
    "asymmetric": ((custom_pairs("exp(-a1*r)", ["a"], [[k] for k in range(8)]),), "changes when the particles are swapped; combine their parameters symmetrically"),
    "asymmetric powers": ((custom_pairs("a1/r^12", ["a"], [[k] for k in range(8)]),), "changes when the particles are swapped"),
    "long range": ((custom_pairs("exp(-r)+1/r^3", useLongRangeCorrection=1),), "its potential falls off too slowly for a long-range correction"),
    "two potentials": ((custom_pairs("exp(-r)"), custom_pairs("exp(-2*r)")), "force 1 (CustomNonbondedForce): force 0 (CustomNonbondedForce) has a potential of its own already"),
    "bond": ((nonbonded(), custom("Bond", "k*exp(r)", ["k"], [((0, 1), [1])])), "force 1 (CustomBondForce): its expression 'k*exp(r)' is not supported: exp of something that depends"),
    "quartic bond": ((nonbonded(), custom("Bond", "k*r^4+k*r", ["k"], [((0, 1), [1])])), "its expression 'k*r^4+k*r' is not supported: neither known powers of the distance nor a harmonic term"),
    "negative square": ((nonbonded(), custom("Bond", "k*(r^2+1)^2", ["k"], [((0, 1), [1])])), "its expression 'k*(r^2+1)^2' has its minimum at a negative square of the distance"),
    "sixth power": ((nonbonded(), custom("Bond", "k*r^6", ["k"], [((0, 1), [1])])), "neither known powers of the distance"),
    "shifted bond": ((nonbonded(), custom("Bond", "k*(r-1)^2+5", ["k"], [((0, 1), [1])])), "nor a harmonic term"),
    "angle": ((nonbonded(), custom("Angle", "k*sin(theta)", ["k"], [((0, 1, 2), [1])])), "force 1 (CustomAngleForce): its expression 'k*sin(theta)' is not supported"),
    "cosine angle": ((nonbonded(), custom("Angle", "k*cos(theta)", ["k"], [((0, 1, 2), [1])])), "its expression 'k*cos(theta)' is not supported: neither known powers of the angle"),
    "torsion name": ((nonbonded(), custom("Torsion", "q*theta", [], [((0, 1, 2, 3), [])])), "its expression 'q*theta' uses 'q', which is no parameter of it"),
    "torsion": ((nonbonded(), custom("Torsion", "k*(theta-t)^2", ["k", "t"], [((0, 1, 2, 3), [1, 3.14])])), "is not periodic and has an angle of 179.909 degrees, near which it jumps; write k*min"),
    "cosine torsion": ((nonbonded(), custom("Torsion", "k*cos(8*theta)", ["k"], [((0, 1, 2, 3), [1])])), "its expression 'k*cos(8*theta)' is not supported"),
    "external": ((nonbonded(), custom("External", "k*abs(x)", ["k"], [((0,), [1])])), "force 1 (CustomExternalForce): its expression 'k*abs(x)' is not supported: abs of something that depends"),
    "external coupled": ((nonbonded(), custom("External", "k*(x-y)^2", ["k"], [((0,), [1])])), "its expression 'k*(x-y)^2' is not supported: no restraint of a position; known are k*periodicdistance(x,y,z,x0,y0,z0)^2,"),
    "external linear": ((nonbonded(), custom("External", "k*x", ["k"], [((0,), [1])])), "its expression 'k*x' is not supported: no restraint of a position; known are k*periodicdistance(x,y,z,x0,y0,z0)^2,"),
    "external shifted": ((nonbonded(), custom("External", "k*((x-1)^2+3)", ["k"], [((0,), [1])])), "no restraint of a position; known are"),
    "external power": ((nonbonded(), custom("External", "k*periodicdistance(x,y,z,0,0,0)^4", ["k"], [((0,), [1])])), "is not supported: another power than the square; known are"),
    "external constant": ((nonbonded(), custom("External", "periodicdistance(0,0,0,1,1,1)^4", [], [((0,), [])])), "is not supported: no restraint of a position"),
    "pairs apart": ((nonbonded(), custom("Bond", "step(1-r)/r^12", [], [((0, 1), [])])), " nm, which is supported for pairs alone that never are as far apart: 1-4 pairs, excluded from pair forces, up to 0.8 nm; particles [0, 1] are none"),
    "pairs that end": ((nonbonded(exceptions=EXCEPTION), custom("Bond", "step(0.6-r)/r^12", [], [((0, 1), [])])), "particles [0, 1] are none; use an expression without step"),
    "external walls": ((nonbonded(), custom("External", "max(0,abs(d-2)-1)^2; d=periodicdistance(x,y,z,0,0,0)", [], [((0,), [])])), "is not supported: walls on both sides"),
    "external name": ((nonbonded(), custom("External", "max(0,periodicdistance(x,y,z,0,0,0)-q)^2", [], [((0,), [])])), "uses 'q', which is no parameter of it"),
    "cubic wall": ((nonbonded(), custom("Bond", "max(0,r-1)^3", [], [((0, 1), [])])), "'max(0,r-1)^3' is not supported: another power than the square; known are k*(r-r0)^2, k*max(0,r-r0)^2"),
    "unequal walls": ((nonbonded(), custom("Bond", "max(0,r-1)^2+3*min(0,r-0.5)^2", [], [((0, 1), [])])), "is not supported: no flat-bottomed well"),
    "two externals": ((nonbonded(), *[custom("External", "periodicdistance(x,y,z,0,0,0)^2", [], [((0,), [])])] * 2), "force 2 (CustomExternalForce): it restrains particle 0 more than once, or another force does; make one restraint of them"),
    "restrained twice": ((nonbonded(), custom("External", "(x-x0)^2", ["x0"], [((3,), [1]), ((2,), [1]), ((3,), [2])])), "force 1 (CustomExternalForce): it restrains particle 3 more than once, or another force does; make one restraint of them"),
    "cosine of no angle": ((nonbonded(), custom("Angle", "k*(cos(theta)-c)^2", ["k", "c"], [((0, 1, 2), [1, 1.5])])), "has its minimum where the cosine is below -1 or above 1"),
    "negative depth": ((nonbonded(particle='<Particle q="0" sig="0.3" eps="-0.5"/>'),), "force 0 (NonbondedForce): particle 0 has a negative sigma or epsilon"),
    "no number": ((nonbonded(particle='<Particle q="0" sig="x" eps="0.5"/>'),), "force 0 (NonbondedForce): Particle 0: sig is x, not a number"),
    "absent number": ((nonbonded(particle='<Particle q="0" sig="0.3"/>'),), "Particle 0: eps is nothing, not a number"),
    "infinite": ((nonbonded(particle='<Particle q="inf" sig="0.3" eps="0"/>'),), "Particle 0: q is inf, not a number"),
    "cut-off": ((nonbonded(cutoff="wide"),), "force 0 (NonbondedForce): Force 0: cutoff is wide, not a number"),
    "too few particles": ((nonbonded(7),), "force 0 (NonbondedForce): it has 7 particles, the System 8; add every particle to it"),
    "too few custom particles": ((custom_pairs("a1*a2/r^6", ["a"], [[1]] * 7),), "force 0 (CustomNonbondedForce): it has 7 particles, the System 8"),
    "no such particle": ((nonbonded(exceptions=EXCEPTION.replace('p2="1"', 'p2="8"')),), "excluded pair of particle 8: there are 8, counted from 0"),
    "map apart": ((nonbonded(), cmap(MAP.format(n=3), "0 1 2 3 4 5 6 7")), "map term 0 is over the dihedrals [0, 1, 2, 3] and [4, 5, 6, 7], which do not share three atoms"),
    "odd map": ((nonbonded(), cmap(MAP.format(n=3))), "its maps have 3 points, which leaves none at -180 degrees; use an even number"),
    "map sizes": ((nonbonded(), cmap(MAP.format(n=4) + MAP.format(n=6))), "its maps have different sizes: [4, 6]"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_force_that_is_not_supported_is_refused_by_name(tmp_path, case):
    forces, message = CASES[case]
    with pytest.raises(InputError) as refused:
        read(tmp_path, *forces)
    assert str(refused.value).startswith(f"{tmp_path / 'system.xml'}: ")
    assert message in str(refused.value)


PARTICLE = '<Particle mass="12"/>'
SITE = '<LocalCoordinatesSite p1="0" p2="1" p3="2" pos1="0.1" pos2="0.2" pos3="{z}" wo1="{o}" wo2="{p}" wo3="0" wx1="-1" wx2="1" wx3="{x3}" wy1="-1" wy2="0" wy3="1"/>'  # fmt: skip


@pytest.mark.parametrize(
    ("particles", "constraints", "message"),
    [
        ([PARTICLE, '<Particle mass="0"/>'], (), "particle 1 has no mass and is no virtual site; frozen particles are not supported: give it a mass and hold it"),
        ([PARTICLE, '<Particle mass="0"><TwoParticleAverageSite p1="0" p2="0" w1="0.5" w2="0.5"/></Particle>'], ((0, 1, 0.1),), "constraint 0 of particles [0, 1]: a constrained particle has no mass"),
        ([PARTICLE] * 3 + [f'<Particle mass="0">{SITE.format(z=0.1, o=1, p=0, x3=-1)}</Particle>'], (), "virtual site of particle 3: LocalCoordinatesSite with these weights is not supported"),
        ([PARTICLE] * 3 + [f'<Particle mass="0">{SITE.format(z=0, o=0.5, p=0.5, x3=0)}</Particle>'], (), "its origin must be one of its particles"),
        ([PARTICLE, '<Particle mass="0"><SymmetrySite/></Particle>'], (), "virtual site of particle 1: SymmetrySite"),
        ([PARTICLE, *(f'<Particle mass="0"><TwoParticleAverageSite p1="0" p2="{k}" w1="0.5" w2="0.5"/></Particle>' for k in (2, 1))], (), "virtual sites are constructed from each other in a circle"),
        ([], (), "the System has no particles"),
        ([PARTICLE, '<Particle mass="-2"/>'], (), "particle 1 has the mass -2; masses must not be negative"),
        ([PARTICLE, PARTICLE, '<Particle mass="1"><TwoParticleAverageSite p1="0" p2="1" w1="0.5" w2="0.5"/></Particle>'], (), "particle 2 is a virtual site with a mass; set it to 0"),
        ([PARTICLE, PARTICLE, '<Particle mass="0"><TwoParticleAverageSite p1="0" p2="1" w1="0.5" w2="0.6"/></Particle>'], (), "virtual site of particle 2: its weights add up to 1.1, not to 1"),
        ([PARTICLE, PARTICLE], ((0, 1, 0.1), (1, 0, 0.1)), "constraint 1 of particles [1, 0]: the pair is constrained already; keep one"),
        ([PARTICLE, PARTICLE], ((1, 1, 0.1),), "constraint 0 of particles [1, 1]: a particle is constrained to itself"),
        ([PARTICLE, PARTICLE], ((0, 1, 0),), "constraint 0 of particles [0, 1]: its distance is not positive"),
    ],
)  # fmt: skip
def test_particles_that_are_not_supported_are_refused_by_index(tmp_path, particles, constraints, message):
    with pytest.raises(InputError) as refused:
        read(tmp_path, nonbonded(len(particles)), particles=particles, constraints=constraints)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "attributes", "message"),
    [
        ("NoseHooverIntegrator", {"collisionFrequency": 1, "temperature": 300}, "the integrator NoseHooverIntegrator has a thermostat that is not supported; a thermostat with the same ensemble is v-rescale: add tcoupl='v-rescale'"),
        ("BrownianIntegrator", {"friction": 1, "temperature": 300}, "the integrator BrownianIntegrator is not supported; use VerletIntegrator"),
        ("VariableVerletIntegrator", {}, "the integrator VariableVerletIntegrator is not supported"),
        ("CustomIntegrator", {}, "the integrator CustomIntegrator is not supported"),
        ("CompoundIntegrator", {"stepSize": ""}, "the integrator CompoundIntegrator is not supported"),
        ("LangevinMiddleIntegrator", {"friction": 1, "temperature": 300, "integrationForceGroups": 6}, "force 0 (NonbondedForce): its group 0 is not among those that the integrator takes forces from; here all forces act; remove the force from the System, or"),
        ("NoseHooverIntegrator", {"hasSubsystemThermostats": 1}, "thermostats of parts of the system are not supported"),
    ],
)  # fmt: skip
def test_integrator_that_is_not_supported_is_refused_by_name(tmp_path, kind, attributes, message):
    with pytest.raises(InputError) as refused:
        read(tmp_path, nonbonded(), integrator=write_integrator(tmp_path, kind, **attributes))
    assert str(refused.value).startswith(
        (f"{tmp_path / 'integrator.xml'}: ", f"{tmp_path / 'system.xml'}: force 0")
    )
    assert message in str(refused.value)


def test_files_that_are_something_else_are_refused(tmp_path):
    path = write_system(tmp_path, nonbonded())
    broken = tmp_path / "broken.xml"
    broken.write_text("<System>\n<oops")
    for source, message in (
        (broken, "broken.xml:2: is not XML"),
        (write_integrator(tmp_path), "holds a Integrator"),
        (tmp_path / "absent.xml", "absent.xml: cannot be read: No such file"),
    ):
        with pytest.raises(InputError, match=message):
            read_openmm(source, positions())
    with pytest.raises(InputError, match=r"positions: an array of shape \(8, 3\) is needed, not \(7, 3\)"):
        read_openmm(path, positions(7))
    path.write_text(
        path.read_text().replace('x="3"', 'x="0"').replace('y="3"', 'y="0"').replace('z="3"', 'z="0"')
    )
    with pytest.raises(InputError, match="there is no periodic box; give box="):
        read_openmm(path, positions())
