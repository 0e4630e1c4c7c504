"""Energies and forces of the systems of molecules of the parity tests on a device, against the CPU."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import open_transport
from systems import load

sys.path.append(str(Path(__file__).resolve().parent.parent / "parity"))
from molecules import MOLECULES, molecule_files

pytestmark = pytest.mark.gpu


@pytest.fixture(
    scope="module", params=[name for name in MOLECULES if name not in ("water-ethanol", "peptide")]
)
def system(request, tmp_path_factory):
    """DHFR and the others that are not bundled; `test_engine_runs` has those."""
    files = molecule_files(request.param, tmp_path_factory.mktemp(request.param))
    return load(files.configuration, files.topology, files.parameters)


@pytest.fixture(scope="module")
def reference(system):
    return single_point(system, "reproducible", "cpu")


def single_point(system, precision, device):
    options = RunOptions(precision=precision, device=device)
    return Simulation(open_transport("loopback"), system, options).evaluate()


@pytest.mark.parametrize("precision", ["fast", "reproducible"])
def test_energies_of_molecules_on_device_equal_cpu(device, system, reference, precision):
    mine = single_point(system, precision, "cuda")
    assert mine.keys() == reference.keys()
    for term in reference.keys() - {"pressure", "total", "conserved"}:
        assert mine[term] == pytest.approx(reference[term], rel=1e-5, abs=2e-3), term
    assert np.isfinite(mine["pressure"])
    assert mine["pressure"] == pytest.approx(reference["pressure"], abs=1.0)
