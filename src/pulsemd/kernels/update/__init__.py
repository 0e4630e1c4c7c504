"""Integration of positions and velocities, thermostats, random numbers."""
