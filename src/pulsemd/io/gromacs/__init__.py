"""Readers of GROMACS files: .gro, .top, .mdp."""

from pulsemd.io.gromacs.gro import GroFile, read_gro
from pulsemd.io.gromacs.gro_writer import write_gro
from pulsemd.io.gromacs.mdp import read_settings
from pulsemd.io.gromacs.mdp_writer import to_mdp
from pulsemd.io.gromacs.system import read_system, read_top

__all__ = ["GroFile", "read_gro", "read_settings", "read_system", "read_top", "to_mdp", "write_gro"]
