"""Risks of rankings by query."""
