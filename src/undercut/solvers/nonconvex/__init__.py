"""Solvers for risks that are not convex."""
