"""Record single-point energies and virials of double-precision GROMACS for the boxes of the parity tests.

usage: gmx_single_points.py DATA_DIRECTORY

Needs gmx_d 2022.5 (Debian 12, package gromacs). Writes ``gmx_single_points.csv``: step 0 of a run, for each
box and each set of cut-off options. The molecules are left unconstrained there (no ``[ settles ]``), so that
the virial is that of the pair forces alone; W = -2 x the virial that GROMACS prints. The case ``step0`` has
rigid molecules, which satisfy their constraints: kinetic energy (mean of both half steps), constraint virial
and pressure are those of the leap-frog integrator.
"""

from __future__ import annotations

import csv
import re
import sys
import tempfile
from pathlib import Path

from boxes import WATER, gro_text
from commands import call

BOXES = ("water", "a5625", "dodecahedron", "octahedron", "settled")
CASES = {
    "rf_infinite": {},
    "rf_78": {"epsilon-rf": "78"},
    "lj_plain": {"vdw-modifier": "none"},
    "cutoff_plain": {"coulombtype": "cut-off", "coulomb-modifier": "none", "vdw-modifier": "none"},
    "cutoff_shift": {"coulombtype": "cut-off", "coulomb-modifier": "potential-shift"},
    "cutoff_0.9": {"rcoulomb": "0.9", "rvdw": "0.9"},
}
COMMANDS = (
    "gmx_d grompp -f CASE.mdp -c BOX.gro -p BOX_free.top -o CASE.tpr -maxwarn 2    (step0: -p BOX.top)",
    "gmx_d mdrun -s CASE.tpr -e CASE.edr -ntmpi 1 -ntomp 1",
    "gmx_d energy -f CASE.edr -xvg none -dp -o CASE.xvg",
)
COMMON = {"nsteps": "0", "nstenergy": "1", "nstcalcenergy": "1", "gen-vel": "no", "continuation": "yes",
          "nstxout-compressed": "0", "nstlist": "10"}  # fmt: skip
TERMS = {"lj": "LJ (SR)", "coulomb": "Coulomb (SR)", "potential": "Potential"}
STEP0 = {"kinetic": "Kinetic En.", "temperature": "Temperature", "pressure": "Pressure"}
VIRIAL = {f"w_{a}{b}": f"Vir-{a}{b}".replace(a + b, (a + b).upper()) for a in "xyz" for b in "xyz"}


def write_mdp(path: Path, options: dict[str, str]) -> None:
    """The parameters of the bundled water, with some options set."""
    text = (WATER / "run.mdp").read_text()
    for name, value in options.items():
        text = re.sub(rf"(?m)^{name} *=.*\n", "", text) + f"{name} = {value}\n"
    path.write_text(text)


def single_point(folder: Path, box: str, options: dict[str, str], topology: str) -> dict[str, float]:
    """All energy terms of one configuration by the names GROMACS gives them."""
    write_mdp(folder / "case.mdp", COMMON | options)
    call(folder, "gmx_d", "grompp", "-f", "case.mdp", "-c", f"{box}.gro", "-p", topology,
         "-o", "case.tpr", "-maxwarn", "2")  # fmt: skip
    call(folder, "gmx_d", "mdrun", "-s", "case.tpr", "-e", "case.edr", "-ntmpi", "1", "-ntomp", "1")
    listed = call(folder, "gmx_d", "energy", "-f", "case.edr", "-xvg", "none", "-dp", "-o", "case.xvg",
                  answer="\n".join(map(str, range(1, 60))) + "\n\n")  # fmt: skip
    names = [re.split(r" {2,}", line)[0].strip() for line in listed.split("-" * 79)[-1].splitlines() if line]
    values = [float(field) for field in (folder / "case.xvg").read_text().split()[1:]]
    if len(names) != len(values):
        sys.exit(f"{len(names)} names and {len(values)} values: {names}")
    return dict(zip(names, values, strict=True))


def unpack(data: Path, folder: Path, box: str) -> None:
    """BOX.gro, BOX.top and BOX_free.top, the latter without constraints, in `folder`."""
    (folder / f"{box}.gro").write_text(gro_text(data, box))
    n_molecules = int((folder / f"{box}.gro").read_text().split("\n", 2)[1]) // 3
    topology = re.sub(r"(?m)^SOL +\d+", f"SOL  {n_molecules}", (WATER / "topol.top").read_text())
    (folder / f"{box}.top").write_text(topology)
    free = re.sub(r"(?s)\[ settles \].*?(?=\[)", "[ bonds ]\n1 2 5\n1 3 5\n", topology)  # 5: only excludes
    (folder / f"{box}_free.top").write_text(free)


def main(data: Path) -> None:
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for box in BOXES:
            unpack(data, folder, box)
            for case, options in CASES.items():
                energies = single_point(folder, box, options, f"{box}_free.top")
                row = {key: energies[term] for key, term in TERMS.items()}
                row |= {key: -2 * energies[term] for key, term in VIRIAL.items()}
                rows.append({"box": box, "case": case} | row)
        energies = single_point(folder, "settled", {}, "settled.top")
        row = {key: energies[term] for key, term in (TERMS | STEP0).items()}
        row |= {key: -2 * energies[term] for key, term in VIRIAL.items()}
        rows.append({"box": "settled", "case": "step0"} | row)
    with open(data / "gmx_single_points.csv", "w", newline="") as handle:
        handle.write("# GROMACS 2022.5, Debian 12, double precision; kJ/mol, K, bar; w = -2 x Vir\n")
        handle.write(
            "# made by tests/parity/oracles/gmx_single_points.py from the bundled water's topology and\n"
        )
        handle.write(f"# parameters with {', '.join(f'{k} = {v}' for k, v in COMMON.items())}\n")
        handle.writelines(f"# {command}\n" for command in COMMANDS)
        for case, options in CASES.items():
            handle.write(f"# {case}: {', '.join(f'{k} = {v}' for k, v in options.items()) or 'as bundled'}\n")
        table = csv.DictWriter(handle, ["box", "case", *TERMS, *VIRIAL, *STEP0], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
