"""scikit-learn's own checks, on every loss the estimators name."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from undercut import LinearClassifier, LinearRegressor


@parametrize_with_checks(
    [LinearClassifier(loss=loss) for loss in LinearClassifier._losses]
    + [LinearRegressor(loss=loss) for loss in LinearRegressor._losses]
)
def test_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)
