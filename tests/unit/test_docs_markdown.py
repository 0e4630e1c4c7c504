"""What the pages say can be done: links lead somewhere, Python of README and of the explanations runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_markdown_relative_links_exist(page):
    text = re.sub(r"(?s)```.*?```", "", page.read_text(encoding="utf-8"))
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    missing = [link for link in links if "://" not in link and link and not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", ["decomposition", "pair_kernels"])
def test_python_of_an_explanation_runs_as_it_stands(page):
    text = (ROOT / "docs" / "explanation" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?s)```python\n(.*?)```", text)
    assert blocks
    for block in blocks:
        exec(block, {})


def test_readme_halo_example_fills_and_sums_ghosts():
    blocks = re.findall(r"(?s)```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert blocks
    for block in blocks:
        names: dict = {}
        exec(block.replace("halo.reverse()", "ghosts = field[plan.n_owned :].copy(); halo.reverse()"), names)
        plan, cells = names["plan"], names["cells"]
        assert plan.n_local > plan.n_owned
        assert (names["ghosts"][:, 0] == cells[plan.n_owned :, 0] % 16).all()
