"""CUDA C++ programs of the package: their text, and their compilation at run time with a cache on disk.

A program is one ``.cu`` file of a package together with macro definitions and, optionally, generated headers.
Its ``#include "name"`` lines are resolved here, textually, so that one string holds everything the compiled
code depends on: the key of the cache is a hash of that string, the options and the compiler's version.
Compiling needs neither a GPU nor a driver.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import Any

from pulsemd.base.cache import cache_folder, writing_to
from pulsemd.base.errors import TransportError

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
"""Architectures that every program must compile for."""

_INCLUDE = re.compile(r'^[ \t]*#include "([^"]+)"[ \t]*$', re.MULTILINE)
_SHARED = "pulsemd.device"
_CACHE_BYTES = 256 * 2**20
_LOADING = Lock()
"""Threads that load the compiler at once would see parts of it."""


@dataclass(frozen=True)
class CudaProgram:
    """One compiled variant of a ``.cu`` file.

    Parameters
    ----------
    package : str
        Package that holds the file, such as 'pulsemd.kernels.nonbonded'.
    file : str
    defines : tuple of (name, value)
        Macros that choose the variant.
    generated : tuple of (name, text)
        Headers that exist only as text, such as traced formulas.
    exact : bool
        IEEE arithmetic as written: no fused multiply-add except where the source calls one, denormals kept,
        correctly rounded division and square root. Else contraction, flush to zero, approximate division.
    headers : tuple of str
        Other packages whose headers the file includes.
    relocatable : bool
        It calls device functions that are linked in later.
    """

    package: str
    file: str
    defines: tuple[tuple[str, int | float | str], ...] = ()
    generated: tuple[tuple[str, str], ...] = ()
    exact: bool = False
    headers: tuple[str, ...] = ()
    relocatable: bool = False

    @property
    def name(self) -> str:
        """File and macros, for messages."""
        return " ".join([self.file, *(f"{key}={value}" for key, value in self.defines)])


def program_text(program: CudaProgram) -> str:
    """The whole text of a program, every include resolved once.

    Raises
    ------
    FileNotFoundError
        If an included header is neither generated nor in the program's package nor beside this module.
    """
    seen: set[str] = set()
    macros = "".join(f"#define {name} {value}\n" for name, value in program.defines)
    return macros + _resolve(_read(program, program.file), program, seen)


def _resolve(text: str, program: CudaProgram, seen: set[str]) -> str:
    def include(match: re.Match[str]) -> str:
        name = match.group(1)
        if name in seen:
            return ""
        seen.add(name)
        return _resolve(_read(program, name), program, seen)

    return _INCLUDE.sub(include, text)


def _read(program: CudaProgram, name: str) -> str:
    for generated, text in program.generated:
        if generated == name:
            return text
    for package in (program.package, *program.headers, _SHARED):
        path = files(package) / name
        if path.is_file():
            return path.read_text()
    raise FileNotFoundError(
        f"{program.file}: no header {name} in {program.package}, {program.headers} or {_SHARED}"
    )


def compile_program(program: CudaProgram, architecture: str, logs: Any = None) -> bytes:
    """Machine code (cubin) of a program, from the cache if an earlier run left it there.

    Parameters
    ----------
    program : CudaProgram
    architecture : str
        Such as 'sm_90'.
    logs : object with ``write``, optional
        Receives the compiler's report of registers and spills; compiles afresh.

    Raises
    ------
    TransportError
        If the compiler is not installed.
    ConfigError
        If the cache cannot be written.
    """
    core, utils = load_core()
    text = program_text(program)
    options = core.ProgramOptions(
        name=program.file,
        arch=architecture,
        std="c++17",
        fma=not program.exact,
        ftz=not program.exact,
        prec_div=program.exact,
        prec_sqrt=program.exact,
        device_as_default_execution_space=True,
        relocatable_device_code=program.relocatable or None,
        ptxas_options=["-v"] if logs is not None else None,
    )
    if logs is not None:
        return bytes(core.Program(text, "c++", options).compile("cubin", logs=logs).code)
    key = utils.make_program_cache_key(code=text, code_type="c++", options=options, target_type="cubin")
    with writing_to(folder := cache_folder("cuda")):
        stored = _open_cache(folder)
        found = stored.get(key)
        if found is None:
            found = bytes(core.Program(text, "c++", options).compile("cubin").code)
            stored[key] = found
    return bytes(found)


@cache
def _open_cache(folder: Path) -> Any:
    return load_core()[1].FileStreamProgramCache(folder, max_size_bytes=_CACHE_BYTES)


def load_core() -> tuple[Any, Any]:
    """The modules cuda.core and cuda.core.utils."""
    with _LOADING:
        try:
            import cuda.core
            import cuda.core.utils
        except ImportError as error:
            raise TransportError(
                f"--device cuda: the CUDA compiler is not installed ({error}); install pulsemd[cuda]"
            ) from error
        return cuda.core, cuda.core.utils
