"""Clusters and pair lists."""
