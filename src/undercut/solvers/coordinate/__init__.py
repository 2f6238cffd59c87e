"""Coordinate descent on the dual problem."""
