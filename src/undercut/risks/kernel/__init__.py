"""Risks of functions in the space of a kernel."""
