"""Objects of OpenMM in memory, where OpenMM is installed: the how-to page, units, the same as from XML."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pulsemd
from openmm_files import nonbonded, positions, write_integrator, write_system
from pulsemd.base.errors import InputError
from pulsemd.io.openmm import read_openmm

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how_to" / "openmm.md"
DATA = ROOT / "tests" / "parity" / "data" / "openmm"


def applied(script: str, change: str) -> str:
    """The script after a change: lines with - replaced by those with + of their part."""
    for part in change.split("...\n"):
        lines = part.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line.startswith("-"))
        assert script.count(old) == 1
        script = script.replace(old, "".join(line[1:] for line in lines if line.startswith("+")))
    return script


def test_script_of_the_how_to_page_runs_after_its_change(tmp_path):
    pytest.importorskip("openmm")
    text = PAGE.read_text(encoding="utf-8")
    script, report, go_on, to_xml, from_xml = re.findall(r"(?s)```python\n(.*?)```", text)[:5]
    (change,) = re.findall(r"(?s)```diff\n(.*?)```", text)
    with np.load(DATA / "dipeptide.npz") as archive:
        (tmp_path / "peptide.pdb").write_bytes(archive["topology"].tobytes())
    new = applied(script, change).replace("1000", "20")
    report = "simulation.minimize(emtol=2000)\n" + report.replace("1000", "20").replace("500", "10")
    with_openmm = re.sub(r"\nsimulation.step.*", "", script)
    ends = "\ns = simulation.settings\nprint(simulation.step, simulation.positions.shape, s.ref_t, s.tau_t)\n"
    for number, lines in enumerate(
        (
            new + ends,
            with_openmm + to_xml,
            "import pulsemd\n" + from_xml + ends,
            new + report + go_on + "print(simulation.run(2).step)",
        )
    ):
        path = tmp_path / f"script{number}.py"
        path.write_text(lines)
        done = subprocess.run([sys.executable, path], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        if number in (0, 2):
            expected = "20 (1630, 3) 300.0 1.0" if number == 0 else "0 (1630, 3) 300.0 0.5"
            assert done.stdout.strip() == expected
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["20", "30", "40", "42"]
    assert (tmp_path / "trajectory.dcd").stat().st_size // (12 * 1630) == 3


def test_objects_and_their_xml_give_the_same(tmp_path):
    openmm = pytest.importorskip("openmm")
    system, pairs = openmm.System(), openmm.NonbondedForce()
    pairs.setNonbondedMethod(pairs.CutoffPeriodic)
    for k in range(8):
        system.addParticle(12.0)
        pairs.addParticle(0.1 * k - 0.35, 0.3 + 1e-17, 1.0 / 3.0)
    system.addForce(pairs)
    path = tmp_path / "system.xml"
    path.write_text(openmm.XmlSerializer.serialize(system))
    context = openmm.Context(
        system, openmm.VerletIntegrator(0.002), openmm.Platform.getPlatformByName("Reference")
    )
    context.setPeriodicBoxVectors(*(3.5 * np.eye(3)))
    context.setPositions(positions())
    context.setVelocities(np.ones((8, 3)))
    state = context.getState(positions=True, velocities=True)
    (tmp_path / "state.xml").write_text(openmm.XmlSerializer.serialize(state))
    for found in (
        read_openmm(system, state, openmm.VerletIntegrator(0.002)),
        read_openmm(path, tmp_path / "state.xml", write_integrator(tmp_path)),
    ):
        np.testing.assert_array_equal(found.configuration.positions, positions())
        np.testing.assert_array_equal(found.configuration.velocities, np.ones((8, 3)))
        np.testing.assert_array_equal(found.configuration.box, 3.5 * np.eye(3))
        assert found.options["dt"] == 0.002
        assert found.topology.charge.tolist() == [0.1 * k - 0.35 for k in range(8)]
        assert found.table.epsilon.tolist() == [1.0 / 3.0]


def test_leap_frog_follows_the_one_of_openmm():
    openmm = pytest.importorskip("openmm")
    with np.load(DATA / "dipeptide.npz") as archive:
        system = openmm.XmlSerializer.deserialize(archive["system"].tobytes().decode())
        positions, box = archive["positions"].astype(float), archive["box"]
    integrator = openmm.VerletIntegrator(0.001)
    integrator.setConstraintTolerance(1e-10)
    context = openmm.Context(system, integrator, openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(positions)
    context.applyConstraints(1e-10)
    context.setVelocitiesToTemperature(300, 1)
    start = context.getState(positions=True, velocities=True)
    integrator.step(20)
    end = context.getState(positions=True).getPositions(asNumpy=True)
    options = {"device": "cpu", "continuation": True}
    with pulsemd.Simulation.from_openmm(system, start, integrator, **options) as simulation:
        away = simulation.run(20).positions - np.array(end.value_in_unit(openmm.unit.nanometer))
    away -= np.rint(away @ np.linalg.inv(box)) @ box
    assert np.abs(away).max() < 1e-6  # measured: 3e-8 nm


def test_flat_bottomed_wells_have_the_energies_of_openmm():
    openmm = pytest.importorskip("openmm")
    system, pairs = openmm.System(), openmm.NonbondedForce()
    pairs.setNonbondedMethod(pairs.CutoffPeriodic)
    bond = openmm.CustomBondForce("30*max(0, r-r0)^2")
    place = openmm.CustomExternalForce("50*max(0, periodicdistance(x, y, z, x0, 1, 1)-0.2)^2")
    torsion = openmm.CustomTorsionForce("70*max(0, min(a, 6.283185307179586-a)-0.3)^2; a=abs(theta-2.8)")
    bond.addPerBondParameter("r0")
    place.addPerParticleParameter("x0")
    for k in range(8):
        system.addParticle(12.0)
        pairs.addParticle(0.0, 0.1, 0.1)
        place.addParticle(k, [0.1 * k])
    for r0 in (0.3, 0.5, 0.9):
        bond.addBond(0, 3, [r0])
    torsion.addTorsion(0, 1, 3, 6, [])
    names = {"restraint_bond": bond, "flat_bottom": place, "dihedral_restraint": torsion}
    for group, force in enumerate((pairs, *names.values())):
        force.setForceGroup(group)
        system.addForce(force)
    system.setDefaultPeriodicBoxVectors(*(3.0 * np.eye(3)))
    where = positions() + 0.03 * np.sin(np.arange(24.0)).reshape(8, 3)
    reference = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), reference)
    context.setPositions(where)
    with pulsemd.Simulation.from_openmm(
        system, where, openmm.VerletIntegrator(0.001), device="cpu"
    ) as simulation:
        found = simulation.energies
    for group, name in enumerate(names, 1):
        expected = context.getState(energy=True, groups={group}).getPotentialEnergy()
        expected = expected.value_in_unit(openmm.unit.kilojoule_per_mole)
        assert expected > 0.5
        assert found[name] == pytest.approx(expected, rel=1e-5)


def test_quantities_have_their_units(tmp_path):
    unit = pytest.importorskip("openmm.unit")
    openmm = pytest.importorskip("openmm")
    path = write_system(tmp_path, nonbonded())
    rows = [openmm.Vec3(*row) for row in 10 * positions()]
    for given in (rows * unit.angstrom, [row * unit.angstrom for row in rows]):
        found = read_openmm(
            path,
            given,
            velocities=np.ones((8, 3)) * unit.angstrom / unit.femtosecond,
            box=np.eye(3) * 40 * unit.angstrom,
        )
        np.testing.assert_allclose(found.configuration.positions, positions(), rtol=1e-14)
        np.testing.assert_allclose(found.configuration.velocities, 100.0)
        np.testing.assert_allclose(found.configuration.box, 4.0 * np.eye(3))


def test_objects_in_the_place_of_others_are_refused_with_what_to_give(tmp_path):
    openmm, app, unit = (pytest.importorskip(f"openmm{name}") for name in ("", ".app", ".unit"))
    path = write_system(tmp_path, nonbonded())
    pdb = object.__new__(app.PDBFile)
    for given, options, message in (
        (pdb, {}, r"positions: PDBFile is no State; give its \.positions"),
        (openmm.System(), {}, "positions: System is no array of numbers"),
        (positions() * unit.kelvin, {}, 'positions: Quantity .* "kelvin" is not compatible with'),
        (positions(), {"names": pdb}, r"topology: PDBFile is no openmm\.app\.Topology; give its \.topology"),
    ):
        with pytest.raises(InputError, match=message):
            read_openmm(path, given, **options)


def test_object_that_openmm_cannot_write_is_refused():
    pytest.importorskip("openmm")
    with pytest.raises(
        InputError, match=r"int is neither a path of an XML file nor a System that OpenMM can write"
    ):
        read_openmm(3, positions())


def test_object_without_openmm_is_refused_with_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "openmm", None)
    with pytest.raises(
        InputError, match=r"objects of OpenMM need the package openmm \(pip install pulsemd\[openmm\]\)"
    ):
        read_openmm(3, positions())


def test_xml_is_read_without_openmm(tmp_path):
    path = write_system(tmp_path, nonbonded())
    code = (
        "import sys, numpy; sys.modules['openmm'] = None\n"
        "from pulsemd.io.openmm import read_openmm\n"
        f"print(read_openmm({str(path)!r}, numpy.zeros((8, 3))).topology.n_atoms)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "8", done.stderr
