"""scikit-learn's own checks, on every loss the estimators name."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from undercut import LinearClassifier, LinearRegressor, NoveltyDetector, OnlineClassifier, OnlineRegressor, Ranker

BATCH = [LinearClassifier(loss=loss) for loss in LinearClassifier._losses] + [
    LinearRegressor(loss=loss) for loss in LinearRegressor._losses
]
JOINT = [
    LinearClassifier("hinge", multi_class="crammer_singer"),
    LinearClassifier("logistic", multi_class="multinomial"),
]
ONLINE = [
    OnlineClassifier(),
    OnlineClassifier("logistic", solver="adaptive"),
    OnlineRegressor(),
    OnlineRegressor("huber"),
]


class SingleQueryRanker(Ranker):
    """A ranker that is fitted without ``qid``, as the checks do it: all documents are one query."""

    def fit(self, X, y, qid=None):
        """Fit to one query."""
        return super().fit(X, y, qid=np.zeros(np.shape(X)[0] if hasattr(X, "shape") else len(X)))

    def score(self, X, y, qid=None):
        """NDCG@10 of one query."""
        return super().score(X, y, qid=np.zeros(len(y)))


RANK_LOSSES = ("pairwise", "weighted_pairwise", "ndcg@10", "map", "mrr", "ordinal", "structured_ndcg@5")
RANKERS = [SingleQueryRanker(loss) for loss in RANK_LOSSES]


def alike_on_average(estimator):
    """Where weights and repeated samples differ: in the order of online samples, and in the signs of zeros.

    A sample with weight 2 is drawn once with a double step, a repeated one twice.  Support vectors of a novelty
    detector lie on the margin, where rounding has the last word.
    """
    if isinstance(estimator, NoveltyDetector):
        reason = "samples on the margin fall to either side"
    elif isinstance(estimator, OnlineClassifier | OnlineRegressor):
        reason = "the order of the samples is random"
    else:
        return {}
    return {
        "check_sample_weight_equivalence_on_dense_data": reason,
        "check_sample_weight_equivalence_on_sparse_data": reason,
    }


@pytest.mark.filterwarnings("ignore:the origin lies among the samples")  # which some checks draw around it
@pytest.mark.filterwarnings("ignore::undercut.errors.ConstantModelWarning")  # random labels
@parametrize_with_checks(
    [*BATCH, *JOINT, *ONLINE, *RANKERS, NoveltyDetector()], expected_failed_checks=alike_on_average
)
def test_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)
