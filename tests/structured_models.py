"""Two structured models in plain NumPy, small enough for every labeling to be tried."""

from __future__ import annotations

import os
from itertools import product

import numpy as np


class Multiclass:
    """Labelings are classes, ``Psi(x, y) = e_y (x) x``, Delta a table of costs."""

    def __init__(self, n_features, n_classes, costs=None):
        self.n_features, self.n_classes = n_features, n_classes
        self.n_params = n_features * n_classes
        self.costs = 1.0 - np.eye(n_classes) if costs is None else costs

    def joint_feature(self, x, y):
        return np.arange(y * self.n_features, (y + 1) * self.n_features), x

    def label_loss(self, y, y_hat):
        return self.costs[y, y_hat]

    def decode(self, w, x, y, rescaling):
        scores = w.reshape(self.n_classes, -1) @ x
        scores = scores - scores[y]
        return int(np.argmax(self.costs[y] + scores if rescaling == "margin" else self.costs[y] * (1.0 + scores)))

    def labelings(self, x):
        return range(self.n_classes)


class ThreadedMulticlass(Multiclass):
    releases_gil = True


class FatalMulticlass(Multiclass):
    def decode(self, w, x, y, rescaling):
        os._exit(1)


class Chain:
    """Labelings are sequences, Psi counts (feature, label) and (label, label) pairs, Delta is the Hamming distance."""

    def __init__(self, n_features, n_labels):
        self.n_features, self.n_labels = n_features, n_labels
        self.n_params = n_labels * (n_features + n_labels)

    def joint_feature(self, x, y):
        emissions = np.zeros((self.n_labels, self.n_features))
        np.add.at(emissions, np.asarray(y), x)
        transitions = np.zeros((self.n_labels, self.n_labels))
        np.add.at(transitions, (np.asarray(y[:-1], dtype=int), np.asarray(y[1:], dtype=int)), 1.0)
        return np.concatenate([emissions.ravel(), transitions.ravel()])

    def label_loss(self, y, y_hat):
        return float(np.sum(np.asarray(y) != np.asarray(y_hat)))

    def decode(self, w, x, y, rescaling):
        emissions, transitions = self.scores(w, x)
        wrong = np.asarray(y)[:, None] != np.arange(self.n_labels)
        if rescaling == "margin":
            return self.viterbi((emissions + wrong)[None], transitions[None])[0]
        truth = w @ self.joint_feature(x, y)
        candidates = [self.with_errors(emissions, transitions, wrong, n) for n in range(len(y) + 1)]
        return max(candidates, key=lambda y_hat: self.slack_loss(w, x, y, y_hat, truth))

    def slack_loss(self, w, x, y, y_hat, truth):
        return self.label_loss(y, y_hat) * (1.0 + w @ self.joint_feature(x, y_hat) - truth)

    def scores(self, w, x):
        split = self.n_labels * self.n_features
        return x @ w[:split].reshape(self.n_labels, -1).T, w[split:].reshape(self.n_labels, -1)

    def viterbi(self, emissions, transitions):
        """The best sequence of each of several chains."""
        best, back = emissions[:, 0], []
        for t in range(1, emissions.shape[1]):
            through = best[:, :, None] + transitions
            back.append(through.argmax(axis=1))
            best = through.max(axis=1) + emissions[:, t]
        path = [best.argmax(axis=1)]
        for pointers in reversed(back):
            path.append(np.take_along_axis(pointers, path[-1][:, None], axis=1)[:, 0])
        return np.array(path[::-1]).T

    def with_errors(self, emissions, transitions, wrong, n):
        """The best sequence with n errors: Viterbi over (label, errors so far); the truth if there is none."""
        best = np.full((self.n_labels, n + 2), -np.inf)  # the last column: too many
        for label in range(self.n_labels):
            best[label, min(int(wrong[0, label]), n + 1)] = emissions[0, label]
        back = []
        for t in range(1, len(wrong)):
            through = best[:, None, :] + transitions[:, :, None]
            pointers, arrived = through.argmax(axis=0), through.max(axis=0)
            best = np.full_like(best, -np.inf)
            for label in range(self.n_labels):
                if wrong[t, label]:
                    best[label, 1 : n + 1] = arrived[label, :n] + emissions[t, label]
                else:
                    best[label, : n + 1] = arrived[label, : n + 1] + emissions[t, label]
            back.append(pointers)
        label, errors = int(best[:, n].argmax()), n
        if best[label, n] == -np.inf:
            return np.flatnonzero(~wrong.ravel()) % self.n_labels
        path = [label]
        for t in range(len(wrong) - 1, 0, -1):
            errors -= int(wrong[t, label])
            label = int(back[t - 1][label, errors])
            path.append(label)
        return np.array(path[::-1])

    def labelings(self, x):
        return [np.array(y) for y in product(range(self.n_labels), repeat=len(x))]


def draw_multiclass(seed=0, n=12, n_features=3, n_classes=4, costs=None, kind=Multiclass):
    rng = np.random.default_rng(seed)
    model = kind(n_features, n_classes, costs)
    return model, list(rng.standard_normal((n, n_features))), rng.integers(0, n_classes, n).tolist()


def draw_chains(seed=0, n=8, n_features=2, n_labels=3, longest=4):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, n)
    X = [rng.standard_normal((length, n_features)) for length in lengths]
    return Chain(n_features, n_labels), X, [rng.integers(0, n_labels, length) for length in lengths]


def worst_losses(model, X, Y, w, rescaling):
    """Each example's loss by trying every labeling, from the formula alone."""
    return np.array(
        [
            max(loss_of(model, x, y, y_hat, w, rescaling) for y_hat in model.labelings(x))
            for x, y in zip(X, Y, strict=True)
        ]
    )


def loss_of(model, x, y, y_hat, w, rescaling):
    rise = float((dense(model, x, y_hat) - dense(model, x, y)) @ w)
    loss = model.label_loss(y, y_hat)
    return loss + rise if rescaling == "margin" else loss * (1.0 + rise)


def dense(model, x, y):
    feature = model.joint_feature(x, y)
    if not isinstance(feature, tuple):
        return feature
    full = np.zeros(model.n_params)
    np.add.at(full, *feature)
    return full


class LikelyChain(Chain):
    """A chain with sums over all sequences, by forward and backward passes in logarithms."""

    releases_gil = True

    def __init__(self, n_features, n_labels):
        super().__init__(n_features, n_labels)
        self.n_prepared = 0

    def prepare(self, w):
        self.n_prepared += 1
        split = self.n_labels * self.n_features
        return w[:split].reshape(self.n_labels, -1), w[split:].reshape(self.n_labels, -1)

    def scores(self, prepared, x):
        return x @ prepared[0].T, prepared[1]

    def log_partition(self, prepared, x):
        nodes, pairs, log_z = self._beliefs(prepared, x)
        return log_z, np.concatenate([(nodes.T @ x).ravel(), pairs.ravel()])

    def parts(self, x, y):
        return np.eye(self.n_labels)[y]

    def marginals(self, prepared, x):
        return self._beliefs(prepared, x)[0]

    def predict(self, prepared, x):
        emissions, transitions = self.scores(prepared, x)
        return self.viterbi(emissions[None], transitions[None])[0]

    def _beliefs(self, prepared, x):
        emissions, transitions = self.scores(prepared, x)
        forward, backward = [emissions[0]], [np.zeros(self.n_labels)]
        for row in emissions[1:]:
            forward.append(row + np.logaddexp.reduce(forward[-1][:, None] + transitions, axis=0))
        for row in emissions[:0:-1]:
            backward.insert(0, np.logaddexp.reduce(transitions + row + backward[0], axis=1))
        log_z = np.logaddexp.reduce(forward[-1])
        nodes = np.exp(np.array(forward) + np.array(backward) - log_z)
        pairs = np.zeros((self.n_labels, self.n_labels))
        for t in range(1, len(x)):
            pairs += np.exp(forward[t - 1][:, None] + transitions + emissions[t] + backward[t] - log_z)
        return nodes, pairs, log_z
