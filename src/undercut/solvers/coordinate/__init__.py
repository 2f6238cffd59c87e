"""Solvers that move one dual variable, or one block of them, at a time."""
