"""Model files round-trip, and hostile ones run nothing."""

import os
import pickle
import stat
import struct

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris
from tests.model_files import edit

from undercut import (
    CuttingPlane,
    ElasticNet,
    Hinge,
    KernelClassifier,
    LinearClassifier,
    LinearRegressor,
    Logistic,
    OnlineClassifier,
    Quantile,
    SequenceLabeler,
    load_model,
    save_model,
)
from undercut.contracts import Solver
from undercut.errors import ModelFileError
from undercut.estimators.files.stored import decode, encode
from undercut.io import TableColumns
from undercut.io.packing import packed, unpacked
from undercut.io.tables import Column
from undercut.maps.templates import TemplateFeatures
from undercut.solvers import KernelHedging


@pytest.fixture
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture
def saved(tmp_path, iris):
    save_model(LinearClassifier().fit(*iris), tmp_path / "model.uc")
    return tmp_path / "model.uc"


@pytest.mark.parametrize("loss", ["hinge", "logistic", "huber_hinge"])
@pytest.mark.parametrize("labels", [[0, 1, 2], ["a", "b", "c"], [1.0, 2.0, 4.0]])
def test_a_classifier_comes_back_as_it_went(tmp_path, iris, loss, labels):
    X, y = iris
    model = LinearClassifier(loss=loss, lam=1e-3).fit(X, np.array(labels)[y])
    save_model(model, tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    np.testing.assert_array_equal(back.decision_function(X), model.decision_function(X))
    for name in ("objective_", "lower_bound_", "gap_", "n_iter_", "n_features_in_"):
        assert getattr(back, name) == getattr(model, name)
    assert back.lam == 1e-3


def test_a_binary_classifier_and_its_feature_names_come_back(tmp_path, iris):
    X, y = iris
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = LinearClassifier(loss=Logistic()).fit(frame, y == 1)
    save_model(model, tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    np.testing.assert_array_equal(back.predict_proba(frame), model.predict_proba(frame))
    assert list(back.feature_names_in_) == list("abcd")


@pytest.mark.parametrize("loss", ["poisson", "squared", Quantile(0.9)])
def test_a_regressor_comes_back_as_it_went(tmp_path, loss):
    X, y = load_diabetes(return_X_y=True)
    model = LinearRegressor(loss, lam=1e-2).fit(X, y)
    save_model(model, tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    assert back._loss() == model._loss()


def test_saving_replaces_a_model_only_once_complete(saved, iris):
    LinearClassifier().fit(*iris)
    assert [path.name for path in saved.parent.iterdir()] == ["model.uc"]


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("a model file ran code",)


def test_a_pickle_is_refused_and_not_run(tmp_path):
    (tmp_path / "bomb.uc").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ModelFileError, match=r"bomb\.uc is not a model file"):
        load_model(tmp_path / "bomb.uc")


@pytest.mark.parametrize("content", [b"", b"\x00" * 8, b"not a model", struct.pack("<Q", 2**60) + b"{}"])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "model.uc").write_bytes(content)
    with pytest.raises(ModelFileError, match="not a model file"):
        load_model(tmp_path / "model.uc")


def test_a_truncated_file_is_refused_wherever_it_ends(saved):
    whole = saved.read_bytes()
    for size in range(0, len(whole), 7):
        saved.write_bytes(whole[:size])
        with pytest.raises(ModelFileError):
            load_model(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.update(version=99),
        lambda h: h.update(estimator="os.system"),
        lambda h: h.update(estimator=["LinearClassifier"]),
        lambda h: h["params"].update(loss="__import__"),
        lambda h: h["params"].update(loss={"object": {"dict": [["width", 1.0]]}, "kind": "Hinge"}),
        lambda h: h["params"].update(loss={"object": {"dict": []}, "kind": ["Hinge"]}),
        lambda h: h["params"].update(loss={"pickle": "gASVAAAA"}),
        lambda h: h["params"].update(other=1.0),
        lambda h: h["fitted"].update(predict=1.0),
        lambda h: h["fitted"].pop("coef_"),
        lambda h: h["fitted"].update(coef_={"labels": ["a", "b"]}),
        lambda h: h["params"].update(lam=-1.0),
        lambda h: h["params"].update(lam="1"),
        lambda h: h.update(params=[]),
        lambda h: h["fitted"].update(classes_={"labels": [0, 1]}),
        lambda h: h["fitted"].update(classes_=7),
        lambda h: h["fitted"].pop("objective_"),
        lambda h: h["fitted"].update(objective_="low"),
        lambda h: h["fitted"].update(certificate_="sure"),
    ],
)
def test_a_header_that_lies_is_refused(saved, change):
    edit(saved, change)
    with pytest.raises(ModelFileError, match=r"model\.uc"):
        load_model(saved)


def test_coefficients_that_are_not_finite_are_refused(tmp_path, iris):
    model = LinearClassifier().fit(*iris)
    model.coef_[0, 0] = np.nan
    save_model(model, tmp_path / "model.uc")
    with pytest.raises(ModelFileError, match="not finite"):
        load_model(tmp_path / "model.uc")


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.uc"):
        load_model(tmp_path / "none.uc")


def test_a_loss_of_ones_own_cannot_be_saved(tmp_path, iris):
    class Mine(Logistic):
        pass

    with pytest.raises(ModelFileError, match="Mine"):
        save_model(LinearClassifier(loss=Mine()).fit(*iris), tmp_path / "model.uc")


# ----------------------------------------------------------------------------------- every parameter, or none of it


LABEL_LOSS = [[0.0, 1.0, 3.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]]


@pytest.mark.parametrize(
    "model",
    [
        LinearClassifier(class_weight={0: 2.0, 1: 1.0, 2: 0.5}),
        LinearClassifier(multi_class="crammer_singer", label_loss=np.array(LABEL_LOSS)),
        LinearClassifier(multi_class="crammer_singer", label_loss=LABEL_LOSS),
        LinearClassifier(multi_class="crammer_singer", label_loss=pd.DataFrame(LABEL_LOSS)),
        LinearClassifier(Hinge(), solver=CuttingPlane(max_planes=30), penalty=ElasticNet(1e-2, l1_ratio=0.1)),
        LinearClassifier(random_state=np.random.RandomState(3), max_seconds=60.0, warm_start=True),
        KernelClassifier(class_weight={0: 2.0, 1: 1.0, 2: 0.5}, solver=KernelHedging(blocks=2)),
        OnlineClassifier(class_weight={0: 2.0, 1: 1.0, 2: 0.5}, n_passes=3, random_state=np.random.default_rng(0)),
    ],
)
def test_every_parameter_comes_back(tmp_path, iris, model):
    save_model(model.fit(*iris), tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    assert set(back.get_params()) == set(model.get_params())
    for name, value in model.get_params(deep=False).items():
        restored = getattr(back, name)
        if isinstance(value, np.random.RandomState):
            assert restored.randint(10**9) == value.randint(10**9)
        elif isinstance(value, np.random.Generator):
            assert restored.integers(10**9) == value.integers(10**9)
        elif isinstance(value, pd.DataFrame):
            np.testing.assert_array_equal(restored, value)
        else:
            assert type(restored) is type(value)
            assert np.all(restored == value)
    np.testing.assert_array_equal(back.decision_function(iris[0]), model.decision_function(iris[0]))


class OwnSolver(Solver):
    """A solver of one's own."""

    def init(self, risk, reg, w0):
        return CuttingPlane().init(risk, reg, w0)

    def step(self, risk, reg, state):
        return CuttingPlane().step(risk, reg, state)


def test_what_is_not_ours_is_refused_by_name_before_anything_is_written(saved, iris):
    before = saved.read_bytes()
    with pytest.raises(ModelFileError, match="`solver` cannot be saved: a OwnSolver is not part of undercut"):
        save_model(LinearClassifier(solver=OwnSolver(), lam=1e-2).fit(*iris), saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["model.uc"]


# ------------------------------------------------------------------------------------------------ what is no model


def test_an_estimator_that_is_not_fitted_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match=r"only a fitted estimator.*call fit first; got LinearClassifier\(\)"):
        save_model(LinearClassifier(), tmp_path / "model.uc")
    assert not list(tmp_path.iterdir())


def test_a_subclass_is_refused_with_the_remedy(tmp_path, iris):
    class Mine(LinearClassifier):
        pass

    with pytest.raises(ModelFileError, match="Mine: use the base class"):
        save_model(Mine().fit(*iris), tmp_path / "model.uc")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_the_umask_gives_a_model_file_its_permissions(tmp_path, iris, mask):
    model = LinearClassifier().fit(*iris)
    last = os.umask(mask)
    try:
        save_model(model, tmp_path / "model.uc")
    finally:
        os.umask(last)
    assert stat.S_IMODE((tmp_path / "model.uc").stat().st_mode) == 0o666 & ~mask


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path, iris):
    (tmp_path / "model.uc").mkdir()
    with pytest.raises(OSError, match=r"cannot write the model to .*model\.uc"):
        save_model(LinearClassifier().fit(*iris), tmp_path / "model.uc")
    assert [path.name for path in tmp_path.iterdir()] == ["model.uc"]


# ------------------------------------------------------------------------------------------------ in little space


@pytest.mark.filterwarnings("ignore::undercut.errors.ConstantModelWarning")  # a gap of 100 %
def test_a_model_of_words_takes_the_space_of_its_nonzero_coefficients(tmp_path):
    rng = np.random.default_rng(0)
    sentences = [[(f"word{code}", f"tag{code % 5}") for code in rng.integers(0, 3000, 10)] for _ in range(200)]
    labels = [[f"label{word[-1]}" for word, _ in sentence] for sentence in sentences]
    model = SequenceLabeler(features=TemplateFeatures(["word[0]", "word[-1] word[0]"]), max_steps=3, gap_rel=1.0)
    model.fit(sentences, labels)
    save_model(model, tmp_path / "model.uc")
    n_other = np.count_nonzero(model.coef_)
    assert n_other < 0.2 * model.coef_.size
    assert (tmp_path / "model.uc").stat().st_size < 8 * n_other + 8 * model.n_features_in_
    back = load_model(tmp_path / "model.uc")
    np.testing.assert_array_equal(back.coef_, model.coef_)
    assert back.features_.names() == model.features_.names()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize("shape", [(0,), (7, 0), (1000,), (30, 50), ()])
def test_packed_arrays_come_back_bit_for_bit(dtype, shape):
    array = (np.random.default_rng(0).integers(0, 20, shape) == 3).astype(dtype) * dtype(1)
    if array.size > 1 and array.dtype.kind == "f":
        array.reshape(-1)[:2] = -0.0, np.finfo(dtype).tiny
    back = unpacked(*packed({"a": array}))["a"]
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_the_columns_of_a_table_come_back_and_must_fit(tmp_path):
    categories = tuple(f"número {at:03}" for at in range(100))
    model = LinearClassifier().fit(np.eye(101), np.arange(101) % 2)
    model.table_ = TableColumns((Column("a", fill=0.5), Column("b", categories)), target="y", ignored=("id",))
    save_model(model, tmp_path / "model.uc")
    assert load_model(tmp_path / "model.uc").table_ == model.table_
    model.table_ = TableColumns((Column("a"),))
    save_model(model, tmp_path / "model.uc")
    with pytest.raises(ModelFileError, match="the table make 1 features, and the model has 101"):
        load_model(tmp_path / "model.uc")


@pytest.mark.parametrize("array", [np.arange(200, dtype=">i8"), np.arange(3, dtype=">f8"), np.array(2.5)])
def test_arrays_of_any_byte_order_and_shape_come_back(array):
    arrays = {}
    stored = encode(array, "a", arrays)
    back = decode(stored, unpacked(*packed(arrays)))
    np.testing.assert_array_equal(back, array, strict=False)
    assert back.shape == array.shape
