"""Atoms, molecules and exclusions as frozen records of arrays."""
