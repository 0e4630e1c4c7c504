"""Rigid water (SETTLE)."""
