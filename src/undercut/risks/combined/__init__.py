"""Risks made of other risks or of functions."""
