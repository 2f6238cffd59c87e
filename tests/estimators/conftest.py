"""Data sets of scikit-learn with features of mean 0 and variance 1."""

import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import scale


@pytest.fixture(scope="session")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


@pytest.fixture(scope="session")
def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X), y
