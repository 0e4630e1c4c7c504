"""What a run tells its user: progress, phase table, summary."""
