"""Pipelines of scikit-learn's transformers and our estimators come back from a model file with equal predictions."""

import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, chi2
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from tests.model_files import edit

from undercut import KernelClassifier, LinearClassifier, LinearRegressor, load_model, save_model
from undercut.errors import ModelFileError

pytestmark = pytest.mark.filterwarnings("ignore::undercut.errors.ConstantModelWarning")  # columns that say nothing

rng = np.random.default_rng(0)
NUMBERS = rng.lognormal(size=(60, 4))
HOLES = np.where(rng.random((60, 4)) < 0.1, np.nan, NUMBERS)
WORDS = [" ".join(rng.choice(list("abcdefghij"), 8)) + f" w{at % 70} é" for at in range(60)]
COUNTS = [{"length": float(at), f"color={at % 3}": 1.0} for at in range(60)]
Y = np.arange(60) % 3
TABLE = {"age": rng.normal(40, 10, 60), "size": HOLES[:, 0], "color": rng.choice(["red", "blue", "green"], 60)}
FRAME = pd.DataFrame(TABLE)


def columns(**options):
    numeric = make_pipeline(SimpleImputer(), StandardScaler())
    parts = [("numbers", numeric, ["age", "size"]), ("names", OneHotEncoder(handle_unknown="ignore"), ["color"])]
    return ColumnTransformer(parts, **options)


PIPELINES = {
    "standard": ([StandardScaler()], NUMBERS),
    "min_max": ([MinMaxScaler()], NUMBERS),
    "max_abs": ([MaxAbsScaler()], NUMBERS),
    "robust": ([RobustScaler()], NUMBERS),
    "normalizer": ([Normalizer()], NUMBERS),
    "quantile": ([QuantileTransformer(n_quantiles=20)], NUMBERS),
    "power": ([PowerTransformer()], NUMBERS),
    "polynomial": ([MinMaxScaler(), PolynomialFeatures(2)], NUMBERS),
    "log": ([FunctionTransformer(np.log1p)], NUMBERS),
    "imputer": ([SimpleImputer(strategy="median", add_indicator=True), StandardScaler()], HOLES),
    "pca": ([StandardScaler(), PCA(2, random_state=0)], NUMBERS),
    "svd": ([StandardScaler(), TruncatedSVD(2, random_state=0)], NUMBERS),
    "best": ([SelectKBest(chi2, k=2)], NUMBERS),
    "one_hot": ([OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=15)], FRAME[["color"]]),
    "one_hot_dropped": ([OneHotEncoder(drop="first", min_frequency=15)], FRAME[["color"]]),
    "ordinal": ([OrdinalEncoder()], FRAME[["color"]]),
    "counts": ([CountVectorizer(ngram_range=(1, 2), stop_words=["a", "b"]), TfidfTransformer()], WORDS),
    "tfidf": ([TfidfVectorizer(sublinear_tf=True, dtype=np.float32)], WORDS),
    "hashing": ([HashingVectorizer(n_features=64)], WORDS),
    "dicts": ([DictVectorizer()], COUNTS),
    "union": ([FeatureUnion([("words", TfidfVectorizer()), ("letters", CountVectorizer(analyzer="char"))])], WORDS),
    "columns": ([columns()], FRAME),
    "polars": ([columns(remainder="passthrough")], pl.DataFrame(TABLE)),
    "selected": (
        [
            ColumnTransformer(
                [("some", SimpleImputer(), make_column_selector(dtype_include=np.number)), ("none", "drop", ["color"])],
                remainder="passthrough",
            )
        ],
        FRAME,
    ),
    "as_pandas": ([StandardScaler().set_output(transform="pandas")], FRAME[["age"]]),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_comes_back_with_equal_predictions(name, tmp_path):
    steps, X = PIPELINES[name]
    model = make_pipeline(*steps, LinearClassifier(lam=1e-2)).fit(X, Y)
    save_model(model, tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    np.testing.assert_array_equal(back.decision_function(X), model.decision_function(X))
    assert [type(step) for step in back] == [type(step) for step in model]
    assert back[-1].gap_ == model[-1].gap_
    save_model(back, tmp_path / "again.uc")
    assert (tmp_path / "again.uc").read_bytes() == (tmp_path / "model.uc").read_bytes()


def test_names_of_features_and_categories_that_are_new_are_treated_as_before(tmp_path):
    model = make_pipeline(columns(), LinearRegressor()).fit(FRAME, NUMBERS[:, 0])
    save_model(model, tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    assert list(back.feature_names_in_) == ["age", "size", "color"]
    assert list(back[0].get_feature_names_out()) == list(model[0].get_feature_names_out())
    new = FRAME.assign(color="mauve")[["color", "size", "age"]]
    np.testing.assert_array_equal(back.predict(new), model.predict(new))


def test_a_pipeline_can_be_fitted_again(tmp_path):
    model = make_pipeline(TfidfVectorizer(), KernelClassifier()).fit(WORDS, Y)
    save_model(model, tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc").fit(WORDS[::2], Y[::2])
    np.testing.assert_array_equal(back.predict(WORDS), model.fit(WORDS[::2], Y[::2]).predict(WORDS))


class Own(TransformerMixin, BaseEstimator):
    """A transformer of one's own."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return X


class OwnScaler(StandardScaler):
    """A subclass."""


@pytest.mark.parametrize(
    ("step", "X", "named"),
    [
        (FunctionTransformer(lambda X: X), NUMBERS, r"`functiontransformer\.func`.*the function <lambda>"),
        (CountVectorizer(analyzer=str.split), WORDS, r"`countvectorizer\.analyzer`.*the function split"),
        (CountVectorizer(tokenizer=lambda text: text.split(), token_pattern=None), WORDS, "countvectorizer.tokenizer"),
        (Own(), NUMBERS, "`own`.*a Own is not part of undercut"),
        (OwnScaler(), NUMBERS, "`ownscaler`.*a OwnScaler is not"),
        (ColumnTransformer([("mine", Own(), [0])]), NUMBERS, r"`columntransformer\.transformers\.mine`.*a Own"),
    ],
)
def test_what_cannot_be_saved_is_refused_by_name(step, X, named, tmp_path):
    model = make_pipeline(step, LinearClassifier()).fit(X, Y)
    with pytest.raises(ModelFileError, match=named):
        save_model(model, tmp_path / "model.uc")
    assert not list(tmp_path.iterdir())


def test_a_pipeline_must_end_in_our_estimator_and_be_fitted(tmp_path):
    foreign = make_pipeline(StandardScaler(), LogisticRegression()).fit(NUMBERS, Y)
    with pytest.raises(ModelFileError, match="a Pipeline that ends in a LogisticRegression"):
        save_model(foreign, tmp_path / "model.uc")
    with pytest.raises(ModelFileError, match="call fit first"):
        save_model(make_pipeline(StandardScaler(), LinearClassifier()), tmp_path / "model.uc")
    half = make_pipeline(StandardScaler(), LinearClassifier().fit(NUMBERS, Y))
    with pytest.raises(NotFittedError):
        save_model(half, tmp_path / "model.uc")


# ------------------------------------------------------------------------------------------------- files that lie


def saved(tmp_path, step, X):
    save_model(make_pipeline(step, LinearClassifier()).fit(X, Y), tmp_path / "model.uc")
    return tmp_path / "model.uc"


def step_of(header):
    """Class, parameters and attributes of the first step."""
    return header["fitted"]["pipeline"]["transformer"][1]["steps"]["list"][0]["tuple"][1]["transformer"]


@pytest.mark.parametrize(
    "change",
    [
        lambda step: step.__setitem__(0, "Popen"),
        lambda step: step.__setitem__(0, "Pipeline"),
        lambda step: step[1].update(with_mean="yes"),
        lambda step: step[1].update(func={"function": "system"}),
        lambda step: step[2].update(transform={"function": "log1p"}),
        lambda step: step[2].update(mean_={"array": "nowhere"}),
        lambda step: step[2].update(n_features_in_=3),
        lambda step: step[2].update(mean_={"type": "os.system"}),
        lambda step: step[2].update(mean_={"transformer": ["StandardScaler", {}, {"fit": 1}]}),
        lambda step: step.append({}),
    ],
)
def test_a_pipeline_that_lies_is_refused(tmp_path, change):
    path = saved(tmp_path, StandardScaler(), NUMBERS)
    edit(path, lambda header: change(step_of(header)))
    with pytest.raises(ModelFileError, match=r"model\.uc"):
        load_model(path)


def test_a_vocabulary_with_columns_out_of_range_is_refused(tmp_path):
    path = saved(tmp_path, CountVectorizer(max_features=5), WORDS)
    edit(path, lambda header: step_of(header)[2]["vocabulary_"]["dict"][0].__setitem__(1, 99))
    with pytest.raises(ModelFileError, match="columns of a vocabulary"):
        load_model(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"_n_features_outs": {"list": [3]}}, "widths of an encoder"),
        ({"_drop_idx_after_grouping": {"objects": [[1], {"list": [9]}]}}, "cannot drop number 9"),
        ({"categories_": {"list": [{"labels": ["a", "b", "c", "d"]}]}}, "widths of an encoder"),
    ],
)
def test_an_encoder_whose_parts_do_not_fit_is_refused(tmp_path, change, message):
    path = saved(tmp_path, OneHotEncoder(drop="first"), FRAME[["color"]])
    edit(path, lambda header: step_of(header)[2].update(change))
    with pytest.raises(ModelFileError, match=message):
        load_model(path)


def test_a_cache_of_pickles_is_neither_saved_nor_restored(tmp_path):
    model = make_pipeline(StandardScaler(), LinearClassifier(), memory=str(tmp_path / "cache")).fit(NUMBERS, Y)
    save_model(model, tmp_path / "model.uc")
    assert load_model(tmp_path / "model.uc").memory is None
    edit(tmp_path / "model.uc", lambda header: header["fitted"]["pipeline"]["transformer"][1].update(memory="cache"))
    with pytest.raises(ModelFileError, match="no parameter 'memory'"):
        load_model(tmp_path / "model.uc")


def test_another_version_of_scikit_learn_is_announced(tmp_path):
    path = saved(tmp_path, StandardScaler(), NUMBERS)
    edit(path, lambda header: header["params"].update({"scikit-learn": "1.2"}))
    with pytest.warns(UserWarning, match=r"saved with scikit-learn 1\.2"):
        load_model(path)


def test_many_texts_are_compressed(tmp_path):
    texts = [" ".join(f"anticonstitutionally{at * 60 + word}" for word in range(60)) for at in range(60)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = saved(tmp_path, CountVectorizer(), texts)
    whole = json.dumps({f"anticonstitutionally{at}": at for at in range(3600)})
    assert path.stat().st_size < 3 * 3600 * 8 + 0.3 * len(whole)  # the coefficients are dense
