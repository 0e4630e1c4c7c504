"""Readers of GROMACS files: .gro, .top, .mdp."""
