"""Rungs of the ladder on GPUs whose exchanges the host drives, the processes they all run in, and the choice of one."""
