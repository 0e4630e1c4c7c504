"""Terms whose particles are nearer to each other's images than to each other, as positions have them."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from pulsemd.io.openmm.draft import SystemDraft

log = logging.getLogger(__name__)

Float64 = NDArray[np.float64]


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
