"""OpenMM's System, State and Integrator, in memory or as XML."""

from pulsemd.io.openmm.system import OpenMMSystem, read_openmm, supported_forces

__all__ = ["OpenMMSystem", "read_openmm", "supported_forces"]
