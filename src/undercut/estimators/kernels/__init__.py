"""Kernel machines, and the choice of their parameters."""
