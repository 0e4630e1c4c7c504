"""Ground floor: errors, units, caches. Imports nothing else of the package."""
