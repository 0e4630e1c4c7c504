"""Lattice coordinates, the grid of ranks, ownership, migration and halo-plan building."""
