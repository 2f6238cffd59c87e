"""Estimators with scikit-learn's manners."""

from undercut.estimators.linear_classifier import LinearClassifier
from undercut.estimators.linear_model import lam_from_C
from undercut.estimators.linear_regressor import LinearRegressor
from undercut.estimators.model_file import load_model, save_model

__all__ = ["LinearClassifier", "LinearRegressor", "lam_from_C", "load_model", "save_model"]
