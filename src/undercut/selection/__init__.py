"""Which lambda: regularization paths and cross-validation, every point with a certificate."""

from undercut.selection.path import Path, regularization_path

__all__ = ["Path", "regularization_path"]
