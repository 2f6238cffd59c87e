"""Estimators with scikit-learn's manners."""

from undercut.estimators.linear_classifier import LinearClassifier
from undercut.estimators.linear_model import lam_from_C
from undercut.estimators.linear_regressor import LinearRegressor

__all__ = ["LinearClassifier", "LinearRegressor", "lam_from_C"]
