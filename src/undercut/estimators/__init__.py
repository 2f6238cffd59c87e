"""Estimators with scikit-learn's manners."""

from undercut.estimators.certified import CertifiedEstimator
from undercut.estimators.files.onnx_export import export_onnx
from undercut.estimators.kernels.kernel_classifier import KernelClassifier
from undercut.estimators.linear.linear_classifier import LinearClassifier
from undercut.estimators.linear.linear_cv import LinearClassifierCV, LinearRegressorCV
from undercut.estimators.linear.linear_model import lam_from_C
from undercut.estimators.linear.linear_regressor import LinearRegressor
from undercut.estimators.linear.multivariate_classifier import MultivariateClassifier
from undercut.estimators.linear.novelty_detector import NoveltyDetector
from undercut.estimators.linear.transductive_classifier import TransductiveClassifier
from undercut.estimators.online.online_classifier import OnlineClassifier
from undercut.estimators.online.online_regressor import OnlineRegressor
from undercut.estimators.ranking.ranker import Ranker
from undercut.estimators.structured.hmm_classifier import HmmClassifier
from undercut.estimators.structured.hmm_recognizer import HmmRecognizer
from undercut.estimators.structured.rna_folder import RnaFolder
from undercut.estimators.structured.sequence_labeler import SequenceLabeler
from undercut.estimators.structured.structured_cv import MultivariateClassifierCV, RankerCV, SequenceLabelerCV
from undercut.estimators.structured.structured_estimator import StructuredEstimator

__all__ = [
    "CertifiedEstimator",
    "HmmClassifier",
    "HmmRecognizer",
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
