"""What a topology holds: molecules, atoms and terms by type and count."""

from __future__ import annotations

from typing import Any

import numpy as np

from pulsemd.topology.records import Topology


def census(topology: Topology) -> dict[str, Any]:
    """Counts of a topology, ready for JSON.

    Returns
    -------
    dict
        title; atoms; charge [e]; mass [amu]; atom_types; molecules: a list of name, count, atoms; terms: by kind the
        number of ``terms`` and of distinct ``parameters`` they use; exclusions (pairs), rigid_waters, constraints
        (those of rigid waters included), update_groups, massless (atoms).
    """
    molecules = [
        {
            "name": topology.molecule_types[block.molecule_type].name,
            "count": block.n_molecules,
            "atoms": topology.molecule_types[block.molecule_type].n_atoms,
        }
        for block in topology.blocks
    ]
    return {
        "title": topology.title,
        "atoms": topology.n_atoms,
        "charge": round(float(topology.charge.sum()), 6) + 0.0,
        "mass": round(float(topology.mass.sum()), 6),
        "atom_types": len(topology.type_names),
        "molecules": molecules,
        "terms": {
            kind: {"terms": len(terms), "parameters": len(np.unique(terms.index))}
            for kind, terms in topology.terms.items()
        },
        "exclusions": topology.n_exclusion_pairs,
        "rigid_waters": len(topology.settle_atoms),
        "constraints": topology.n_constraints,
        "update_groups": len(topology.group_offset) - 1,
        "massless": int(np.count_nonzero(topology.mass == 0)),
    }


def census_text(counts: dict[str, Any]) -> str:
    """The same as a table."""
    lines = [counts["title"], f"{'molecules':<20}{'count':>10}{'atoms each':>14}"]
    lines += [f"  {row['name']:<18}{row['count']:>10}{row['atoms']:>14}" for row in counts["molecules"]]
    lines.append(f"{'terms':<20}{'count':>10}{'parameters':>14}")
    lines += [
        f"  {kind:<18}{row['terms']:>10}{row['parameters']:>14}" for kind, row in counts["terms"].items()
    ]
    lines.append("all")
    rest = (key for key, value in counts.items() if isinstance(value, int | float))
    lines += [
        f"  {key.replace('_', ' '):<18}{counts[key]:>10g}" for key in rest if key not in ("charge", "mass")
    ]
    lines += [
        f"  {'charge [e]':<18}{counts['charge']:>10.4f}",
        f"  {'mass [amu]':<18}{counts['mass']:>10.2f}",
    ]
    return "\n".join(lines)
