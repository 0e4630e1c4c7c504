"""Systems that come with the package, and water boxes of any size built from them."""

from pulsemd.systems.catalog import SystemFiles, list_systems, system_files
from pulsemd.systems.water import WaterBox, build_water

__all__ = ["SystemFiles", "WaterBox", "build_water", "list_systems", "system_files"]
