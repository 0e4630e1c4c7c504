"""Commands that the scripts in this folder run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def call(folder: Path, *command: str, answer: str = "") -> str:
    """Run a command in a folder and end if it fails; its standard output."""
    done = subprocess.run(command, cwd=folder, input=answer, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    return done.stdout
