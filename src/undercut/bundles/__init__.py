"""Bundles of planes and the master problem over them."""

from undercut.bundles.bundle import Bundle, Model
from undercut.bundles.dual_bundle import DualBundle, bundle_for
from undercut.bundles.local import Kind, LocalBundle, Trial

__all__ = ["Bundle", "DualBundle", "Kind", "LocalBundle", "Model", "Trial", "bundle_for"]
