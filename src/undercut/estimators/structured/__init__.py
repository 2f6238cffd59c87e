"""Models of sequences, foldings and any structure that a user describes."""
