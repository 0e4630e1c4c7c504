"""Virtual sites: particles without mass whose places follow from those of other atoms, their parents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class SiteKind(IntEnum):
    """How a site follows from its parents at x_0, x_1, ...; r_k = x_k - x_0. `values` has one number for each parent.

    LINEAR
        x = sum_k w_k x_k; values are the w_k.
    FIXED_DISTANCE
        x = x_0 + d s/|s| with s = sum_k w_k r_k; values are d, w_1, w_2, ...
    FIXED_ANGLE
        x = x_0 + a e_1 + b e_2 + c (e_1 x e_2) with e_1 = r_1/|r_1| and e_2 along the part of x_2 - x_1 across e_1;
        values a, b, c.
    OUT_OF_PLANE
        x = x_0 + a r_1 + b r_2 + c (r_1 x r_2); values c, a, b.
    NORMAL
        x = x_0 + c n/|n| with n = (a r_2 - r_1) x (b r_3 - r_1); values c, a, b, 0.
    """

    LINEAR = 0
    FIXED_DISTANCE = 1
    FIXED_ANGLE = 2
    OUT_OF_PLANE = 3
    NORMAL = 4


@dataclass(frozen=True)
class Site:
    """One site: its atom, its parents, and one value for each of them."""

    atom: int
    kind: SiteKind
    parents: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class VirtualSites:
    """Sites as compressed rows; a site whose parents are sites comes after them.

    Parameters
    ----------
    kind : (m,) int32, of `SiteKind`
    offset : (m + 1,) int64
    atoms : (k,) int32
        The site, then its parents.
    values : (k,) float64
        0 for the site, then one for each parent, see `SiteKind`.
    """

    kind: NDArray[np.int32]
    offset: NDArray[np.int64]
    atoms: NDArray[np.int32]
    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def sites(self) -> NDArray[np.int32]:
        """(m,) int32: the atoms that are sites."""
        return self.atoms[self.offset[:-1]]

    @property
    def links(self) -> NDArray[np.int64]:
        """(k - m, 2) int64: each site with each of its parents."""
        counts = np.diff(self.offset)
        parents = np.delete(self.atoms, self.offset[:-1])
        return np.column_stack([np.repeat(self.sites, counts - 1), parents]).astype(np.int64)


def virtual_sites(sites: Sequence[Site]) -> VirtualSites:
    """Put sites into an order in which each can be constructed.

    Raises
    ------
    ValueError
        If sites are constructed from each other in a circle; the argument is the index of one of them.
    """
    place = {site.atom: i for i, site in enumerate(sites)}
    waiting = [sum(parent in place for parent in site.parents) for site in sites]
    children: dict[int, list[int]] = {}
    for i, site in enumerate(sites):
        for parent in site.parents:
            children.setdefault(place.get(parent, -1), []).append(i)
    order = [i for i, n in enumerate(waiting) if n == 0]
    for done in order:
        for i in children.get(done, ()):
            waiting[i] -= 1
            if waiting[i] == 0:
                order.append(i)
    if len(order) < len(sites):
        raise ValueError(next(i for i, n in enumerate(waiting) if n > 0))
    ordered = [sites[i] for i in order]
    return VirtualSites(
        np.array([site.kind for site in ordered], np.int32),
        np.cumsum([0, *(1 + len(site.parents) for site in ordered)], dtype=np.int64),
        np.array([atom for site in ordered for atom in (site.atom, *site.parents)], np.int32),
        np.array([value for site in ordered for value in (0.0, *site.values)], np.float64),
    )


def no_sites() -> VirtualSites:
    """An empty set."""
    return virtual_sites(())
