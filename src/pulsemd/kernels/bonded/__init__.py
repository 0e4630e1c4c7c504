"""Bonded terms: one function per kind, in float64 from exact lattice differences."""
