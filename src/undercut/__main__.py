"""``python -m undercut`` is the command ``undercut``."""

from undercut.cli import main

main()
