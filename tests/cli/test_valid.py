"""``--valid``: a fit ends once the loss on other data no longer falls, with the best solution by it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from undercut import L2, LinearRisk, Logistic, Stop, load_model, minimize
from undercut.callbacks import EarlyStopping
from undercut.cli.commands.evaluate import score_rows


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Noisy samples of few features that matter among many that do not: a small lambda overfits."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((60, 3)) * (np.arange(60) < 4)[:, None]
    for name in ("train", "valid"):
        X = rng.standard_normal((120, 60))
        scores = X @ truth + rng.standard_normal((120, 3))
        dump_svmlight_file(X, scores[:, 0] > 0, f"{name}2.svm", zero_based=False)
        dump_svmlight_file(X, scores.argmax(axis=1), f"{name}3.svm", zero_based=False)
        dump_svmlight_file(X, scores[:, 0], f"{name}r.svm", zero_based=False)
        grades = np.digitize(scores[:, 0], [-1, 1])
        dump_svmlight_file(X, grades, f"{name}s.svm", zero_based=False, query_id=np.repeat(np.arange(12), 10))
        dump_svmlight_file(X, grades, f"{name}q.svm", zero_based=False, query_id=np.repeat(np.arange(12), 10))
    return tmp_path


def risk_on_valid(kind):
    rows = score_rows(load_model("model.uc"), Path(f"valid{kind}.svm"))
    return next(row.value for row in rows if row.key == "test_risk")


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("2", ("--loss", "logistic")),
        ("3", ("--loss", "hinge")),
        ("3", ("--loss", "logistic", "--multi-class", "multinomial")),
        ("r", ("--loss", "absolute")),
        ("2", ("--measure", "f1")),
        ("q", ("--loss", "ndcg@5")),
        ("s", ("--task", "sequence", "--loss", "crf")),
        ("2", ("--online", "--passes", 20, "--chunk-rows", 50)),
    ],
)
def test_the_model_is_better_on_the_other_file_than_without(files, undercut, kind, options):
    solver = () if "--online" in options else ("--solver", "line_search_bundle", "--gap", 1e-4, "--max-steps", 150)
    common = ("train", f"train{kind}.svm", *options, *solver, "--lambda", 1e-5, "--json")
    code, out, err = undercut(*common, "--valid", f"valid{kind}.svm", "--patience", 3)
    assert code == 0, err
    early = risk_on_valid(kind)
    report = json.loads(out)
    if solver:
        assert report["status"] == "stopped"
        assert report["lower_bound"] <= report["objective"] == load_model("model.uc").objective_
    assert undercut(*common)[0] in (0, 3)
    assert early < risk_on_valid(kind)


def test_the_solution_kept_is_the_best_of_those_looked_at():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((40, 30)), rng.choice([-1.0, 1.0], 40)
    other = LinearRisk(rng.standard_normal((40, 30)), rng.choice([-1.0, 1.0], 40), Logistic())
    seen = []

    def loss(risk, w):
        seen.append(other.value(w))
        return seen[-1]

    risk, reg = LinearRisk(X, y, Logistic()), L2(1e-6)
    result = minimize(risk, reg, "line_search_bundle", callbacks=[EarlyStopping(loss, patience=3)])
    assert other.value(result.w) == min(seen)
    assert seen.index(min(seen)) == len(seen) - 4
    assert result.objective == pytest.approx(reg.value(result.w) + risk.value(result.w))
    best = minimize(risk, reg, stop=Stop(gap_rel=1e-6)).objective
    assert result.lower_bound <= best <= result.objective
    assert "smallest" in result.message


@pytest.mark.parametrize("options", [("--kernel", "rbf"), ("--nu", 0.5)])
def test_models_without_it_refuse_it(files, undercut, options):
    code, _, err = undercut("train", "train2.svm", *options, "--valid", "valid2.svm")
    assert code == 2
    assert f"--valid is not for {options[0]}" in err
