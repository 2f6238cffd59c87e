"""Coordinate descent: on the dual of sums, in pairs for kernel machines, on working sets of parameters."""
