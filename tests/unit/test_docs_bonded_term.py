"""The kernel of the how-to page on bonded terms is right: force, momentum and virial as those of the package."""

from __future__ import annotations

import importlib.util
import re
import textwrap
from pathlib import Path

import numpy as np
import pytest

from test_bonded_terms import BOXES, chain, evaluate

PAGE = Path(__file__).resolve().parents[2] / "docs/how_to/add_a_bonded_term.md"
HEAD = """from numba import njit
from pulsemd.kernels.bonded.geometry import add_energy, add_pair, add_virial, difference, dot
"""


def test_bonded_term_of_the_how_to_page_has_the_force_of_its_energy(tmp_path):
    (block,) = re.findall(r"(?s)```python\n(.*?)```", PAGE.read_text(encoding="utf-8"))
    (tmp_path / "page_kernel.py").write_text(HEAD + textwrap.dedent(block))
    spec = importlib.util.spec_from_file_location("page_kernel", tmp_path / "page_kernel.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    box, parameters = BOXES[1], [0.15, 2e6]
    x = chain(2, box, 10)
    f, sums = evaluate(module.quartic_bonds, x, box, 2, parameters)
    r = (x[::2] - x[1::2]).astype(float) * 2.0**-32 @ box
    gap = (r**2).sum(1) - 0.15**2
    assert sums[0] == pytest.approx((0.25 * 2e6 * gap**2).sum())
    np.testing.assert_allclose(f[::2], -2e6 * gap[:, None] * r, rtol=1e-9, atol=1e-6)
    assert np.array_equal(f[::2], -f[1::2])
    np.testing.assert_allclose(sums[2:].reshape(3, 3), r.T @ f[::2], atol=1e-6)
