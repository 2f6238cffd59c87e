"""Bundles of planes and the master problem over them."""

from undercut.bundles.bundle import Bundle, Model

__all__ = ["Bundle", "Model"]
