"""Systems that come with the package, and boxes of any size built from the liquids among them."""

from pulsemd.systems.boxes import BUILDABLE, BuiltSystem, build_system
from pulsemd.systems.catalog import SystemFiles, list_systems, system_files

__all__ = ["BUILDABLE", "BuiltSystem", "SystemFiles", "build_system", "list_systems", "system_files"]
