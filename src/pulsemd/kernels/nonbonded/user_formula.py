"""A user's pair potential: a plain Python function, captured so that every rank and the kernel cache can hold it.

What is kept is the text of the function, its helpers and the numbers it refers to, never the function itself: that
can be sent to ranks from a notebook, written into a kernel's module, and compared.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import FunctionType, ModuleType

import numpy as np

from pulsemd.base.errors import InputError
from pulsemd.kernels.nonbonded import formula

FUNCTIONS = {name: getattr(formula, name) for name in ("rsqrt", "sqrt", "exp", "where", "minimum", "maximum")}
"""Functions a pair potential may call without importing them."""

_MODULES = ("numpy", "math", "pulsemd")
_NUMBERS = (int, float, np.floating, np.integer)


@dataclass(frozen=True)
class UserFormula:
    """Text of a pair potential ``f(r2, *arguments) -> (energy, force_over_r)``.

    Parameters
    ----------
    name : str
    source : str
        The function and its helpers.
    arguments : tuple of str
        Names of its parameters after r2.
    constants : tuple of (name, number)
        Numbers it refers to.
    names : tuple of (name, known name)
        Names in its text that stand for numpy, math, pulsemd or one of `FUNCTIONS`.
    """

    name: str
    source: str
    arguments: tuple[str, ...]
    constants: tuple[tuple[str, float], ...] = ()
    names: tuple[tuple[str, str], ...] = ()

    def __call__(self, r2, *parameters):
        """Energy [kJ/mol] and force over r [kJ/mol/nm^2] of numbers, arrays or traced values.

        Raises
        ------
        InputError
            If the function fails or returns something else; names the operation.
        """
        try:
            energy, force_over_r = _compiled(self)(r2, *parameters)
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"pair potential {self.name}{_line(self, error)}: {type(error).__name__}: {error}; it must return "
                "(energy, force_over_r), computed by + - * / **, comparisons with `where`, and "
                f"{', '.join(FUNCTIONS)}"
            ) from error
        return energy, force_over_r


@cache
def _compiled(text: UserFormula):
    known = FUNCTIONS | {name: import_module(name) for name in _MODULES}
    namespace = FUNCTIONS | dict(text.constants) | {name: known[target] for name, target in text.names}
    exec(compile(text.source, f"<pair potential {text.name}>", "exec"), namespace)
    return namespace[text.name]


def _line(text: UserFormula, error: Exception) -> str:
    """The line of the text at which it failed, for the message."""
    trace, line = error.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith("<pair potential"):
            line = f", in `{text.source.splitlines()[trace.tb_lineno - 1].strip()}`"
        trace = trace.tb_next
    return line


def capture(function: FunctionType) -> UserFormula:
    """Take the text of a function.

    Raises
    ------
    InputError
        If there is no text, or the function refers to something other than numbers, numpy, math, pulsemd and functions
        like itself.
    """
    if not isinstance(function, FunctionType) or function.__name__ == "<lambda>":
        raise InputError(
            f"pair potential {function!r}: write it as a function, def name(r2, ...): return energy, force_over_r"
        )
    sources: dict[str, str] = {}
    constants: dict[str, float] = {}
    names: dict[str, str] = {}
    _collect(function, sources, constants, names)
    _, *parameters = inspect.signature(function).parameters.values()
    for parameter in parameters:
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            raise InputError(
                f"pair potential {function.__name__}: *{parameter.name} has no name; name every parameter"
            )
    return UserFormula(
        function.__name__,
        "\n\n".join(sources.values()),
        tuple(parameter.name for parameter in parameters if parameter.default is parameter.empty),
        tuple(sorted(constants.items())),
        tuple(sorted(names.items())),
    )


def _collect(function: FunctionType, sources, constants, names) -> None:
    """Add a function, its helpers first, and what they refer to."""
    name = function.__name__
    used = inspect.getclosurevars(function)
    for key, value in {**used.globals, **used.nonlocals}.items():
        if isinstance(value, _NUMBERS):
            constants[key] = float(value)
        elif (isinstance(value, ModuleType) and value.__name__ in _MODULES) or value in FUNCTIONS.values():
            names[key] = value.__name__
        elif value is function:
            raise InputError(f"pair potential {name} calls itself; write it as one expression")
        elif isinstance(value, FunctionType) and key not in sources:
            _collect(value, sources, constants, names)
        elif key not in sources:
            raise InputError(
                f"pair potential {name} uses {key!r}, a {type(value).__name__}; make it a number, a parameter, or a "
                "plain function"
            )
    sources[name] = _text(function)


def _text(function: FunctionType) -> str:
    """Text of a function without decorators and comments."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError) as error:
        raise InputError(
            f"pair potential {function.__name__}: its text cannot be read ({error}); define it in a file or in a cell "
            "of a notebook"
        ) from error
    definition = tree.body[0]
    definition.decorator_list = []
    if ast.get_docstring(definition) is not None and len(definition.body) > 1:
        del definition.body[0]
    return ast.unparse(definition)
