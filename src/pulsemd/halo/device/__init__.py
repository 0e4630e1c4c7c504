"""The halo exchange on GPUs, started by the GPUs themselves: symmetric memory, channels and all-reduce."""
