"""Solvers for smooth risks."""
