"""Bundles of planes and the master problem over them."""

from undercut.bundles.bundle import Bundle, Model
from undercut.bundles.local import Kind, LocalBundle, Trial

__all__ = ["Bundle", "Kind", "LocalBundle", "Model", "Trial"]
