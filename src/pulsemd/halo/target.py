"""The function that ranks run: ``module:function``, found by importing its module, and what it is given."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pulsemd.base.errors import ConfigError

_IMPORTED: Final[list[str]] = []
"""Modules that are imported to find the function of a launch."""


def is_name(target: object) -> bool:
    """Whether it names a function as other processes can import it."""
    return isinstance(target, str) and target.count(":") == 1


def check_not_imported(target: str) -> None:
    """Raise ConfigError on a rank that has come to a launch by importing the function it is to run."""
    if _IMPORTED:
        raise ConfigError(
            f"launch of {target!r}: called again by a rank that imports {_IMPORTED[-1]!r}, and so without end; put "
            "the call, and all that only the first process should do, below: if __name__ == '__main__':"
        )


def know_script(target: str) -> None:
    """Let a script that names itself be the module of that name here: errors and results are of classes it knows."""
    module, script = target.split(":")[0], sys.modules["__main__"]
    if module not in sys.modules and _is_script(module, script):
        sys.modules[module] = script


def _is_script(module: str, script: Any) -> bool:
    if getattr(script, "__spec__", None) is not None:
        return bool(script.__spec__.name == module)
    try:
        found = find_spec(module)
    except (ImportError, ValueError):
        return False
    places = getattr(script, "__file__", None), found and found.origin
    return all(places) and len({Path(place).resolve() for place in places if place}) == 1


def find_function(target: str) -> Callable[[Any, Any], Any]:
    """The function ``module:function``.

    Raises
    ------
    ConfigError
        If the module has no such function, or starts ranks itself when it is imported.
    """
    module, name = target.split(":")
    _IMPORTED.append(module)
    try:
        found = import_module(module)
    finally:
        _IMPORTED.pop()
    function: Callable[[Any, Any], Any] | None = getattr(found, name, None)
    if function is None:
        raise ConfigError(
            f"launch: no {name!r} in module {module!r} of the ranks, {getattr(found, '__file__', 'built in')}; name "
            "a function of a file by the name of the file, not as __main__ or from a notebook"
        )
    return function


def load_payload(blob: bytes, target: str) -> Any:
    """What the launcher gives to a function that has been found; what it knows as of a script is of that module here.

    Raises
    ------
    ConfigError
        If it needs what a rank cannot import.
    """
    module, worker = target.split(":")[0], sys.modules["__main__"]
    sys.modules["__main__"] = sys.modules[module]
    try:
        return pickle.loads(blob)
    except (AttributeError, ImportError) as error:
        raise ConfigError(
            f"launch of {target!r}: a rank cannot read the payload: {error}; define its classes in {module!r} or in "
            "another module that ranks can import"
        ) from error
    finally:
        sys.modules["__main__"] = worker
