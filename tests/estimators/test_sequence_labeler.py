"""The labeler of sequences: any labels, a certificate, scikit-learn's conventions, model files, clear errors."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from tests.model_files import edit, entry

from undercut import L2, ChainRisk, SequenceLabeler, Stop, load_model, minimize, save_model
from undercut.errors import DataError, ModelFileError, ParameterError
from undercut.maps import TemplateFeatures
from undercut.risks import CRF, M3N

LOSSES = ["m3n", "crf"]
every_loss = pytest.mark.parametrize("loss", LOSSES)


def weather(n=40, seed=0):
    """Sequences of a sticky hidden state that shows in noisy features."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for length in rng.integers(1, 9, n):
        state, states = int(rng.integers(3)), []
        for _ in range(length):
            state = state if rng.random() < 0.7 else int(rng.integers(3))
            states.append(state)
        X.append(np.eye(3)[states] + 0.7 * rng.standard_normal((length, 3)))
        y.append([("dry", "rain", "snow")[state] for state in states])
    return X, y


@pytest.fixture(scope="module")
def data():
    return weather()


@pytest.fixture(scope="module", params=LOSSES)
def fitted(request, data):
    return SequenceLabeler(request.param, lam=1e-2).fit(*data)


def test_a_fit_is_certified(fitted):
    assert fitted.certificate_ == "global"
    assert fitted.lower_bound_ <= fitted.objective_
    assert fitted.gap_ == pytest.approx(fitted.objective_ - fitted.lower_bound_)
    assert fitted.gap_ <= 1e-3 * fitted.objective_
    assert fitted.result_.n_evaluations > 1
    assert fitted.n_iter_ >= 1


def test_fitted_attributes_have_their_shapes(fitted):
    assert fitted.classes_.tolist() == ["dry", "rain", "snow"]
    assert fitted.coef_.shape == (3, 3)
    assert fitted.transitions_.shape == (3, 3)
    assert fitted.start_.shape == fitted.end_.shape == fitted.intercept_.shape == (3,)
    assert fitted.n_features_in_ == 3


@every_loss
def test_the_objective_is_that_of_the_risk(data, loss):
    X, y = data
    codes = [[("dry", "rain", "snow").index(label) for label in labels] for labels in y]
    risk = ChainRisk(X, codes, {"m3n": M3N(), "crf": CRF()}[loss], start=True, end=True, bias=True)
    exact = minimize(risk, L2(1e-2), stop=Stop(gap_rel=1e-6))
    model = SequenceLabeler(loss, lam=1e-2).fit(X, y)
    assert model.lower_bound_ <= exact.objective <= model.objective_ * (1.0 + 1e-6)


def test_neighbours_help(data):
    X, y = weather(200, seed=1)
    chain = SequenceLabeler("crf", lam=1e-3).fit(*data)
    tokens = SequenceLabeler("crf", lam=1e-3).fit(
        [x[None] for X in data[0] for x in X], [[k] for y in data[1] for k in y]
    )
    assert chain.score(X, y) > tokens.score([x[None] for part in X for x in part], [[k] for part in y for k in part])


@pytest.mark.parametrize("solver", ["lbfgs", "cutting_plane", "line_search_bundle"])
def test_solvers_agree(data, solver):
    reference = SequenceLabeler("crf", lam=1e-2).fit(*data)
    other = SequenceLabeler("crf", lam=1e-2, solver=solver).fit(*data)
    assert other.objective_ == pytest.approx(reference.objective_, rel=1e-3)


class TestForms:
    """A list of arrays, or one matrix with lengths; what goes in comes out."""

    def test_predictions_come_as_the_sequences_came(self, fitted, data):
        X, _ = data
        lengths, stacked = [len(part) for part in X], np.concatenate(X)
        apart, whole = fitted.predict(X), fitted.predict(stacked, lengths=lengths)
        assert [len(part) for part in apart] == lengths
        np.testing.assert_array_equal(np.concatenate(apart), whole)

    @every_loss
    def test_every_form_gives_the_same_fit(self, data, loss):
        X, y = data
        lengths, labels = [len(part) for part in X], [label for part in y for label in part]
        expected = SequenceLabeler(loss, lam=1e-2).fit(X, y)
        stacked = np.concatenate(X)
        for given in (stacked, sp.csr_array(stacked), pd.DataFrame(stacked)):
            model = SequenceLabeler(loss, lam=1e-2).fit(given, labels, lengths=np.array(lengths))
            assert model.objective_ == pytest.approx(expected.objective_, rel=1e-9)
            assert model.score(given, labels, lengths=lengths) == pytest.approx(expected.score(X, y))
        frames = SequenceLabeler(loss, lam=1e-2).fit(
            [pd.DataFrame(part) for part in X], [pd.Series(part) for part in y]
        )
        assert frames.objective_ == pytest.approx(expected.objective_, rel=1e-9)
        sparse = SequenceLabeler(loss, lam=1e-2).fit(
            [sp.csr_matrix(part) for part in X], [np.array(part) for part in y]
        )
        assert sparse.objective_ == pytest.approx(expected.objective_, rel=1e-9)

    def test_sequences_of_one_length_may_be_a_cube(self):
        X, y = np.random.default_rng(0).standard_normal((6, 4, 2)), np.arange(24).reshape(6, 4) % 3
        assert len(SequenceLabeler(lam=0.1).fit(X, y).predict(X)) == 6

    def test_narrow_floats_stay_narrow(self, data):
        X = [part.astype(np.float32) for part in data[0]]
        model = SequenceLabeler("crf", lam=1e-2).fit(X, data[1])
        assert model.objective_ == pytest.approx(SequenceLabeler("crf", lam=1e-2).fit(*data).objective_, rel=1e-4)


class TestLabels:
    @pytest.mark.parametrize(
        "names",
        [(0, 1, 2), (1.5, 2.5, -1.0), (True, False), ("B", "I", "O"), (("a", 1), ("a", 2), ("b", 1)), (None, "x", 7),
         (frozenset("a"), frozenset("b"))],
        ids=str,
    )  # fmt: skip
    def test_labels_may_be_of_any_hashable_kind(self, data, names):
        X, y = data
        mapped = [[names[("dry", "rain", "snow").index(label) % len(names)] for label in part] for part in y]
        model = SequenceLabeler(lam=1e-2).fit(X, mapped)
        assert set(model.classes_.tolist()) == set(names)
        found = model.predict(X)
        right = [a == b for p, q in zip(found, mapped, strict=True) for a, b in zip(p.tolist(), q, strict=True)]
        assert model.score(X, mapped) == pytest.approx(np.mean(right))
        assert np.mean(right) > 0.6

    def test_labels_that_have_an_order_are_sorted(self, data):
        X, y = data
        assert SequenceLabeler(lam=1.0).fit(X[::-1], y[::-1]).classes_.tolist() == ["dry", "rain", "snow"]

    def test_labels_of_numpy_are_plain_ones(self, data):
        X, y = data
        model = SequenceLabeler(lam=1e-2).fit(X, [[np.str_(label) for label in part] for part in y])
        assert model.score(X, y) == SequenceLabeler(lam=1e-2).fit(X, y).score(X, y)


class TestProbabilities:
    def test_rows_are_distributions_over_classes(self, data):
        model = SequenceLabeler("crf", lam=1e-2).fit(*data)
        marginals = model.predict_marginals(data[0])
        assert [part.shape for part in marginals] == [(len(part), 3) for part in data[0]]
        for part in marginals:
            np.testing.assert_allclose(part.sum(axis=1), 1.0)

    def test_a_margin_has_no_probabilities(self, data):
        model = SequenceLabeler("m3n", lam=1e-2).fit(*data)
        assert not hasattr(model, "predict_marginals")
        assert hasattr(SequenceLabeler(CRF()), "predict_marginals")


class TestWeights:
    @every_loss
    def test_a_weight_counts_a_sequence_so_often(self, data, loss):
        X, y = data
        counts = np.arange(len(X)) % 3
        repeated = [s for s, count in enumerate(counts) for _ in range(count)]
        weighted = SequenceLabeler(loss, lam=1e-2, gap_rel=1e-6).fit(X, y, sample_weight=counts)
        copied = SequenceLabeler(loss, lam=1e-2, gap_rel=1e-6).fit([X[s] for s in repeated], [y[s] for s in repeated])
        assert weighted.objective_ == pytest.approx(copied.objective_, rel=2e-6)
        score = weighted.score(X, y, sample_weight=counts)
        assert score == pytest.approx(weighted.score([X[s] for s in repeated], [y[s] for s in repeated]))

    def test_label_costs_shift_the_predictions(self, data):
        X, y = data
        afraid = M3N([[0.0, 0.01, 0.01], [1.0, 0.0, 1.0], [50.0, 50.0, 0.0]])  # of missing snow
        costly, plain = (SequenceLabeler(loss, lam=1e-2).fit(X, y) for loss in (afraid, "m3n"))

        def snow(model):
            return np.mean(np.concatenate(model.predict(X)) == "snow")

        assert snow(costly) > snow(plain)

    def test_weights_that_are_not_wanted_are_zero(self, data):
        model = SequenceLabeler(lam=1e-2, start=False, end=False, bias=False).fit(*data)
        assert not model.start_.any()
        assert not model.end_.any()
        assert not model.intercept_.any()
        assert model.result_.w.size == 18

    def test_a_warm_start_is_one(self, data):
        model = SequenceLabeler("crf", lam=1e-2, warm_start=True).fit(*data)
        first = model.result_.n_evaluations
        model.fit(*data)
        assert model.result_.trace[0].objective <= 1.01 * model.objective_
        assert model.result_.n_evaluations <= first
        X, y = weather(10, seed=5)
        model.fit([part[:, :2] for part in X], y)  # other features: from the start
        assert model.coef_.shape == (3, 2)


class TestConventions:
    def test_parameters_can_be_read_set_and_cloned(self):
        model = SequenceLabeler("crf", lam=0.5, start=False, solver="lbfgs")
        assert model.get_params()["start"] is False
        copy = clone(model)
        assert copy.get_params() == model.get_params()
        assert copy.set_params(lam=0.1).lam == 0.1
        assert clone(SequenceLabeler(M3N([[0, 2], [1, 0]]))).loss == M3N([[0, 2], [1, 0]])

    def test_fitting_changes_no_parameter_and_returns_itself(self, data):
        model = SequenceLabeler(lam=0.1)
        before = model.get_params()
        assert model.fit(*data) is model
        assert model.get_params() == before

    def test_fitting_twice_gives_the_same(self, data):
        a, b = (SequenceLabeler(lam=1e-2).fit(*data) for _ in range(2))
        np.testing.assert_array_equal(a.coef_, b.coef_)

    def test_inputs_are_left_alone(self, data):
        X, y = weather(5)
        before = [part.copy() for part in X], [list(part) for part in y]
        SequenceLabeler(lam=0.1).fit(X, y).predict(X)
        for part, copy in zip(X, before[0], strict=True):
            np.testing.assert_array_equal(part, copy)
        assert y == before[1]

    @pytest.mark.parametrize("method", ["predict", "predict_marginals"])
    def test_predicting_needs_a_fit(self, data, method):
        with pytest.raises(NotFittedError):
            getattr(SequenceLabeler("crf"), method)(data[0])

    @pytest.mark.filterwarnings("ignore::undercut.errors.ConstantModelWarning")  # the larger lambda
    def test_lambda_is_found_by_cross_validation(self, data):
        search = GridSearchCV(SequenceLabeler("crf"), {"lam": [1e-2, 1e3]}, cv=3).fit(*data)
        assert search.best_params_ == {"lam": 1e-2}

    @pytest.mark.parametrize("setting", [{"loss": "hinge"}, {"lam": 0.0}, {"bias": "yes"}, {"solver": "best"}])
    def test_settings_outside_their_domain_are_refused(self, data, setting):
        with pytest.raises(ValueError, match=next(iter(setting))):
            SequenceLabeler(**setting).fit(*data)

    def test_a_run_that_ends_early_warns_and_keeps_its_certificate(self, data):
        with pytest.warns(ConvergenceWarning, match="lower bound"):
            model = SequenceLabeler("crf", lam=1e-4, max_steps=3).fit(*data)
        assert model.lower_bound_ < model.objective_


class TestErrors:
    def test_an_empty_sequence_is_named(self, fitted):
        X, y = [np.ones((2, 3)), np.ones((0, 3))], [["dry", "rain"], []]
        with pytest.raises(DataError, match="at least one token; sequence 1 has none"):
            SequenceLabeler().fit(X, y)
        with pytest.raises(DataError, match="sequence 1"):
            fitted.predict(X)
        with pytest.raises(DataError, match="sequence 1 has 0"):
            fitted.predict(X[0], lengths=[2, 0])

    def test_no_sequence_at_all_is_refused(self, fitted):
        with pytest.raises(DataError, match="at least one sequence"):
            SequenceLabeler().fit([], [])
        with pytest.raises(DataError, match="at least one sequence"):
            fitted.predict(np.ones((0, 3)), lengths=np.zeros(0, int))

    def test_labels_that_do_not_match_their_tokens_are_named(self):
        X = [np.ones((2, 1)), np.ones((3, 1))]
        with pytest.raises(DataError, match="sequence 1 has 3 tokens and 2 labels"):
            SequenceLabeler().fit(X, [["a", "b"], ["a", "b"]])
        with pytest.raises(DataError, match="got 1 for 2 sequences"):
            SequenceLabeler().fit(X, [["a", "b"]])
        with pytest.raises(DataError, match="got 2 labels and 5 rows"):
            SequenceLabeler().fit(np.ones((5, 1)), ["a", "b"], lengths=[2, 3])

    @pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
    def test_a_number_that_is_not_finite_is_placed(self, form):
        X = [np.ones((2, 2)), np.array([[1.0, 2.0], [3.0, np.nan]])]
        with pytest.raises(DataError, match="token 1 of sequence 1 contains NaN"):
            SequenceLabeler().fit([form(part) for part in X], [["a", "b"], ["a", "b"]])

    def test_sequences_of_different_features_are_named(self):
        with pytest.raises(DataError, match="sequence 0 has 2 and sequence 1 has 3"):
            SequenceLabeler().fit([np.ones((1, 2)), np.ones((1, 3))], [["a"], ["b"]])
        with pytest.raises(DataError, match=r"sequence 1 has shape \(2,\)"):
            SequenceLabeler().fit([np.ones((1, 2)), np.ones(2)], [["a"], ["b", "a"]])

    def test_one_label_leaves_nothing_to_learn(self):
        with pytest.raises(DataError, match="at least 2 different labels; got 1: 'a'"):
            SequenceLabeler().fit([np.ones((2, 1))], [["a", "a"]])

    def test_a_label_that_the_fit_has_not_seen_is_placed(self, fitted, data):
        X, y = data[0][:2], [list(part) for part in data[1][:2]]
        y[1][0] = "hail"
        with pytest.raises(DataError, match="token 0 of sequence 1 has the unknown label 'hail'; known labels are"):
            fitted.score(X, y)

    def test_other_features_than_the_fits_are_refused(self, fitted):
        with pytest.raises(DataError, match="3 features of the fit; got 2"):
            fitted.predict([np.ones((1, 2))])

    def test_a_matrix_needs_lengths_that_fit_it(self, fitted):
        with pytest.raises(DataError, match="pass its `lengths`"):
            fitted.predict(np.ones((4, 3)))
        with pytest.raises(DataError, match="sum to the number of rows of X; got 3 and 4"):
            fitted.predict(np.ones((4, 3)), lengths=[2, 1])
        with pytest.raises(DataError, match="list of integers"):
            fitted.predict(np.ones((4, 3)), lengths=[2.5, 1.5])
        with pytest.raises(DataError, match="matrix of all tokens"):
            fitted.predict(np.ones((4, 3, 1)), lengths=[4])

    @pytest.mark.parametrize("label", [float("nan"), ["a"]])
    def test_labels_that_cannot_be_told_apart_are_refused(self, label):
        with pytest.raises(DataError, match="labels must be hashable"):
            SequenceLabeler().fit([np.ones((2, 1))], [["a", label]])

    def test_text_in_place_of_numbers_is_refused(self):
        with pytest.raises(DataError, match="real numbers"):
            SequenceLabeler().fit([[["x"]]], [["a"]])
        with pytest.raises(DataError, match="y of sequence 0 must be a list of labels; got 7"):
            SequenceLabeler().fit([np.ones((1, 1))], [7])

    def test_costs_must_be_one_row_per_label(self, data):
        with pytest.raises(ParameterError, match="one row for each of 3 labels; got 2"):
            SequenceLabeler(M3N([[0, 1], [1, 0]])).fit(*data)


class TestModelFiles:
    @pytest.mark.parametrize("loss", ["m3n", "crf", M3N(2.0 - 2.0 * np.eye(3))], ids=str)
    def test_a_labeler_comes_back_as_it_went(self, tmp_path, data, loss):
        X, y = data
        model = SequenceLabeler(loss, lam=1e-2, end=False).fit(X, y)
        save_model(model, tmp_path / "model.uc")
        back = load_model(tmp_path / "model.uc")
        for a, b in zip(back.predict(X), model.predict(X), strict=True):
            np.testing.assert_array_equal(a, b)
        for name in ("objective_", "lower_bound_", "gap_", "n_iter_", "certificate_", "n_features_in_"):
            assert getattr(back, name) == getattr(model, name)
        assert (back.lam, back.end, back._loss()) == (1e-2, False, model._loss())
        if loss == "crf":
            np.testing.assert_array_equal(back.predict_marginals(X)[0], model.predict_marginals(X)[0])

    @pytest.mark.parametrize("names", [(0, 1, 2), (0.5, 1.0, 2.0), (False, True), (None, "x", 7), (("a", 1), "x", 7)])
    def test_labels_keep_their_kind(self, tmp_path, data, names):
        X, y = data
        mapped = [[names[("dry", "rain", "snow").index(label) % len(names)] for label in part] for part in y]
        model = SequenceLabeler(lam=1.0).fit(X, mapped)
        save_model(model, tmp_path / "model.uc")
        back = load_model(tmp_path / "model.uc")
        assert back.classes_.tolist() == model.classes_.tolist()
        assert back.classes_.dtype == model.classes_.dtype

    def test_labels_that_json_cannot_say_are_refused(self, tmp_path, data):
        X, y = data
        model = SequenceLabeler(lam=1.0).fit(X, [[Fraction(len(label), 7) for label in part] for part in y])
        with pytest.raises(ModelFileError, match=r"`classes_\.0` cannot be saved: a Fraction"):
            save_model(model, tmp_path / "model.uc")

    @pytest.mark.parametrize(
        "change",
        [
            lambda h: h["fitted"].update(classes_={"labels": ["a", "b"]}),
            lambda h: h["fitted"].update(classes_={"labels": ["a", "a", "b"]}),
            lambda h: h["fitted"].update(classes_={"labels": [["a"], "b", "c"]}),
            lambda h: h["fitted"].update(classes_=3),
            lambda h: h["fitted"].pop("classes_"),
            lambda h: h.update(estimator="LinearClassifier"),
            lambda h: h["params"].update(loss="hinge"),
        ],
    )
    def test_a_header_that_lies_is_refused(self, tmp_path, data, change):
        save_model(SequenceLabeler(lam=1.0).fit(*data), tmp_path / "model.uc")
        edit(tmp_path / "model.uc", change)
        with pytest.raises(ModelFileError, match=r"model\.uc"):
            load_model(tmp_path / "model.uc")


def fewer_templates(header):
    entry(header["fitted"]["features_"], "templates")[1] = {"list": ["word[0]"]}


def test_templates_make_features_of_tokens(tmp_path):
    X = [[("the", "DT"), ("dog", "NN")], [("a", "DT"), ("cat", "NN"), ("runs", "VB")]] * 5
    y = [["B", "I"], ["B", "I", "O"]] * 5
    features = TemplateFeatures(["word[0]", "pos[0]"])
    labeler = SequenceLabeler("crf", features=features).fit(X, y)
    assert labeler.n_features_in_ == labeler.features_.n_features == 8
    assert [row.tolist() for row in labeler.predict([[("one", "DT"), ("bird", "NN")]])] == [["B", "I"]]
    assert labeler.score(X, y) == 1.0
    assert features.n_features == 0  # a parameter is not changed
    assert clone(labeler).features.templates == features.templates
    save_model(labeler, tmp_path / "m.uc")
    again = load_model(tmp_path / "m.uc")
    np.testing.assert_array_equal(again.predict_marginals(X)[1], labeler.predict_marginals(X)[1])
    with pytest.raises(DataError, match="`lengths` are for matrices"):
        labeler.predict(X, lengths=[2, 3] * 5)
    edit(tmp_path / "m.uc", fewer_templates)
    with pytest.raises(ModelFileError, match="do not fit the templates"):
        load_model(tmp_path / "m.uc")


def test_a_labeler_of_words_can_be_pickled():
    features = TemplateFeatures(["spelling", "word[0]"])
    labeler = SequenceLabeler(features=features).fit([["one", "two"], ["two"]], [["a", "b"], ["b"]])
    again = pickle.loads(pickle.dumps(labeler))
    assert again.predict([["one"]])[0].tolist() == labeler.predict([["one"]])[0].tolist()
    assert "TemplateFeatures(('prefix1[0]'" in repr(features)


def test_numbers_are_no_sequences():
    with pytest.raises(DataError, match="one row of features per token; sequence 0 has shape"):
        SequenceLabeler().fit([1.0, 2.0], [["a"], ["b"]])
