"""Bundled systems."""
