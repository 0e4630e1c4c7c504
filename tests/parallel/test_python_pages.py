"""The tutorial of the Python API and its example run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(script: Path, *arguments: str) -> str:
    done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_python_of_the_page_on_minimisation_runs(tmp_path):
    page = (ROOT / "docs" / "how_to" / "minimise.md").read_text(encoding="utf-8")
    script = tmp_path / "minimise.py"
    script.write_text("\n".join(re.findall(r"(?s)```python\n(.*?)```", page)))
    converged, _, max_force = run(script).split()[:3]
    assert converged == "True"
    assert float(max_force) < 2000


def test_tutorial_of_the_python_api_runs_from_top_to_bottom(tmp_path):
    page = (ROOT / "docs" / "tutorials" / "python_api.md").read_text(encoding="utf-8")
    script = tmp_path / "tutorial.py"
    script.write_text("\n".join(re.findall(r"(?s)```python\n(.*?)```", page)))
    lines = run(script).splitlines()
    assert "2 rank(s) as" in lines[0]
    assert lines[1] == "50 0.1"
    assert lines[2] == "(3000, 3)"
    assert lines[5] == "11 5"  # steps 50, 60, ... 150, and 50, 75, ... 150


@pytest.mark.slow
def test_custom_potential_example_prints_both_potentials():
    rows = run(ROOT / "examples" / "custom_potential.py", "--steps", "50").splitlines()
    assert [row.split("lj")[0].strip() for row in rows] == ["Lennard-Jones", "soft core"]
