"""Short runs: their input files, from those of the bundled water, the runs themselves, and their processes."""

from __future__ import annotations

import json
from pathlib import Path

from pulsemd.cli.main import main
from pulsemd.systems import system_files

COMMON = ["--precision", "reproducible", "--device", "cpu"]


def run(folder: Path, words: list[str], out: str, steps: int, *more: object) -> dict:
    """Run in this process; the summary. Flags in `more` win over `COMMON`."""
    flags = ["-o", str(folder / out), "--steps", str(steps), *COMMON, *map(str, more)]
    assert main(["run", *words, *flags]) == 0
    return json.loads((folder / out / "summary.json").read_text())


def write_input(folder: Path, name: str = "run", edit=None, **settings: object) -> list[str]:
    """Write ``NAME.gro`` and ``NAME.mdp`` and return the words for the command line.

    `edit` changes the lines of atoms; settings replace those of the bundled .mdp.
    """
    files = system_files("water")
    lines = files.configuration.read_text().split("\n")
    if edit is not None:
        edit(lines)
    (folder / f"{name}.gro").write_text("\n".join(lines))
    options = {}
    for line in files.parameters.read_text().split("\n"):
        key, equals, value = line.partition(";")[0].partition("=")
        if equals:
            options[key.strip().replace("-", "_")] = value.strip()
    options |= {"ld_seed": "7"} | {key: str(value) for key, value in settings.items()}
    mdp = "".join(f"{key.replace('_', '-')} = {value}\n" for key, value in options.items())
    (folder / f"{name}.mdp").write_text(mdp)
    return ["-c", str(folder / f"{name}.gro"), "-f", str(folder / f"{name}.mdp"), "-p", str(files.topology)]


def move_molecule(lines: list[str], molecule: int, onto: int, shift: float) -> None:
    """Put a water where another one is, `shift` nm further along x."""
    for k in range(3):
        source, target = lines[2 + 3 * onto + k], 2 + 3 * molecule + k
        x = float(source[20:28]) + shift
        lines[target] = lines[target][:20] + f"{x:8.3f}" + source[28:44] + lines[target][44:]


def workers_of(process: int) -> list[str]:
    """Command lines of ranks that this launcher started and that still live."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if words[2:4] == [b"pulsemd.halo.worker", str(process).encode()]:
            found.append(entry.name)
    return found
