"""The names in the help, from the tables that define them."""

from __future__ import annotations

from undercut.cli.models import MODELS, losses
from undercut.estimators import SequenceLabeler
from undercut.estimators.kernel_classifier import SOLVERS as KERNEL_SOLVERS
from undercut.maps.gram import KERNELS
from undercut.solvers import SOLVERS
from undercut.solvers.online import ONLINE_SOLVERS


def names() -> dict[str, str]:
    """What stands for ``{losses}``, ``{solvers}`` and so on in the help of an option."""
    tables = {
        "losses": MODELS[-1].losses(),
        "sequence_losses": losses(SequenceLabeler),
        "solvers": SOLVERS,
        "kernels": KERNELS,
        "kernel_solvers": KERNEL_SOLVERS,
        "online_solvers": ONLINE_SOLVERS,
    }
    return {name: ", ".join(table) for name, table in tables.items()}
