"""The first fit on a machine compiles what it needs, and nothing twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

COUNT = """
import numpy as np, scipy.sparse as sp
from numba.core import event
from sklearn.datasets import dump_svmlight_file
from undercut import LinearClassifier, LinearRegressor, OnlineClassifier, Ranker, load_svmlight

class Names(event.Listener):
    def on_start(self, event):
        print(event.data["dispatcher"].py_func.__module__, event.data["dispatcher"].py_func.__name__)
    def on_end(self, event): pass

event.register("numba:compile", Names())
rng = np.random.default_rng(0)
X = rng.standard_normal((400, 8))
y = np.sign(X[:, 0] + 0.5 * rng.standard_normal(400))
"""
FITS = {
    "sparse": "dump_svmlight_file(X, y, '{0}/file'); X, y, _ = load_svmlight('{0}/file'); LinearClassifier().fit(X, y)",
    "dense": "LinearClassifier().fit(X, y); LinearClassifier(penalty='l1').fit(X, y)",
    "few": "X, y = X[:9], y[:9]; LinearClassifier(penalty='l1').fit(X, y); LinearRegressor(loss='absolute').fit(X, y)",
    "online": "OnlineClassifier().fit(X, y); OnlineClassifier(loss='logistic').fit(X, y)",
    "ranking": "Ranker().fit(X, y + 1.0, qid=np.arange(400) // 20)",
    "classes": "LinearClassifier(multi_class='crammer_singer').fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))",
}


def compiled(program: str, folder: str) -> Counter[str]:
    """How often a program compiles each of our functions where none has been compiled before."""
    setting = os.environ | {"NUMBA_CACHE_DIR": f"{folder}/cache", "NUMBA_OPT": "0"}  # counted, not run at speed
    command = [sys.executable, "-c", COUNT + program.format(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=setting)
    return Counter(line for line in done.stdout.splitlines() if line.startswith("undercut."))


@pytest.mark.parametrize("fit", FITS)
def test_no_function_is_compiled_twice(fit, tmp_path):
    counts = compiled(FITS[fit], str(tmp_path))
    assert counts
    assert set(counts.values()) == {1}, counts
