"""Estimators with scikit-learn's manners."""

from undercut.estimators.certified import CertifiedEstimator
from undercut.estimators.kernel_classifier import KernelClassifier
from undercut.estimators.linear_classifier import LinearClassifier
from undercut.estimators.linear_cv import LinearClassifierCV, LinearRegressorCV
from undercut.estimators.linear_model import lam_from_C
from undercut.estimators.linear_regressor import LinearRegressor
from undercut.estimators.multivariate_classifier import MultivariateClassifier
from undercut.estimators.novelty_detector import NoveltyDetector
from undercut.estimators.online_classifier import OnlineClassifier
from undercut.estimators.online_regressor import OnlineRegressor
from undercut.estimators.onnx_export import export_onnx
from undercut.estimators.ranker import Ranker
from undercut.estimators.rna_folder import RnaFolder
from undercut.estimators.sequence_labeler import SequenceLabeler
from undercut.estimators.structured_cv import MultivariateClassifierCV, RankerCV, SequenceLabelerCV
from undercut.estimators.structured_estimator import StructuredEstimator
from undercut.estimators.transductive_classifier import TransductiveClassifier

__all__ = [
    "CertifiedEstimator",
    "KernelClassifier",
    "LinearClassifier",
    "LinearClassifierCV",
    "LinearRegressor",
    "LinearRegressorCV",
    "MultivariateClassifier",
    "MultivariateClassifierCV",
    "NoveltyDetector",
    "OnlineClassifier",
    "OnlineRegressor",
    "Ranker",
    "RankerCV",
    "RnaFolder",
    "SequenceLabeler",
    "SequenceLabelerCV",
    "StructuredEstimator",
    "TransductiveClassifier",
    "export_onnx",
    "lam_from_C",
]
