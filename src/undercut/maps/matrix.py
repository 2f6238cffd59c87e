"""What dense and CSR matrices have in common: every capability of a design."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol, runtime_checkable

from typing_extensions import override

from undercut.contracts import BlockDesign, GramProductDesign, RowDesign, StoredDesign, WeightedGramDesign
from undercut.types import Array


@runtime_checkable
class Matrix(BlockDesign, WeightedGramDesign, GramProductDesign, RowDesign, StoredDesign, Protocol):
    """A design matrix whose entries are in memory."""

    @override
    @abstractmethod
    def take(self, rows: Array) -> Matrix:
        """The matrix of some of the rows."""
