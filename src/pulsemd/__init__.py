"""PulseMD: molecular dynamics on many ranks and GPUs, from Python.

Importing the package needs neither a GPU nor MPI; each optional part is imported where it is used.
"""

__version__ = "0.1.0"
