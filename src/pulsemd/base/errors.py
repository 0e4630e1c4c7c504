"""Errors of the package, each with the exit code the command line ends with."""

from __future__ import annotations

from os import PathLike
from typing import ClassVar


class PulseMDError(Exception):
    """Base of every error a user can meet; the message says what, where, which rank, and the remedy."""

    exit_code: ClassVar[int] = 1


class ConfigError(PulseMDError):
    """The command line or a settings file asks for something that does not exist or does not fit."""

    exit_code = 2


class InputError(PulseMDError):
    """An input file is refused.

    Parameters
    ----------
    message : str
        What is wrong and the remedy.
    file, line : optional
        Where; printed as ``FILE:LINE: `` before the message.
    """

    exit_code = 3

    def __init__(
        self, message: str, file: str | PathLike[str] | None = None, line: int | None = None
    ) -> None:
        self.message, self.file, self.line = message, None if file is None else str(file), line
        where = "" if file is None else f"{file}:{line}: " if line is not None else f"{file}: "
        super().__init__(where + message)

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str | None, int | None]]:
        return type(self), (self.message, self.file, self.line)


class OutputError(PulseMDError):
    """A result cannot be written: the disk is full, a folder is read-only, a file is in use."""

    exit_code = 4


class TopologyError(InputError):
    """A topology is inconsistent or uses something that is not supported."""


class DomainError(PulseMDError):
    """No decomposition fits the system, the cut-off and the number of ranks."""

    exit_code = 4


class PlanError(PulseMDError):
    """A halo plan is inconsistent."""

    exit_code = 4


class TransportError(PulseMDError):
    """A transport cannot be used here."""

    exit_code = 4


class PeerError(TransportError):
    """A peer died, or a bounded wait expired."""

    exit_code = 5


class UnstableError(PulseMDError):
    """The simulation blew up.

    Attributes
    ----------
    stuck : bool
        Whether all is well but that an atom cannot make a step.
    """

    exit_code = 6
    stuck = False
