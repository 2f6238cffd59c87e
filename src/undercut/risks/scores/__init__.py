"""Risks of scores: linear models, several classes, novelty, quantiles, unlabelled samples."""
