"""OpenMM's XML: what is in it, as elements and as arrays.

A `System` in memory is written as XML by OpenMM itself, so that there is one reader for both; OpenMM's numbers in
XML are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import InputError, TopologyError

Element = ElementTree.Element
Float64 = NDArray[np.float64]
PathName = str | PathLike[str]


KNOWN_EXPRESSIONS = {
    "CustomBondForce": "k*(r-r0)^2, k*max(0,r-r0)^2 and other flat-bottomed wells, k*(r^2-b^2)^2, and the powers -1, "
    "-6 and -12 of r",
    "CustomAngleForce": "k*(theta-theta0)^2 and k*(cos(theta)-c)^2",
    "CustomTorsionForce": "sums of k*cos(n*theta-phase) up to n = 6, and k*d^2 or k*max(0,d-width)^2 with "
    "d=min(a,2*pi-a); a=abs(theta-theta0)",
    "CustomExternalForce": "k*periodicdistance(x,y,z,x0,y0,z0)^2, k*((x-x0)^2+(y-y0)^2+(z-z0)^2), and "
    "k*max(0,periodicdistance(x,y,z,x0,y0,z0)-r0)^2",
}
"""Expressions of custom forces that are terms here."""


@dataclass(frozen=True)
class Document:
    """An element at the top of a file, or of an object of OpenMM.

    Parameters
    ----------
    element : Element
    file : str or None
        None for an object.
    """

    element: Element
    file: str | None

    @property
    def kind(self) -> str:
        """Name of the class in OpenMM, such as ``System`` or ``VerletIntegrator``."""
        return self.element.get("type", self.element.tag)

    def refuse(self, message: str) -> NoReturn:
        """Raise an `InputError` with the file's name, or that of the class."""
        raise InputError(message if self.file is not None else f"{self.kind}: {message}", self.file)


def read_document(source: Any, kind: str) -> Document:
    """The XML of a file, or of an object of OpenMM.

    Parameters
    ----------
    source : path of an XML file, or an object that OpenMM can write
    kind : str
        Tag it must have: ``System``, ``State`` or ``Integrator``.

    Raises
    ------
    InputError
        If it cannot be read or is not such a thing.
    """
    if isinstance(source, str | PathLike):
        file: str | None = str(source)
        try:
            text = Path(source).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", file) from error
    else:
        file, text = None, _serialized(source, kind)
    try:
        element = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise InputError(f"is not XML: {error}", file, error.position[0]) from error
    if element.tag != kind:
        raise InputError(f"holds a {element.tag}, not a {kind} of OpenMM", file, 1)
    return Document(element, file)


def _serialized(source: Any, kind: str) -> str:
    try:
        from openmm import OpenMMException, XmlSerializer
    except ImportError as error:
        raise InputError(
            f"{type(source).__name__} is no path of an XML file; objects of OpenMM need the package openmm "
            "(pip install pulsemd[openmm])"
        ) from error
    try:
        return str(XmlSerializer.serialize(source))
    except (OpenMMException, TypeError, AttributeError, ValueError) as error:
        raise InputError(
            f"{type(source).__name__} is neither a path of an XML file nor a {kind} that OpenMM can write: {error}"
        ) from error


@dataclass(frozen=True)
class Force:
    """One force of a System.

    Parameters
    ----------
    index : int
        Counted from 0, as OpenMM's ``system.getForce``.
    element : Element
    file : str or None
    """

    index: int
    element: Element
    file: str | None

    @property
    def type(self) -> str:
        """Name of its class in OpenMM."""
        return self.element.get("type", "")

    @property
    def name(self) -> str:
        """How messages call it: index, class, and its own name where it has one."""
        own = self.element.get("name", self.type)
        return f"force {self.index} ({self.type}{'' if own in (self.type, '') else f' {own!r}'})"

    def error(self, what: str, remedy: str = "") -> TopologyError:
        """An error that names the force, what is wrong, and the remedy."""
        return TopologyError(f"{self.name}: {what}{f'; {remedy}' if remedy else ''}", self.file)

    def expression_error(self, what: str, remedy: str = "") -> TopologyError:
        """The same about the expression of a custom force."""
        return self.error(f"its expression {self.element.get('energy')!r} {what}", remedy)

    def unknown_expression(self, why: str) -> TopologyError:
        """The same about an expression that is none of those known, which it lists."""
        known = KNOWN_EXPRESSIONS.get(self.type, "")
        return self.expression_error(f"is not supported: {why}", known and f"known are {known}")

    def number(self, attribute: str) -> float:
        """An attribute of the force itself."""
        try:
            return number(self.element, attribute)
        except InputError as error:
            raise self.error(error.message, "correct it") from error

    def flag(self, attribute: str) -> bool:
        """An attribute that is 0 or 1; absent means 0."""
        return self.element.get(attribute, "0") not in ("0", "false")

    @property
    def periodic(self) -> bool:
        """Whether its terms, or exceptions, act at the nearest image in OpenMM too."""
        return self.flag("usesPeriodic") or self.flag("exceptionsUsePeriodic")

    def rows(self, section: str) -> Element:
        """A section, empty where the force has none."""
        return section_of(self.element, section)

    def atoms(self, section: str, names: Sequence[str]) -> NDArray[np.int32]:
        """(m, k) int32: attributes of the rows of a section that are particles."""
        return self.columns(section, names).astype(np.int32)

    def columns(self, section: str, names: Sequence[str]) -> Float64:
        """(m, k) float64: attributes of the rows of a section."""
        try:
            return columns(self.rows(section), names)
        except InputError as error:
            raise self.error(error.message, "correct it") from error

    def named(self, section: str) -> list[str]:
        """Names of the rows of a section, such as parameters."""
        return [row.get("name", "") for row in self.rows(section)]

    def parameters(self, section: str, names: str) -> Float64:
        """(m, p) float64: the parameters of each row of a section, which are called as the rows of `names`."""
        return self.columns(section, [f"param{k + 1}" for k in range(len(self.rows(names)))])

    def globals(self) -> dict[str, float]:
        """Global parameters at their default values."""
        return {row.get("name", ""): number(row, "default") for row in self.rows("GlobalParameters")}


def section_of(element: Element, name: str) -> Element:
    """A child by name, empty where there is none."""
    found = element.find(name)
    return Element(name) if found is None else found


def number(element: Element, attribute: str) -> float:
    """An attribute as a finite number.

    Raises
    ------
    InputError
        If it is absent or something else.
    """
    return float(columns([element], (attribute,))[0, 0])


def columns(rows: Iterable[Element], names: Sequence[str]) -> Float64:
    """(rows, names) float64: attributes of the rows of a section.

    Raises
    ------
    InputError
        Naming the first that is absent or no finite number.
    """
    listed = list(rows)
    try:
        values = np.array([[float(row.attrib[name]) for name in names] for row in listed], np.float64)
    except (KeyError, ValueError):
        values = np.full((len(listed), len(names)), np.nan)
    if not np.isfinite(values).all():
        raise InputError(_first_bad(listed, names))
    return values.reshape(len(listed), len(names))


def _first_bad(rows: Sequence[Element], names: Sequence[str]) -> str:
    for index, row in enumerate(rows):
        for name in names:
            value = row.get(name, "nothing")
            try:
                good = np.isfinite(float(value))
            except ValueError:
                good = False
            if not good:
                return f"{row.tag} {index}: {name} is {value}, not a number"
    raise AssertionError("every attribute is a number")


def box_vectors(element: Element) -> Float64 | None:
    """(3, 3) float64, nm, of a System or a State; None where it has none."""
    section = element.find("PeriodicBoxVectors")
    return None if section is None else columns(section, ("x", "y", "z"))
