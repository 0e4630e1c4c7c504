"""Scripts of users that name themselves to `launch`: started once, with their own classes."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

BOUND = 60.0
needs_mpi = pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs mpi4py and mpirun or mpiexec")


def run_script(script: Path, text: str) -> subprocess.CompletedProcess[str]:
    """A program of a user."""
    script.write_text(text)
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, timeout=BOUND
    )


def test_script_that_starts_ranks_when_they_import_it_is_refused(tmp_path: Path) -> None:
    done = run_script(
        tmp_path / "unguarded.py",
        "from pulsemd.halo import launch\n"
        "def work(transport, payload):\n    return 1\n"
        "launch(1, 'unguarded:work')\n",
    )
    assert done.returncode == 1
    assert "imports 'unguarded', and so without end; put the call" in done.stderr


SCRIPT = """
from dataclasses import dataclass
from pulsemd.halo import launch

@dataclass
class Settings:
    steps: int

class Diverged(Exception):
    pass

def work(transport, settings):
    if settings.steps > 5:
        raise Diverged("after 5 steps")
    return Settings(settings.steps + 1)

if __name__ == "__main__":
    print(launch(2, "itself:work", Settings(3), TRANSPORT) == Settings(4))
    try:
        launch(2, "itself:work", Settings(6), TRANSPORT)
    except Diverged as error:
        print(error)
"""


@pytest.mark.parametrize(
    "transport", ["shmem", "loopback", pytest.param("mpi", marks=[pytest.mark.mpi, needs_mpi])]
)
def test_script_that_names_itself_gives_and_gets_its_own_classes(tmp_path: Path, transport: str) -> None:
    done = run_script(tmp_path / "itself.py", SCRIPT.replace("TRANSPORT", repr(transport)))
    assert done.stdout == "True\nafter 5 steps\n", done.stderr


def test_payload_of_a_class_that_ranks_cannot_import_is_refused(tmp_path: Path) -> None:
    text = SCRIPT.replace("TRANSPORT", "'shmem'").replace("itself:work", "math:fmod")
    done = run_script(tmp_path / "itself.py", text)
    assert "a rank cannot read the payload" in done.stderr
    assert "define its classes in 'math' or in another module" in done.stderr
