"""Shared by all tests: the command as users run it, in processes of its own; generated examples, the same each time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

with suppress(ImportError):  # tests on a device do without it
    from hypothesis import settings

    settings.register_profile("same", deadline=None, derandomize=True)
    settings.load_profile("same")


class Command:
    """Runs ``pulsemd`` in a directory and returns the finished process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *words: object, env: dict[str, str] | None = None, timeout: float = 250):
        return subprocess.run(
            [sys.executable, "-m", "pulsemd.cli.main", *map(str, words)],
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def summary(self, *words: object, env: dict[str, str] | None = None, timeout: float = 250) -> dict:
        """The JSON object of a run that must succeed."""
        done = self(*words, "--json", env=env, timeout=timeout)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def pulsemd(tmp_path) -> Command:
    return Command(tmp_path)


def pytest_terminal_summary(terminalreporter) -> None:
    """Say how many tests were skipped for each reason."""
    skipped = terminalreporter.stats.get("skipped", [])
    for reason, count in Counter(report.longrepr[2] for report in skipped).most_common():
        terminalreporter.write_line(f"{reason} ({count} tests)")
