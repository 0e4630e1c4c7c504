"""Parameters of all terms as tables; computes nothing."""
