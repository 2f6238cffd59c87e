"""Labelers of sequences and structured estimators over Dask bags and files that workers read."""

from __future__ import annotations

import dask.bag as db
import numpy as np
import pytest
from tests.structured_models import LikelyChain, draw_chains

from undercut import SequenceLabeler
from undercut.errors import DataError, ParameterError
from undercut.estimators import RnaFolder, StructuredEstimator
from undercut.estimators.cluster.sequences import PartitionedSequences
from undercut.maps.templates import TemplateFeatures

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.usefixtures("cluster")]
WORDS = ("the", "dog", "sees", "a", "cat", "and", "sleeps")
TAGS = {"the": "D", "a": "D", "dog": "N", "cat": "N", "sees": "V", "sleeps": "V", "and": "C"}


@pytest.fixture(scope="module")
def numbers():
    """12 sequences of rows, and their labels."""
    rng = np.random.default_rng(4)
    X = [rng.standard_normal((rng.integers(1, 6), 3)) for _ in range(12)]
    return X, [np.where(x[:, 0] + 0.5 * rng.standard_normal(len(x)) > 0.0, "up", "down").tolist() for x in X]


@pytest.fixture(scope="module")
def words():
    """12 sentences, and their tags with some noise."""
    rng = np.random.default_rng(5)
    X = [[str(word) for word in rng.choice(WORDS, rng.integers(2, 7))] for _ in range(12)]
    return X, [[TAGS[word] if rng.random() < 0.9 else "N" for word in x] for x in X]


def bags(data, n=3):
    return [db.from_sequence(part, npartitions=n) for part in data]


def assert_same(one, other):
    assert one.classes_.tolist() == other.classes_.tolist()
    assert one.objective_ == pytest.approx(other.objective_, abs=1e-10)
    assert one.lower_bound_ == pytest.approx(other.lower_bound_, abs=1e-10)
    for name in ("coef_", "transitions_", "start_", "end_", "intercept_"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-7)


@pytest.mark.parametrize("loss", ["crf", "m3n"])
def test_a_labeler_of_bags_is_that_of_lists(numbers, loss):
    X, y = bags(numbers)
    weight = np.linspace(0.0, 2.0, 12)
    there = SequenceLabeler(loss, lam=0.05).fit(X, y, db.from_sequence(weight.tolist(), npartitions=3))
    here = SequenceLabeler(loss, lam=0.05).fit(*numbers, weight)
    assert_same(there, here)
    assert there.score(X, y) == pytest.approx(here.score(*numbers), abs=1e-12)
    there.set_params(warm_start=True)
    assert there.fit(X, y).fit(X, y).n_iter_ < here.n_iter_


def test_predictions_of_a_bag_are_a_lazy_bag(numbers):
    model = SequenceLabeler("crf", lam=0.05).fit(*numbers)
    X = bags(numbers)[0]
    for name in ("predict", "predict_marginals"):
        lazy = getattr(model, name)(X)
        assert isinstance(lazy, db.Bag)
        for one, other in zip(lazy.compute(), getattr(model, name)(numbers[0]), strict=True):
            np.testing.assert_array_equal(one, other)


def test_templates_find_the_features_of_all_partitions(words):
    """Strings and combinations are counted over partitions, so that a rare one in each may be frequent in all."""
    features = TemplateFeatures(["word[0]", "word[-1] word[0]"], columns=("word",), min_count=2)
    there, here = (SequenceLabeler("crf", lam=0.05, features=features) for _ in range(2))
    X, y = bags(words, 4)
    there.fit(X.filter(bool), y)
    here.fit(*words)
    assert there.features_.names() == here.features_.names()
    assert_same(there, here)
    assert [part.tolist() for part in there.predict(X).compute()] == [part.tolist() for part in here.predict(words[0])]


def test_files_of_sentences_are_read_by_workers(words, tmp_path, monkeypatch):
    for k in range(2):
        pairs = list(zip(*words, strict=True))[6 * k : 6 * k + 6]
        texts = ["".join(f"{word} {tag}\n" for word, tag in zip(x, y, strict=True)) for x, y in pairs]
        (tmp_path / f"part-{k}.txt").write_text("\n".join(texts))
    pattern, features = str(tmp_path / "part-*"), TemplateFeatures(["word[0]"], columns=("word",))
    there, here = (SequenceLabeler("crf", lam=0.05, features=features) for _ in range(2))
    assert_same(there.fit(pattern), here.fit(*words))
    assert there.score(pattern) == pytest.approx(here.score(*words), abs=1e-12)
    monkeypatch.setattr("undercut.estimators.cluster.partitions.SMALLEST", 1)
    divided = PartitionedSequences.of_files(str(tmp_path / "part-0.txt"))
    assert len(divided.parts) > 1
    assert divided.n_sequences == 6
    with pytest.raises(DataError, match="holds words, which need `features`"):
        SequenceLabeler("crf").fit(pattern)
    (tmp_path / "part-2.svm").write_text("1 qid:1 1:1\n")
    with pytest.raises(DataError, match=r"all files must be of one kind; .*part-2\.svm is of SVMlight files"):
        there.fit(pattern)


def test_sequences_that_cannot_be_divided_are_refused_by_name(numbers):
    X, y = bags(numbers)
    with pytest.raises(DataError, match=r"partition \d on worker .*one label per token"):
        SequenceLabeler().fit(X, db.from_sequence([["up"]] * 12, npartitions=3))
    with pytest.raises(DataError, match=r"y must be a Dask bag.* got list: use dask.bag.from_sequence"):
        SequenceLabeler().fit(X, numbers[1])
    with pytest.raises(DataError, match="`hidden` layers need all sequences in memory"):
        SequenceLabeler(hidden=(3,)).fit(X, y)


@pytest.mark.parametrize(("loss", "solver"), [("margin", "proximal_bundle"), ("crf", "auto")])
def test_a_users_model_of_bags_is_that_of_lists(loss, solver):
    _, X, _ = draw_chains(n=12)
    Y = [(x[:, 0] > 0).astype(int) for x in X]
    there, here = (StructuredEstimator(LikelyChain(2, 3), loss, lam=0.01, solver=solver) for _ in range(2))
    bag, labelings = bags((X, Y))
    there.fit(bag, labelings)
    here.fit(X, Y)
    assert there.objective_ == pytest.approx(here.objective_, abs=1e-10)
    assert there.lower_bound_ == pytest.approx(here.lower_bound_, abs=1e-10)
    assert there.score(bag, labelings) == pytest.approx(here.score(X, Y))
    assert [y.tolist() for y in there.predict(bag).compute()] == [y.tolist() for y in here.predict(X)]
    with pytest.raises(ParameterError, match="`n_jobs` must be 1 for examples in partitions"):
        StructuredEstimator(LikelyChain(2, 3), loss, n_jobs=2).fit(bag, labelings)


def test_rna_of_bags_is_folded_as_that_of_lists():
    X, y = ["GGGAAAUCCC", "CCGAAACGG", "AAAAAA", "GGNAAACC"], ["(((....)))", "(((...)))", "......", "((....))"]
    bag, structures = bags((X, y), 2)
    with pytest.warns(UserWarning, match="left out of the structures: 1 letters"):
        there = RnaFolder(lam=0.01).fit(bag, structures)
    with pytest.warns(UserWarning, match="left out of the structures: 1 letters"):
        here = RnaFolder(lam=0.01).fit(X, y)
    assert there.objective_ == pytest.approx(here.objective_, abs=1e-10)
    assert there.lower_bound_ == pytest.approx(here.lower_bound_, abs=1e-10)
    assert there.predict(bag).compute() == here.predict(X)
    assert there.score(bag, structures) == here.score(X, y)
