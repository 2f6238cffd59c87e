"""Solvers that change one coordinate at a time."""
