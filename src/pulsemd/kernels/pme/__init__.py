"""Reciprocal-space part of electrostatics: smooth particle-mesh Ewald (PME)."""
