"""Steps as tuples of named phases: their times, their traces, and their CUDA graphs."""
