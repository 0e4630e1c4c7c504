"""The kernel of the page on exchanges between GPUs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from pulsemd.device.program import ARCHITECTURES, CudaProgram, compile_program

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how_to" / "halo_without_md.md"


def test_kernel_of_the_page_compiles_from_a_package_of_the_user(tmp_path, monkeypatch):
    pytest.importorskip("cuda.core")
    package = tmp_path / "package_of_the_page"
    package.mkdir()
    (package / "__init__.py").touch()
    (kernel,) = re.findall(r"(?s)```cpp\n(.*?)```", PAGE.read_text(encoding="utf-8"))
    (package / "swap.cu").write_text(kernel)
    monkeypatch.syspath_prepend(tmp_path)
    program = CudaProgram(package.name, "swap.cu", (("NETWORK", 0),), headers=("pulsemd.halo.device",))
    for architecture in ARCHITECTURES:
        assert compile_program(program, architecture)
    sys.modules.pop(package.name, None)
