"""Risks of structured predictions: chains, and any model with a decoder."""
