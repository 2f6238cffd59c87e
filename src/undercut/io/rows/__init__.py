"""Rows of a file as memory-mapped arrays on disk, written once."""
