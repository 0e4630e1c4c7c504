"""The example of a user without molecules runs as its page says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "halo_stencil.py"


@pytest.mark.parametrize(
    ("ranks", "transport", "plan"),
    [(3, "shmem", "staged"), (3, "loopback", "direct"), (7, "loopback", "staged")],
)
def test_stencil_of_ten_cells_on_any_ranks_equals_one_array(ranks: int, transport: str, plan: str) -> None:
    command = [sys.executable, str(EXAMPLE), "--ranks", str(ranks), "--transport", transport, "--plan", plan]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "bitwise equal" in done.stdout
