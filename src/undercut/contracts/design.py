"""The design matrix X as a linear operator.

``Design`` is all that a linear risk asks of X.  The other contracts add one capability each; a risk offers a Hessian,
mini-batches or a compiled pass only if its design has the capability that it needs.  Dense arrays and CSR matrices have
all of them.

Arguments are not modified and not kept.  What a method returns is new memory, which the caller may overwrite.
Calls on one object come from one thread at a time.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from undercut.kinds import Capability
from undercut.types import Array, FloatArray


class Rows(NamedTuple):
    """Row i is ``values[start : stop]`` at ``columns[start - offset : stop - offset]``, then ``constant``.

    CSR: start and stop from ``indptr``, offset 0.  Dense: start ``i * columns.size``, which is the offset too.
    The arrays are views of the stored matrix, read-only: contiguous float32 or float64 values, int32 or int64 columns.

    >>> import numpy as np
    >>> Rows(False, np.array([0, 1]), np.array([3]), np.array([2.5]), constant=1.0).values  # one row: 2.5 at column 3
    array([2.5])
    """

    dense: bool
    indptr: Array
    columns: Array
    values: Array
    constant: float


@runtime_checkable
class Design(Protocol, metaclass=Capability):
    """An n x d matrix X by its products: one row per score, one column per parameter.

    ``scipy.sparse.linalg.LinearOperator`` fulfils it.

    >>> import numpy as np
    >>> from undercut import Hinge, L2, LinearRisk, minimize
    >>> class Differences:  # <w, x_i> = w_i - w_{i+1}, without storing a matrix
    ...     shape = (3, 4)
    ...     def matvec(self, w):
    ...         return w[:-1] - w[1:]
    ...     def rmatvec(self, g):
    ...         return np.append(g, 0.0) - np.append(0.0, g)
    >>> minimize(LinearRisk(Differences(), np.array([1.0, 1.0, -1.0]), Hinge()), L2(0.1)).w.round(1)
    array([ 1.,  0., -1.,  0.])
    """

    shape: tuple[int, int]

    def matvec(self, w: FloatArray) -> FloatArray:
        """``X w`` for a float64 w of shape (d,): float64, shape (n,)."""

    def rmatvec(self, g: FloatArray) -> FloatArray:
        """``X' g`` for a float64 g of shape (n,): float64, shape (d,)."""


@runtime_checkable
class BlockDesign(Design, Protocol):
    """A design that multiplies with several vectors at once; others are asked for one product per vector.

    >>> import numpy as np
    >>> from undercut.maps.design import as_design
    >>> as_design(np.eye(2)).matmat(np.array([[1.0, 2.0]]))
    array([[1.],
           [2.]])
    """

    def matmat(self, W: FloatArray) -> FloatArray:
        """``X W'`` for a W of shape (k, d): shape (n, k)."""

    def rmatmat(self, G: FloatArray) -> FloatArray:
        """``G' X`` for a G of shape (n, k): shape (k, d)."""


@runtime_checkable
class WeightedGramDesign(Design, Protocol):
    """A design that makes a smooth risk's Hessian.

    >>> import numpy as np
    >>> from undercut.maps.design import as_design
    >>> as_design(np.eye(2)).weighted_gram(np.array([1.0, 3.0]))
    array([[1., 0.],
           [0., 3.]])
    """

    def weighted_gram(self, g: FloatArray) -> FloatArray:
        """``X' diag(g) X`` for non-negative g of shape (n,): dense, shape (d, d)."""


@runtime_checkable
class GramProductDesign(Design, Protocol):
    """A design that multiplies with ``X' diag(g) X`` in one pass: what products with a Hessian need.

    >>> import numpy as np
    >>> from undercut.maps.design import as_design
    >>> design, g = as_design(np.array([[1.0, 2.0], [0.0, 1.0]])), np.array([1.0, 3.0])
    >>> design.gram_product(g, np.array([1.0, 0.0])), design.squared_rmatvec(g)
    (array([1., 2.]), array([1., 7.]))
    """

    def gram_product(self, g: FloatArray, v: FloatArray) -> FloatArray:
        """``X' diag(g) X v`` for g of shape (n,) and v of shape (d,): float64, shape (d,)."""

    def squared_rmatvec(self, g: FloatArray) -> FloatArray:
        """``sum_i g_i x_ij^2`` for every column j, the diagonal of ``X' diag(g) X``: float64, shape (d,)."""


@runtime_checkable
class RowDesign(Design, Protocol):
    """A design whose rows can be selected: what mini-batches and shards need.

    >>> import numpy as np
    >>> from undercut.maps.design import as_design
    >>> as_design(np.eye(3)).take(np.array([2, 0])).matvec(np.arange(3.0))
    array([2., 0.])
    """

    def take(self, rows: Array) -> Design:
        """The design of some of the rows, in this order; an integer array that may repeat rows."""


@runtime_checkable
class StoredDesign(Design, Protocol):
    """A design whose entries lie in memory row by row: what compiled loops over samples need.

    >>> import numpy as np
    >>> from undercut.maps.design import as_design
    >>> as_design(np.array([[1.0, 2.0], [3.0, 4.0]])).rows().values
    array([1., 2., 3., 4.])
    """

    def rows(self) -> Rows:
        """How a loop finds the entries of a row; valid as long as the design."""
