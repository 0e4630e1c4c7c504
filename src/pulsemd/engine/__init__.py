"""State, simulation, integrators, coupling."""
