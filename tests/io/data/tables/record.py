"""Record what gmx makes of the topologies in this folder; writes gmx.json. Needs gmx (recorded with 2022.5).

For each topology:
    gmx grompp -f grompp.mdp -c six.gro -p CASE.top -o CASE.tpr -maxwarn 9
    gmx dump -s CASE.tpr
and for residues.top:
    gmx editconf -f residues.tpr -o residues_gmx.gro
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

here = Path(__file__).parent
cases = sorted(path.stem for path in here.glob("*.top"))
result = {}
with tempfile.TemporaryDirectory() as folder:
    for case in cases:
        conf = here / ("residues.gro" if case == "residues" else "six.gro")
        tpr = f"{folder}/{case}.tpr"
        options = f"-f grompp.mdp -c {conf} -p {case}.top -o {tpr} -po {folder}/out.mdp -maxwarn 9"
        subprocess.run(["gmx", "grompp", *options.split()], cwd=here, check=True, capture_output=True)
        if case == "residues":
            target = str(here / "residues_gmx.gro")
            subprocess.run(["gmx", "editconf", "-f", tpr, "-o", target], check=True, capture_output=True)
            continue
        dump = subprocess.run(["gmx", "dump", "-s", tpr], capture_output=True, text=True, check=True).stdout
        n_types = int(re.search(r"atnr=(\d+)", dump)[1])
        pairs = re.findall(r"=LJ_SR, c6= *(\S+), c12= *(\S+)", dump)
        atoms = re.findall(r"atom\[ *\d+\]=\{type= *(\d+).*?m= *([^,]+), q= *([^,]+),", dump)
        kinds = [int(atom[0]) for atom in atoms]
        result[case] = {
            "c6": [[float(pairs[a * n_types + b][0]) for b in kinds] for a in kinds],
            "c12": [[float(pairs[a * n_types + b][1]) for b in kinds] for a in kinds],
            "mass": [float(atom[1]) for atom in atoms],
            "charge": [float(atom[2]) for atom in atoms],
            "exclusions": [
                [int(word) for word in row.replace(",", " ").split()]
                for row in re.findall(r"excls\[\d+\]\[num=\d+\]=\{([^}]*)\}", dump)
            ],
        }
(here / "gmx.json").write_text(json.dumps(result, indent=1) + "\n")
print(len(result), "cases recorded", file=sys.stderr)
