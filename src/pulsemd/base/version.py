"""The version of the package, for everything below the command line that names it."""

from typing import Final

VERSION: Final = "0.1.0"
