"""scikit-learn's own checks, on every loss the estimators name."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from undercut import LinearClassifier, LinearRegressor, OnlineClassifier, OnlineRegressor, Ranker

BATCH = [LinearClassifier(loss=loss) for loss in LinearClassifier._losses] + [
    LinearRegressor(loss=loss) for loss in LinearRegressor._losses
]
ONLINE = [
    OnlineClassifier(),
    OnlineClassifier("logistic", solver="adaptive"),
    OnlineRegressor(),
    OnlineRegressor("huber"),
]
RANKERS = [Ranker(loss) for loss in ("pairwise", "ndcg@10", "ndcg@5", "precision@3", "mrr", "ordinal")]


def random_order(estimator):
    """A sample with weight 2 is drawn once with a double step, a repeated one twice: alike on average only."""
    if not isinstance(estimator, OnlineClassifier | OnlineRegressor):
        return {}
    reason = "the order of the samples is random"
    return {
        "check_sample_weight_equivalence_on_dense_data": reason,
        "check_sample_weight_equivalence_on_sparse_data": reason,
    }


@parametrize_with_checks(BATCH + ONLINE + RANKERS, expected_failed_checks=random_order)
def test_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)
