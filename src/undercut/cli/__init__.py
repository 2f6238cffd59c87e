"""The command line ``undercut``."""

from undercut.cli.app import main

__all__ = ["main"]
