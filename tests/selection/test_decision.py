"""Early decisions: bounds on held-out scores hold, and fits that end early or are skipped do not change the choice."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import check_scoring
from sklearn.model_selection import GridSearchCV

from undercut.estimators import LinearClassifier, LinearClassifierCV, LinearRegressor, LinearRegressorCV
from undercut.losses import Absolute, Hinge, Logistic, Softmax
from undercut.maps.design import as_design
from undercut.regularizers import L2
from undercut.risks import LinearRisk, MulticlassRisk
from undercut.selection.decision import Board, FoldRace
from undercut.selection.held_out import Errors, JointClasses, OneAgainstRest, Scored, TwoClasses
from undercut.selection.warm import WarmRuns
from undercut.solvers import Stop, minimize
from undercut.trace import Status


def two_classes(n=150, d=6):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, np.where(X[:, 0] + 0.5 * X[:, 1] + rng.standard_normal(n) > 0.0, "yes", "no")


X, Y = two_classes()


def near(best, size, n=6):
    return best + 0.1 * size * np.random.default_rng(0).standard_normal(n)


def held_out_problem(risk):
    norms = np.linalg.norm(X, axis=1)
    return Scored(risk, as_design(X[100:]), norms[100:], norms[:100].max())


def check_intervals(known, problems, lam):
    """The values at the optimum are inside the intervals of points near it, which shrink to them."""
    best = [minimize(risk, L2(lam), stop=Stop(gap_rel=1e-9)) for risk in problems]
    true, widths = known.values([result.w for result in best]), []
    for size in (1.0, 0.1, 0.01, 0.0):
        points = [near(result.w, size, result.w.size) for result in best]
        gaps = [
            L2(lam).value(w) + risk.value(w) - r.lower_bound for w, risk, r in zip(points, problems, best, strict=True)
        ]
        low, high = known.interval(points, [np.sqrt(2.0 * gap / lam) for gap in gaps])
        assert (low <= true + 1e-9).all()
        assert (true <= high + 1e-9).all()
        widths.append((high - low).mean())
    assert widths[-1] <= 0.05 < widths[0]


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", [Hinge(), Logistic()])
def test_the_bounds_on_the_accuracy_hold_at_the_optimum(fit_intercept, loss):
    right = np.where(Y == "yes", 1.0, -1.0)
    risk = LinearRisk(X[:100], right[:100], loss, fit_intercept=fit_intercept)
    check_intervals(TwoClasses(held_out_problem(risk), right[100:]), [risk], 0.3)


def three_classes():
    return (X[:, 0] > 0.3).astype(int) + (X[:, 1] > 0.0)


def test_the_bounds_on_the_accuracy_of_several_classes_hold_at_the_optimum():
    codes = three_classes()
    ovr = [LinearRisk(X[:100], np.where(codes[:100] == k, 1.0, -1.0), Hinge(), fit_intercept=True) for k in range(3)]
    check_intervals(OneAgainstRest([held_out_problem(risk) for risk in ovr], codes[100:]), ovr, 0.3)
    joint = MulticlassRisk(X[:100], codes[:100], Softmax())
    norms = np.linalg.norm(X[100:], axis=1)
    check_intervals(JointClasses(joint, as_design(X[100:]), norms, codes[100:]), [joint], 0.3)


@pytest.mark.parametrize("power", [1, 2])
def test_the_bounds_on_the_errors_of_a_regression_hold_at_the_optimum(power):
    y = X[:, 0] + 0.1 * X[:, 1]
    risk = LinearRisk(X[:100], y[:100], Absolute(), fit_intercept=True)
    check_intervals(Errors(held_out_problem(risk), y[100:], power), [risk], 0.3)


@pytest.mark.parametrize(
    "model",
    [
        LinearClassifierCV(),
        LinearClassifierCV(penalty="l1", loss="logistic"),
        LinearClassifierCV(loss="logistic", multi_class="multinomial"),
        LinearRegressorCV(),
        LinearRegressorCV(penalty="l1", scoring="neg_mean_absolute_error", fit_intercept=False),
        LinearRegressorCV(loss="poisson"),
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [0.0, 1.0])
def test_the_score_of_a_fold_is_that_of_its_predictions(model, size):
    regression = isinstance(model, LinearRegressorCV)
    y = np.random.default_rng(1).poisson(np.exp(0.5 * X[:, 0])) if regression else np.digitize(X[:, 0], [-0.5, 0.5])
    given, train, held_out = model._given(X, y), np.arange(100), np.arange(100, 150)
    plain = model._plain(1.0)
    fold = model._fold(plain, given, train, held_out)
    solutions = [near(0.0, size, risk.n_params) for risk in fold.risks]  # 0: all scores are equal
    weight = np.where(np.arange(150) < 100, 1.0, 0.0)
    plain.n_features_in_ = X.shape[1]
    plain._take(plain._tasks(given.X, given.y, weight), solutions)
    scorer = check_scoring(plain, scoring=model.scoring)
    assert fold.score(solutions) == pytest.approx(scorer(plain, X[held_out], y[held_out]))


def test_nothing_is_known_before_every_problem_has_a_gap():
    codes = three_classes()
    ovr = [LinearRisk(X[:100], np.where(codes[:100] == k, 1.0, -1.0), Hinge()) for k in range(3)]
    known = OneAgainstRest([held_out_problem(risk) for risk in ovr], codes[100:])
    low, high = known.interval([np.ones(6)] * 3, [0.0, 0.0, np.inf])
    assert not low.any()
    assert high.sum() >= (codes[100:] == 2).sum()


@pytest.mark.filterwarnings("ignore::undercut.estimators.cross_validated.SelectionWarning")
@pytest.mark.parametrize(
    "settings", [{"multi_class": "multinomial", "loss": "logistic", "fit_intercept": False}, {"loss": "squared_hinge"}]
)
def test_several_classes_are_decided_early_without_another_choice(settings):
    lams, codes = np.geomspace(10.0, 1e-3, 6), three_classes()
    own = LinearClassifierCV(lams, gap_rel=1e-7, solver="line_search_bundle", **settings).fit(X, codes)
    other = GridSearchCV(LinearClassifier(gap_rel=1e-7, **settings), {"lam": list(lams)}).fit(X, codes)
    assert own.n_decided_ > 0
    assert own.lam_ == other.best_params_["lam"]
    assert own.best_score_ == other.best_score_


@pytest.mark.filterwarnings("ignore::undercut.estimators.cross_validated.SelectionWarning")
def test_a_regression_is_decided_early_without_another_choice():
    rng, lams = np.random.default_rng(1), np.geomspace(10.0, 1e-2, 6)
    X, y = rng.standard_normal((80, 30)), rng.standard_normal(80)  # noise: weak penalties are far worse
    own = LinearRegressorCV(lams, cv=2, gap_rel=1e-8, solver="line_search_bundle").fit(X, y)
    other = GridSearchCV(LinearRegressor(gap_rel=1e-8), {"lam": list(lams)}, cv=2).fit(X, y)
    assert own.n_decided_ > 0
    assert own.lam_ == other.best_params_["lam"]
    assert own.best_score_ == pytest.approx(other.best_score_, rel=1e-3)


def test_a_lambda_cannot_win_only_against_proved_scores():
    board = Board.of(2, 3)
    assert not board.cannot_win(0)
    board.low[:, 1], board.high[:, 1] = 0.8, 0.9
    board.high[:, 0] = 0.5, 1.0
    assert board.cannot_win(0)  # 0.75 at most
    assert not board.cannot_win(1)
    assert not board.cannot_win(2)


def raced(*shares, n=1000):
    """Folds in which the stronger of two lambdas is right with probability 0.9, the weaker one as given."""
    rng, race = np.random.default_rng(0), FoldRace.of(len(shares), 2)
    for fold, share in enumerate(shares):
        strong, weak = ((rng.random(n) < each).astype(np.float64) for each in (0.9, share))
        race.meet(fold, 1, weak, {0: strong})
    return race


def test_a_lambda_is_beaten_only_beyond_chance():
    race = raced(0.8, 0.89)
    assert race.is_beaten(0, 1)
    assert not race.is_beaten(1, 1)
    assert race.is_beaten_elsewhere(1, 1)
    assert not race.is_beaten_elsewhere(0, 1)
    assert not race.is_beaten(0, 0)  # nothing is stronger
    assert not raced(0.0, n=50).is_beaten(0, 1)  # too few samples


def test_a_lambda_leads_only_where_several_folds_agree():
    assert raced(0.8).leader(1) is None  # a single fold
    assert raced(0.8, 0.91).leader(1) is None  # two that do not agree
    lead = raced(0.8, 0.8).leader(1)
    assert lead.by == 0
    assert lead.mean == pytest.approx(0.1, abs=0.02)
    assert raced(0.89, 0.89).leader(1) is None
    assert raced(0.8, 0.2).leader(1).by == 0  # very different, and beyond chance in each


def overfitted(n=450, d=200):
    """Weak penalties are far worse: one feature is long and informative, the others are noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.where((X[:, 0] > 0.0) == (rng.random(n) < 0.85), 1, 0)
    X[:, 0] = 3.0 * np.sign(X[:, 0])
    return X, y


@pytest.mark.filterwarnings("ignore::undercut.estimators.cross_validated.SelectionWarning")
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_lambda_that_folds_agree_about_is_skipped_without_another_choice(fit_intercept):
    X, y = overfitted()
    settings = {"cv": 3, "loss": "squared_hinge", "fit_intercept": fit_intercept}
    own = LinearClassifierCV([10.0, 1.0, 0.1, 1e-3, 1e-5], **settings).fit(X, y)
    fitted = LinearClassifierCV(own.lams_, **settings, rule="one_standard_error").fit(X, y)
    table, means = own.cv_results_, fitted.cv_results_["mean_test_score"]
    proved = LinearClassifierCV(own.lams_, **settings, early="proved").fit(X, y)
    whole = LinearClassifierCV(own.lams_, **settings, early="never").fit(X, y)
    assert own.n_skipped_ > 0
    assert fitted.n_skipped_ == proved.n_skipped_ == 0
    assert whole.n_decided_ == 0 <= proved.n_decided_ < own.n_decided_
    assert own.lam_ == proved.lam_ == whole.lam_
    assert (whole.cv_results_["max_gap"] <= 1e-3).all()
    assert own.lam_ == own.lams_[means.argmax()]
    assert own.best_score_ == means.max()
    assert table["mean_test_score"] == pytest.approx(means, abs=0.05)
    assert table["n_skipped"].sum() == own.n_skipped_ <= own.n_decided_
    assert not table["n_skipped"][: own.best_index_ + 1].any()  # a skipped lambda is weaker than one that beats it
    assert (table["mean_test_score"][table["n_skipped"] > 0] < own.best_score_).all()
    assert np.isfinite(table["max_gap"]).all()


@pytest.mark.filterwarnings("ignore::undercut.estimators.cross_validated.SelectionWarning")
def test_joint_classes_with_intercepts_are_decided_by_evidence():
    X, y = overfitted()
    y[::20] = 2
    settings = {"cv": 3, "loss": "logistic", "multi_class": "multinomial"}
    own = LinearClassifierCV([1.0, 1e-1, 1e-3, 1e-5], **settings).fit(X, y)
    fitted = LinearClassifierCV(own.lams_, **settings, rule="one_standard_error").fit(X, y)
    assert own.n_decided_ > 0
    assert fitted.n_decided_ == 0
    assert own.lam_ == own.lams_[fitted.cv_results_["mean_test_score"].argmax()]


@pytest.mark.parametrize("solver", ["dual_coordinate", "line_search_bundle"])
def test_what_one_lambda_proves_about_a_weaker_one_holds(solver):
    right = np.where(Y == "yes", 1.0, -1.0)
    risk = LinearRisk(X, right, Hinge())
    runs = WarmRuns(risk, solver)
    assert runs.start(L2(0.1)) is None
    last = runs(L2(0.1))
    assert runs.start(L2(0.2)).progress.lower_bound == -np.inf  # nothing is proved about stronger ones
    for lam in (0.1, 0.03, 1e-3):
        solution, progress = runs.start(L2(lam))
        best = minimize(risk, L2(lam), stop=Stop(gap_rel=1e-9))
        assert solution is last.w
        assert progress.objective == pytest.approx(L2(lam).value(last.w) + risk.value(last.w))
        assert progress.lower_bound <= best.objective <= progress.objective * (1.0 + 1e-9)


def test_a_run_that_is_decided_at_its_start_takes_no_step():
    risk = LinearRisk(X, np.where(Y == "yes", 1.0, -1.0), Hinge())
    runs = WarmRuns(risk, "dual_coordinate")
    last = runs(L2(0.1))
    skipped = runs(L2(0.05), decide=lambda state: True)
    assert (skipped.status, skipped.n_steps) == (Status.DECIDED, 0)
    assert skipped.w is last.w
    assert runs(L2(0.01)).gap <= 1e-3 * runs(L2(0.01)).objective  # goes on from the last solution
