"""Ground floor: errors, units, logging. Imports nothing else of the package."""
