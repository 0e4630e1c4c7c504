"""What the positions at the start must not be for terms to act as in OpenMM."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from pulsemd.io.openmm.draft import SystemDraft

log = logging.getLogger(__name__)

Float64 = NDArray[np.float64]

FARTHEST_14 = 0.8
"""Distance [nm] beyond which no two atoms are that three bonds lie between."""


def warn_of_images(draft: SystemDraft, positions: Float64, box: Float64) -> None:
    """Warn of terms that OpenMM takes at the coordinates, where the nearest images, which act here, are others.

    Parameters
    ----------
    draft : SystemDraft
    positions : (n, 3) float64, nm
    box : (3, 3) float64, nm
    """
    found = []
    for force, atoms in draft.at_coordinates:
        between = np.diff(positions[atoms], axis=1)
        images = np.rint(between @ np.linalg.inv(box))
        terms, place = np.nonzero(images.any(2))
        found += [
            (force, atoms[t, k : k + 2], between[t, k], images[t, k])
            for t, k in zip(terms, place, strict=True)
        ]
    if not found:
        return
    force, pair, between, image = found[0]
    lengths = [float(np.linalg.norm(vector)) for vector in (between, between - image @ box)]
    log.warning(
        "%s: particles %d and %d are %.3g nm apart in these positions and %.3g nm to the nearest image, which is what "
        "acts here%s; OpenMM takes the first unless setUsesPeriodicBoundaryConditions(True) is called: give positions "
        "of whole molecules, or call it",
        force.name, *pair, *lengths, f", as of {len(found) - 1} more pairs" if len(found) > 1 else "",
    )  # fmt: skip


def check_distances(draft: SystemDraft, positions: Float64, box: Float64) -> None:
    """Refuse terms that hold up to a distance for pairs that may come there.

    Raises
    ------
    TopologyError
        For pairs that are not excluded from pair forces, as those of nearby atoms of a molecule are, or too far apart.
    """
    for force, pairs, within in draft.within:
        between = positions[pairs[:, 1]] - positions[pairs[:, 0]]
        between -= np.rint(between @ np.linalg.inv(box)) @ box
        excluded = draft.excluded[0][1] if draft.excluded else np.zeros((0, 2), np.int32)
        known = np.isin(_keys(pairs), _keys(excluded))
        for i in np.flatnonzero(~known | (np.linalg.norm(between, axis=1) > within) | (within < FARTHEST_14))[
            :1
        ]:
            raise force.expression_error(
                f"changes beyond {within:.3g} nm, which is supported for pairs alone that never are as far apart: 1-4 "
                f"pairs, excluded from pair forces, up to {FARTHEST_14} nm; particles {pairs[i].tolist()} are none",
                "use an expression without step, max, min or select",
            )


def _keys(pairs: NDArray[np.int32]) -> NDArray[np.int64]:
    low, high = np.sort(pairs.astype(np.int64), axis=1).T
    keys: NDArray[np.int64] = low << 32 | high
    return keys
