"""Risks of several classes, as functions of a score for each."""
