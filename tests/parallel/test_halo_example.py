"""The example of a user without molecules runs as its page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pulsemd.halo import Transport, launch, plan_from_ids

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "halo_stencil.py"


@pytest.mark.parametrize(
    ("ranks", "transport", "plan"),
    [(3, "shmem", "staged"), (3, "loopback", "direct"), (7, "loopback", "staged")],
)
def test_stencil_of_ten_cells_on_any_ranks_equals_one_array(ranks: int, transport: str, plan: str) -> None:
    command = [sys.executable, str(EXAMPLE), "--ranks", str(ranks), "--transport", transport, "--plan", plan]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "bitwise equal" in done.stdout


@pytest.mark.parametrize(("ranks", "transport", "particles"), [(3, "shmem", 300), (4, "loopback", 7)])
def test_particles_that_change_their_rank_equal_one_array(ranks: int, transport: str, particles: int) -> None:
    program = EXAMPLE.with_name("halo_particles.py")
    words = ["--ranks", str(ranks), "--transport", transport, "--particles", str(particles)]
    done = subprocess.run([sys.executable, str(program), *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "bitwise equal" in done.stdout
    if particles == 300:
        assert not re.search(r"\b0 of 300", done.stdout)


def test_plan_and_start_of_the_page_run_as_they_stand(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how_to" / "halo_standalone.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?s)```python\n(.*?)```", page)
    script = tmp_path / "page.py"
    words = ("cartesian_plan", "launch", "places")
    wanted = [block for block in blocks if any(word in block for word in words)]
    script.write_text("\n".join([*wanted, "print(plan.n_owned, result.shape, block.shape)"]))
    (tmp_path / "halo_stencil.py").write_text(EXAMPLE.read_text(encoding="utf-8"))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.stdout == "36 (10, 12) (5, 14)\n", done.stderr


def sum_over_faces(transport: Transport, payload: None) -> float:
    """A mesh of 200 cells with random owners and faces; what a forward and a reverse exchange leave, checked by id."""
    random = np.random.default_rng(5)
    owner, faces = random.integers(0, transport.size, 200), random.integers(0, 200, (600, 2))
    owned = np.flatnonzero(owner == transport.rank)
    touched = faces[(owner[faces] == transport.rank).any(axis=1)]
    plan, ids = plan_from_ids(transport, owned, np.setdiff1d(touched, owned))
    rows = transport.allocate("cells", max(transport.allgather(plan.n_local)), 1, "float64")
    halo = transport.channel(plan, rows)
    rows[: plan.n_owned, 0] = owned
    halo.forward()
    assert (rows[: plan.n_local, 0] == ids).all()
    rows[: plan.n_owned], rows[plan.n_owned :] = 0.0, 1.0
    halo.reverse()
    total = transport.reduce(2, "float64").sum(
        np.array([rows[: plan.n_owned].sum(), plan.n_local - plan.n_owned])
    )
    assert total[0] == total[1]
    return float(total[0])


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_unstructured_mesh_by_ids_gets_the_rows_of_its_neighbours(ranks: int) -> None:
    assert (launch(ranks, f"{__name__}:sum_over_faces", transport="loopback") > 0) == (ranks > 1)
