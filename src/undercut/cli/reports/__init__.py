"""What is printed about a model, and what its file remembers of the run."""
