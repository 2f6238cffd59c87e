"""Loops that NumPy and SciPy cannot express, compiled by Numba; nothing else imports Numba."""
