"""The step as a tuple of named phases."""
