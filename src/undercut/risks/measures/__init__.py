"""Risks of performance measures of all labels together."""
