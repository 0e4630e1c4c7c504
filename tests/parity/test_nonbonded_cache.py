"""Compiled kernels are found again by the next process, and variants are chosen as documented."""

import os
import subprocess
import sys

import numpy as np
import pytest

from nonbonded_reference import BOXES, lj_table, make_system, settings
from pulsemd.base.cache import cache_folder
from pulsemd.base.errors import ConfigError
from pulsemd.forcefield.nonbonded import build_table
from pulsemd.kernels.nonbonded.generate import load_pair_kernel, module_source
from pulsemd.kernels.nonbonded.launch import PairForces
from pulsemd.kernels.nonbonded.parameters import kernel_combination
from pulsemd.kernels.nonbonded.spec import KernelSpec

SPEC = KernelSpec("fast", "geometric", "relative", True, False)
LOAD = """
import numpy as np, sys
sys.path.insert(0, sys.argv[1])
from nonbonded_reference import *
from pulsemd.forcefield.nonbonded import build_table
from pulsemd.base.errors import ConfigError
from pulsemd.kernels.nonbonded.generate import load_pair_kernel
system = make_system(BOXES["orthorhombic"])
forces = PairForces(lj_table("geometric"), settings(), "fast")
n = system.n
forces.search(system.x, system.box, n, system.type_index, system.charge, *system.exclusions(np.arange(n)),
              system.x, np.full(n, 7, np.uint8), (False, False, False), 0.85)
forces.local(system.x, np.zeros((n, 3), np.float32))
print(*(sum(getattr(load_pair_kernel(forces.variant).stats, k).values()) for k in ("cache_hits", "cache_misses")))
"""


def test_kernel_compiled_by_one_process_is_loaded_by_the_next(tmp_path):
    outputs = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", LOAD, os.path.dirname(__file__)],
            env={**os.environ, "PULSEMD_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=250,
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout.split())
    assert outputs == [["0", "1"], ["1", "0"]]
    assert len(list((tmp_path / "kernels").glob("*.py"))) == 1


def test_cache_folder_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("PULSEMD_CACHE_DIR", str(tmp_path))
    assert cache_folder("kernels") == tmp_path / "kernels"


def test_cache_folder_that_cannot_be_written_is_reported(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PULSEMD_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="PULSEMD_CACHE_DIR"):
        load_pair_kernel.__wrapped__(SPEC)


def test_generated_module_is_python_and_names_its_variant():
    source = module_source(SPEC)
    compile(source, "generated", "exec")
    assert repr(SPEC) in source


@pytest.mark.parametrize(
    ("precision", "scale", "displacement"),
    [("fast", 2.5, "relative"), ("fast", 1.0, "pairwise"), ("reproducible", 2.5, "pairwise")],
)
def test_displacements_are_relative_only_where_no_pair_can_be_lost(precision, scale, displacement):
    system = make_system(BOXES["orthorhombic"] * scale, spacing=0.5)
    forces = PairForces(lj_table("geometric"), settings(), precision)
    n = system.n
    none = np.zeros(n + 1, np.int64), np.zeros(0, np.int32)
    home = np.full(n, 7, np.uint8)
    forces.search(
        system.x, system.box, n, system.type_index, system.charge, *none, system.x, home, (False,) * 3, 0.85
    )
    assert forces.variant.displacement == displacement


def test_lorentz_berthelot_with_one_sigma_uses_the_geometric_kernel():
    water = build_table(("O", "H"), 2, (0.316, 0.1), (0.65, 0.0), {})
    assert kernel_combination(water) == "geometric"
    assert kernel_combination(lj_table("lorentz-berthelot")) == "lorentz-berthelot"
