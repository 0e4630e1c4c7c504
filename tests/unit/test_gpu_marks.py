"""`pytest -m gpu` runs all that needs a device."""

from __future__ import annotations

from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parents[1] / "gpu").glob("test_*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_for_a_gpu_are_marked(path: Path) -> None:
    text = path.read_text()
    marked = text.count("@pytest.mark.gpu") >= text.count("\ndef test_")
    assert marked or "pytestmark = pytest.mark.gpu" in text or "pytestmark = [pytest.mark.gpu" in text
