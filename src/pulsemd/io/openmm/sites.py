"""Virtual sites of OpenMM."""

from __future__ import annotations

import numpy as np

from pulsemd.base.errors import TopologyError
from pulsemd.io.openmm.document import Element, number
from pulsemd.topology.virtual_sites import Site, SiteKind

_AVERAGES = {"TwoParticleAverageSite": 2, "ThreeParticleAverageSite": 3}
"""Sites that are weighted means of so many particles."""


def read_site(particle: int, element: Element, file: str | None) -> Site:
    """One virtual site.

    Parameters
    ----------
    particle : int
    element : Element
        Child of the particle.

    Raises
    ------
    TopologyError
        For a class, or weights, that have no equivalent.
    """

    def values(*names: str) -> tuple[float, ...]:
        return tuple(number(element, name) for name in names)

    def parents(*names: str) -> tuple[int, ...]:
        return tuple(int(element.get(name, "-1")) for name in names)

    if element.tag in _AVERAGES:
        numbers = range(1, _AVERAGES[element.tag] + 1)
        weights = values(*(f"w{k}" for k in numbers))
        if abs(sum(weights) - 1.0) > 1e-6:
            raise TopologyError(
                f"virtual site of particle {particle}: its weights add up to {sum(weights):g}, not to 1, so that it "
                "would depend on where the origin is; correct them",
                file,
            )
        return Site(particle, SiteKind.LINEAR, parents(*(f"p{k}" for k in numbers)), weights)
    if element.tag == "OutOfPlaneSite":
        return Site(particle, SiteKind.OUT_OF_PLANE, parents("p1", "p2", "p3"), values("wc", "w12", "w13"))
    site = _local_coordinates(particle, element) if element.tag == "LocalCoordinatesSite" else None
    if site is None:
        raise TopologyError(
            f"virtual site of particle {particle}: {element.tag} with these weights is not supported; its origin must "
            "be one of its particles, and off its x axis x must be along a line to one other of three",
            file,
        )
    return site


def _local_coordinates(particle: int, element: Element) -> Site | None:
    """A site in a frame of axes x along sum_k wx_k x_k and y towards sum_k wy_k x_k, at its origin, or None.

    On the x axis it has a fixed distance from the origin. Elsewhere x must be along the line to one other particle.
    """
    n = sum(f"wo{k}" in element.attrib for k in range(1, 10))
    parents = [int(element.get(f"p{k + 1}", "-1")) for k in range(n)]
    origin, along, towards = (
        np.array([number(element, f"{name}{k + 1}") for k in range(n)]) for name in ("wo", "wx", "wy")
    )
    x, y, z = (number(element, f"pos{k}") for k in (1, 2, 3))
    if np.count_nonzero(origin) != 1:
        return None
    at = int(np.flatnonzero(origin)[0])
    others = [k for k in range(n) if k != at]
    if y == 0 and z == 0:
        return Site(
            particle,
            SiteKind.FIXED_DISTANCE,
            (parents[at], *(parents[k] for k in others)),
            (x, *(float(along[k]) for k in others)),
        )
    used = [k for k in others if along[k] != 0]
    if n != 3 or len(used) != 1:
        return None
    first, second = used[0], next(k for k in others if k != used[0])
    if towards[second] == 0:
        return None
    of_x, of_y = float(np.sign(along[first])), float(np.sign(towards[second]))
    return Site(
        particle,
        SiteKind.FIXED_ANGLE,
        (parents[at], parents[first], parents[second]),
        (x * of_x, y * of_y, z * of_x * of_y),
    )
