"""Traced vectors: running a pair formula over them writes the code of a vector kernel."""
