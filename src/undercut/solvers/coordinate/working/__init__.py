"""What ``WorkingSet`` is made of: problems, their bounds, and columns of X with models in their parameters."""
