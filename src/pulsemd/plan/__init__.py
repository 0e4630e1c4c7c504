"""How a system would be cut into ranks, without a run."""
