"""Record gmx's potential of the topologies in this folder as energies.json. Needs gmx (recorded with 2022.5).

gmx grompp -f mrf.mdp -c c.gro -p CASE.top -maxwarn 5; gmx mdrun -nt 1; gmx energy (Potential at step 0)
"""

import json
import subprocess
import tempfile
from pathlib import Path

here = Path(__file__).parent
result = {}
for top in sorted(here.glob("*.top")):
    with tempfile.TemporaryDirectory() as folder:
        options = f"-f {here}/mrf.mdp -c {here}/c.gro -p {top} -maxwarn 5"
        for command, text in (
            (f"gmx grompp {options}", ""),
            ("gmx mdrun -nt 1", ""),
            ("gmx energy", "Potential\n"),
        ):
            subprocess.run(
                command.split(),
                input=text,
                text=True,
                cwd=folder,
                check=True,
                capture_output=True,
                timeout=60,
            )
        result[top.stem] = float(Path(folder, "energy.xvg").read_text().split("\n")[-2].split()[1])
(here / "energies.json").write_text(json.dumps(result, indent=1) + "\n")
