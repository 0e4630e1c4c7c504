"""Cluster-pair non-bonded forces from traced pair formulas."""
