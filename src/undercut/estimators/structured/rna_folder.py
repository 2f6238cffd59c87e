"""RNA secondary structure with a certificate."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from undercut.contracts import Solver
from undercut.errors import DataError
from undercut.estimators.cluster.examples import examples_there
from undercut.estimators.cluster.lazy import mapped_bag
from undercut.estimators.cluster.partitions import is_collection
from undercut.estimators.structured.structured_estimator import StructuredEstimator
from undercut.io.dot_bracket import dot_bracket, partners
from undercut.io.rna import RnaData
from undercut.maps.parts import Parts
from undercut.measures.base_pairs import pair_scores
from undercut.risks import FoldingModel
from undercut.risks.structured.folding.grammar import check_structure, cleaned
from undercut.trace import Callbacks
from undercut.types import Array, FloatArray

LETTERS = frozenset("ACGU")


class RnaFolder(StructuredEstimator):
    """Nested structures of RNA: ``min_w lam/2 |w|^2 + mean loss of a sequence``, 336 weights as in CONTRAfold.

    Sequences are texts of A, C, G, U; T is read as U, lower case as upper case, and any other letter pairs with none.
    Structures are texts of dots and brackets.  ``load_rna`` reads files of either.

    Parameters
    ----------
    loss : "crf" or "margin"
        Conditional random field, or large margin.
    lam : float
        Lambda, beside the mean loss of a sequence.
    delta : "missed", "pairs" or "hamming"
        What the margin of a wrong structure is: the share of true pairs that it misses (Do, Le, Foo 2009); missed and
        false pairs, divided by the number of true ones; or the share of positions with a wrong partner.
    decode : "mea" or "viterbi"
        Predict the structure of maximum expected accuracy, or the one of the highest score.
    gamma : float
        For "mea": what a right pair is worth beside two right unpaired positions.  A larger gamma predicts more pairs.
    outside : "drop" or "refuse"
        What to do with true pairs that are not AU, CG or GU, hairpins under 3 and internal loops over 30 positions.
    drop_pseudoknots : bool
        Whether to leave out true pairs that cross others instead of refusing them.
    solver, n_jobs, gap_rel, max_steps, max_seconds, warm_start, verbose, random_state, callbacks :
        as in ``StructuredEstimator``

    Attributes
    ----------
    coef_ : array of shape (336,); ``parameter_names`` tells what they are
    left_out_ : dict
        How many letters other than A, C, G, U and how many pairs of each kind the fit left out; a warning tells it too.
    objective_, lower_bound_, gap_, certificate_, n_iter_, result_ : as in ``LinearClassifier``

    Examples
    --------
    >>> X, y = ["GGGAAAUCCC", "CCGAAACGG", "AAAAAA"], ["(((....)))", "(((...)))", "......"]
    >>> folder = RnaFolder(lam=0.01).fit(X, y)
    >>> folder.predict(["ggcaaaagcc"]), folder.score(X, y), folder.gap_ <= 0.01 * folder.objective_
    (['(((....)))'], 1.0, True)
    """

    left_out_: dict[str, int]
    _fitted: ClassVar[tuple[str, ...]] = ("coef_", "left_out_")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{name: rule for name, rule in StructuredEstimator._parameter_constraints.items() if name != "model"},
        "delta": [StrOptions({"missed", "pairs", "hamming"})],
        "decode": [StrOptions({"viterbi", "mea"})],
        "gamma": [Interval(Real, 0.0, None, closed="neither")],
        "outside": [StrOptions({"drop", "refuse"})],
        "drop_pseudoknots": ["boolean"],
    }

    def __init__(
        self,
        loss: Literal["crf", "margin"] = "crf",
        lam: float = 0.1,
        *,
        delta: Literal["missed", "pairs", "hamming"] = "missed",
        decode: Literal["mea", "viterbi"] = "mea",
        gamma: float = 6.0,
        outside: Literal["drop", "refuse"] = "drop",
        drop_pseudoknots: bool = False,
        solver: str | Solver[Any, Any, Any] = "auto",
        n_jobs: int = 1,
        gap_rel: float = 1e-2,
        max_steps: int = 10_000,
        max_seconds: float | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
        callbacks: Callbacks = None,
    ) -> None:
        self._keep(locals())

    def _model(self) -> FoldingModel:
        return FoldingModel(self.delta)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """What each weight is, as CONTRAfold calls it."""
        return self._model().parameter_names

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to sequences and their structures, or to ``RnaData`` that has both.

        X, y and the weights may be Dask bags, whose sequences stay on the workers.
        """
        cleaner = Cleaner(self.outside, self.drop_pseudoknots)
        if is_collection(X) or isinstance(X, Parts):
            examples = X if isinstance(X, Parts) else examples_there(X, y, sample_weight)
            parts = examples.made(_cleaned, cleaner)
            left_out = sum(parts.each(_left_out), Counter[str]())
            risk, has_pairs = self._risk_there(parts.made(_examples)), any(parts.each(_has_pairs))
        else:
            clean = cleaner(X, y)
            left_out, has_pairs = clean.left_out, clean.has_pairs
            risk = self._risk(clean.sequences, clean.Y, sample_weight)
        if not has_pairs:
            raise DataError("at least one structure must have a pair that the model knows; got none")
        self.left_out_ = {kind: count for kind, count in left_out.items() if count}
        if self.left_out_:
            kinds = ", ".join(f"{count} {kind}" for kind, count in self.left_out_.items())
            warnings.warn(f"left out of the structures: {kinds}", UserWarning, stacklevel=2)
        self.feature_names_in_ = np.array(self.parameter_names, dtype=object)
        return self._fit_risk(risk)

    def predict(self, X: Any) -> Any:
        """The structure of every sequence as dots and brackets; of a Dask bag a bag, computed when it is asked for."""
        if is_collection(X):
            return mapped_bag(self, "predict", X)
        return [dot_bracket(y) for y in self._partners(X)]

    def _partners(self, X: Any) -> list[Array]:
        model = self._model()
        method = model.predict if self.decode == "viterbi" else partial(model.most_accurate, gamma=self.gamma)
        return self._each(method, _sequences(X))

    def predict_pairs(self, X: Any) -> list[FloatArray]:
        """The probability of every pair: a symmetric matrix for each sequence."""
        return self.predict_marginals(_sequences(X))

    def score(self, X: Any, y: Any = None) -> float:
        """F of all pairs together: the harmonic mean of the shares of true pairs found and of predicted pairs right."""
        if is_collection(X):
            found = examples_there(X, y).each(_folded, self)
            return pair_scores(*([each for some in lists for each in some] for lists in zip(*found, strict=True))).f
        return pair_scores(*_folded({"X": X, "Y": y}, self)).f


class Cleaned(NamedTuple):
    """Sequences with structures as partners, inside the grammar, and what was left out of them."""

    sequences: list[str]
    Y: list[Array]
    left_out: Counter[str]
    sample_weight: Any = None

    @property
    def has_pairs(self) -> bool:
        """Whether any structure has a pair."""
        return any((truth >= 0).any() for truth in self.Y)


class Cleaner(NamedTuple):
    """What becomes of pairs that the model cannot score; see ``RnaFolder``."""

    outside: str
    drop_pseudoknots: bool

    def __call__(self, X: Any, y: Any) -> Cleaned:
        """The sequences with their structures inside the grammar."""
        sequences, truths = _given(X, y)
        left_out = Counter({"letters": sum(letter not in LETTERS for x in sequences for letter in x)})
        examples = enumerate(zip(sequences, truths, strict=True))
        return Cleaned(sequences, [self._inside(i, x, truth, left_out) for i, (x, truth) in examples], left_out)

    def _inside(self, i: int, x: str, structure: str, left_out: Counter[str]) -> Array:
        """The structure as partners, inside the grammar; counts what was left out."""
        try:
            y = partners(structure, drop_pseudoknots=self.drop_pseudoknots)
            left_out["crossing pairs"] += len(structure.translate(_NO_DOTS)) // 2 - int((y >= 0).sum()) // 2
            if self.outside == "refuse":
                check_structure(x, y)
        except DataError as error:
            raise DataError(f"sequence {i}: {error}") from None
        clean = cleaned(x, y)
        left_out["pairs other than AU, CG, GU"] += clean.n_noncanonical
        left_out["pairs around short hairpins"] += clean.n_short_hairpins
        left_out["pairs at long loops"] += clean.n_long_loops
        return clean.y


def _cleaned(examples: dict[str, Any], cleaner: Cleaner) -> Cleaned:
    return cleaner(examples["X"], examples["Y"])._replace(sample_weight=examples.get("sample_weight"))


def _left_out(clean: Cleaned) -> Counter[str]:
    return clean.left_out


def _has_pairs(clean: Cleaned) -> bool:
    return clean.has_pairs


def _examples(clean: Cleaned) -> dict[str, Any]:
    weight = {} if clean.sample_weight is None else {"sample_weight": clean.sample_weight}
    return {"X": clean.sequences, "Y": clean.Y} | weight


def _folded(examples: dict[str, Any], folder: RnaFolder) -> tuple[list[Array], list[Array]]:
    """True and predicted partners."""
    sequences, truths = _given(examples["X"], examples["Y"])
    return [partners(truth, drop_pseudoknots=True) for truth in truths], folder._partners(sequences)


def _given(X: Any, y: Any) -> tuple[list[str], list[str]]:
    """Sequences and their structures, of equal lengths."""
    if isinstance(X, RnaData):
        y = X.structures if y is None else y
    sequences = _sequences(X)
    if y is None:
        raise DataError("y must have a structure for every sequence; got none")
    if len(y) != len(sequences):
        raise DataError(f"y must have one structure per sequence; got {len(y)} for {len(sequences)}")
    for i, (x, structure) in enumerate(zip(sequences, y, strict=True)):
        if not isinstance(structure, str):
            raise DataError(f"sequence {i}: a structure must be a text of dots and brackets; got {structure!r}")
        if len(structure) != len(x):
            raise DataError(
                f"sequence {i}: a structure must be as long as its sequence; got {len(structure)} for {len(x)}"
            )
    return sequences, list(y)


_NO_DOTS = str.maketrans("", "", ".-_:,~")


def _sequences(X: Any) -> list[str]:
    """Sequences in upper case with U for T; ``DataError`` for what is not a sequence."""
    given: Sequence[Any] = X.sequences if isinstance(X, RnaData) else X
    if isinstance(given, str):
        raise DataError(f"X must be a list of sequences; got a single text: use [{given[:10]!r}]")
    sequences = []
    for i, x in enumerate(given):
        if not isinstance(x, str) or not x:
            raise DataError(f"sequence {i}: must be a text of at least one letter; got {x!r}")
        if not (x.isascii() and x.isalpha()):
            bad = next(at for at, letter in enumerate(x) if not (letter.isascii() and letter.isalpha()))
            raise DataError(f"sequence {i}: must have letters only; got {x[bad]!r} at position {bad + 1}")
        sequences.append(x.upper().replace("T", "U"))
    if not sequences:
        raise DataError("there must be at least one sequence; got none")
    return sequences
