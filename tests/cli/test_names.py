"""The names in the help are those of the tables that define them."""

from __future__ import annotations

import pytest

from undercut.cli.models import MODELS, losses
from undercut.cli.options.names import NAMES
from undercut.estimators import RnaFolder, SequenceLabeler
from undercut.estimators.kernels.kernel_classifier import SOLVERS as KERNEL_SOLVERS
from undercut.maps.gram import KERNELS
from undercut.measures.names import EXAMPLES
from undercut.solvers import SOLVERS
from undercut.solvers.online import ONLINE_SOLVERS

TABLES = {
    "losses": MODELS[-1].losses(),
    "sequence_losses": losses(SequenceLabeler),
    "rna_losses": losses(RnaFolder),
    "measures": EXAMPLES,
    "solvers": SOLVERS,
    "kernels": KERNELS,
    "kernel_solvers": KERNEL_SOLVERS,
    "online_solvers": ONLINE_SOLVERS,
}


@pytest.mark.parametrize("table", sorted(NAMES.keys() | TABLES.keys()))
def test_the_help_names_exactly_what_the_table_defines(table):
    assert NAMES[table] == ", ".join(TABLES[table])
