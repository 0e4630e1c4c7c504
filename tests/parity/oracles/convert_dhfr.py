"""Convert the DHFR benchmark of openmmtools 0.27.0 (data/dhfr/JAC.prmtop and .inpcrd) with ParmEd 4.3.1.

usage: convert_dhfr.py JAC.prmtop JAC.inpcrd DATA_DIRECTORY/molecules

Writes ``dhfr.top.gz`` and ``dhfr.gro.gz``: comments and velocities are left out, positions have three decimals.
"""

from __future__ import annotations

import gzip
import re
import sys
import tempfile
from pathlib import Path

import parmed

ATOMIC_NUMBERS = {"H": 1, "C": 6, "N": 7, "O": 8, "S": 16}
"""ParmEd guesses elements by mass, wrongly where hydrogens are heavy; OpenMM finds hydrogens by these numbers."""

TITLE = "DHFR (Joint Amber-CHARMM benchmark) in TIP3P water, AMBER, hydrogens of 3.024 amu"


def main(prmtop: str, inpcrd: str, data: Path) -> None:
    system = parmed.load_file(prmtop, inpcrd)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        system.save(str(folder / "dhfr.top"))
        system.save(str(folder / "dhfr.gro"), precision=3)
        rows = [
            " ".join(line.split(";")[0].split()) for line in (folder / "dhfr.top").read_text().splitlines()
        ]
        text = "\n".join(filter(None, rows)).replace("Generic title", TITLE).replace("\nsystem1", "\nDHFR")
        text = re.sub(r"(?m)^((\w)\S*) \d+(?= \S+ \S+ A )", lambda m: f"{m[1]} {ATOMIC_NUMBERS[m[2]]}", text)
        (data / "dhfr.top.gz").write_bytes(
            gzip.compress(f"; made by convert_dhfr.py\n{text}\n".encode(), 9, mtime=0)
        )
        lines = (folder / "dhfr.gro").read_text().splitlines()
        atoms = [line[:44] for line in lines[2:-1]]
        text = "\n".join(["DHFR in water, positions of JAC.inpcrd", lines[1], *atoms, lines[-1]])
        (data / "dhfr.gro.gz").write_bytes(gzip.compress(f"{text}\n".encode(), 9, mtime=0))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
