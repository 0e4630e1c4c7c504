"""Build the objects of `shim.cu`, one for each NVSHMEM version: ``python -m pulsemd.halo.network.build``.

An object fits the headers it was compiled with, so its name holds their version, and a sidecar the hashes of source and
object. ``--check`` tells whether the shipped objects are those of the source, which needs no compiler.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pulsemd.base.cache import cache_folder
from pulsemd.base.errors import TransportError
from pulsemd.device.program import ARCHITECTURES

FOLDER: Final = Path(__file__).parent
SOURCE: Final = FOLDER / "shim.cu"


def nvshmem_root() -> Path:
    """Folder of the installed NVSHMEM, with ``include`` and ``lib``.

    Raises
    ------
    TransportError
        If it is not installed.
    """
    spec = find_spec("nvidia.nvshmem") if find_spec("nvidia") else None
    if spec is None or not spec.submodule_search_locations:
        raise TransportError("nvshmem: NVSHMEM is not installed; pip install 'pulsemd[nvshmem]'")
    return Path(next(iter(spec.submodule_search_locations)))


def header_version(root: Path) -> str:
    """Version 'major.minor' of the NVSHMEM in a folder."""
    text = (root / "include" / "non_abi" / "nvshmem_version.h").read_text()
    numbers = [re.search(rf"NVSHMEM_VENDOR_{part}_VERSION (\d+)", text) for part in ("MAJOR", "MINOR")]
    return ".".join(found.group(1) for found in numbers if found)


def shim_object(root: Path) -> bytes:
    """The object that fits the NVSHMEM in a folder: shipped, built earlier, or built now if nvcc is here.

    Raises
    ------
    TransportError
        If none is there and none can be built.
    """
    version = header_version(root)
    for folder in (FOLDER, cache_folder("cuda")):
        if (folder / _name(version)).exists() and not find_difference(folder, version):
            return (folder / _name(version)).read_bytes()
    return build(root, cache_folder("cuda")).read_bytes()


def build(root: Path, folder: Path) -> Path:
    """Compile `shim.cu` against the NVSHMEM in ``root``; the object, in ``folder``, with its sidecar.

    Raises
    ------
    TransportError
        If nvcc is missing or fails.
    """
    nvcc, version = shutil.which("nvcc"), header_version(root)
    if nvcc is None:
        raise TransportError(
            f"nvshmem: this version has device code for NVSHMEM {', '.join(shipped())}, not for {version}; install "
            "one of those, or nvcc, which builds it"
        )
    folder.mkdir(parents=True, exist_ok=True)
    codes = [f"-gencode=arch={a.replace('sm', 'compute')},code={a}" for a in ARCHITECTURES]
    with tempfile.TemporaryDirectory(dir=folder) as work:
        made = Path(work) / "shim.o"
        command = [nvcc, "-std=c++17", "-rdc=true", "-dc", f"-I{root / 'include'}", *codes, "-o", str(made)]
        done = subprocess.run(
            [*command, SOURCE.name], cwd=FOLDER, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise TransportError(f"nvshmem: nvcc cannot compile {SOURCE.name}: {done.stderr.strip()[-500:]}")
        sidecar = {"source": _hash(SOURCE), "object": _hash(made), "architectures": ARCHITECTURES}
        (folder / _name(version)).with_suffix(".json").write_text(json.dumps(sidecar, indent=1) + "\n")
        made.replace(folder / _name(version))
    return folder / _name(version)


def shipped() -> list[str]:
    """Versions that have an object in this package."""
    return sorted(path.stem.removeprefix("shim_") for path in FOLDER.glob("shim_*.o"))


def find_difference(folder: Path, version: str) -> str | None:
    """Why the object for a version is not that of the source; None if it is."""
    path = folder / _name(version)
    sidecar = json.loads(path.with_suffix(".json").read_text())
    if sidecar["source"] != _hash(SOURCE):
        return f"{path.name} was built from another {SOURCE.name}; run python -m pulsemd.halo.network.build"
    if sidecar["object"] != _hash(path):
        return f"{path.name} is not the object that {path.stem}.json describes"
    return None


def _name(version: str) -> str:
    return f"shim_{version}.o"


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main(arguments: list[str] | None = None) -> int:
    """Command line; 1 if an object does not fit its source."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare hashes, build nothing")
    parser.add_argument("--root", type=Path, action="append", help="NVSHMEM folder(s); the installed one")
    parser.add_argument("--into", type=Path, default=FOLDER, help="folder of the objects; this package")
    options = parser.parse_args(arguments)
    if not options.check:
        for root in options.root or [nvshmem_root()]:
            print(build(root, options.into))
    problems = [text for version in shipped() if (text := find_difference(FOLDER, version))]
    print("\n".join(problems) or f"objects for NVSHMEM {', '.join(shipped())} fit {SOURCE.name}")
    return int(bool(problems) or not shipped())


if __name__ == "__main__":
    sys.exit(main())
