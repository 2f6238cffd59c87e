"""The names that people use, each from its room."""

from .callbacks import (
    Checkpoint as Checkpoint,
)
from .contracts import (
    Cut as Cut,
)
from .estimators import (
    HmmClassifier as HmmClassifier,
    HmmRecognizer as HmmRecognizer,
    KernelClassifier as KernelClassifier,
    LinearClassifier as LinearClassifier,
    LinearClassifierCV as LinearClassifierCV,
    LinearRegressor as LinearRegressor,
    LinearRegressorCV as LinearRegressorCV,
    MultivariateClassifier as MultivariateClassifier,
    MultivariateClassifierCV as MultivariateClassifierCV,
    NoveltyDetector as NoveltyDetector,
    OnlineClassifier as OnlineClassifier,
    OnlineRegressor as OnlineRegressor,
    Ranker as Ranker,
    RankerCV as RankerCV,
    RnaFolder as RnaFolder,
    SequenceLabeler as SequenceLabeler,
    SequenceLabelerCV as SequenceLabelerCV,
    TransductiveClassifier as TransductiveClassifier,
    export_onnx as export_onnx,
    lam_from_C as lam_from_C,
)
from .io import (
    load_model as load_model,
    load_svmlight as load_svmlight,
    save_model as save_model,
)
from .losses import (
    Absolute as Absolute,
    EpsilonInsensitive as EpsilonInsensitive,
    Exponential as Exponential,
    Hinge as Hinge,
    Huber as Huber,
    HuberHinge as HuberHinge,
    Logistic as Logistic,
    Poisson as Poisson,
    Quantile as Quantile,
    Ramp as Ramp,
    Squared as Squared,
    SquaredHinge as SquaredHinge,
)
from .maps import (
    stream_svmlight as stream_svmlight,
)
from .regularizers import (
    L1 as L1,
    L2 as L2,
    ElasticNet as ElasticNet,
)
from .risks import (
    ChainRisk as ChainRisk,
    FoldingModel as FoldingModel,
    FunctionRisk as FunctionRisk,
    LikelihoodRisk as LikelihoodRisk,
    LinearRisk as LinearRisk,
    MulticlassRisk as MulticlassRisk,
    MultivariateRisk as MultivariateRisk,
    NdcgRisk as NdcgRisk,
    PairwiseRisk as PairwiseRisk,
    StructuredRisk as StructuredRisk,
)
from .selection import (
    regularization_path as regularization_path,
)
from .solvers import (
    CuttingPlane as CuttingPlane,
    Lbfgs as Lbfgs,
    LevelBundle as LevelBundle,
    LineSearchBundle as LineSearchBundle,
    Newton as Newton,
    NonconvexBundle as NonconvexBundle,
    ProximalBundle as ProximalBundle,
    Stop as Stop,
    minimize as minimize,
)
from .trace import (
    Progress as Progress,
    Result as Result,
    Status as Status,
)

__version__: str
