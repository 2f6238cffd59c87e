"""Real sets that come with Python and its packages (``peers.py --found``): nothing in the library was chosen on them.

Text are the docstrings of the standard library, NumPy, SciPy and scikit-learn, so these sets differ a little between
versions; the others are those that scikit-learn ships.
"""

from __future__ import annotations

import ast
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_sample_images
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import scale

PACKAGES = ("numpy", "scipy", "sklearn")
LEAST_WORDS = 12  # of a docstring
LEAST_DOCUMENTS = 30  # of a module
SIDE = 16  # of a patch of a photograph
N_PATCHES = 12000

Found = tuple[Any, dict[str, np.ndarray]]  # X; signs, classes, numbers and counts, as far as there are such targets


@cache
def docstrings() -> tuple[list[str], list[str]]:
    """Docstrings of modules with enough of them, and these modules, one level below the package."""
    library, installed = (Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib"))
    files = [(library, file) for file in sorted(library.rglob("*.py"))]
    files += [(installed, file) for name in PACKAGES for file in sorted((installed / name).rglob("*.py"))]
    found = []
    for root, file in files:
        parts = file.relative_to(root).with_suffix("").parts
        if not {"test", "tests", "site-packages"} & set(parts):
            found += [(text, ".".join(parts[:2])) for text in _docstrings(file)]
    counts = Counter(module for _, module in found)
    kept = [(text, module) for text, module in found if counts[module] >= LEAST_DOCUMENTS]
    return [text for text, _ in kept], [module for _, module in kept]


def _docstrings(file: Path) -> Iterator[str]:
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # files of the standard library's own tests
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            text = ast.get_docstring(node)
            if text is not None and len(text.split()) >= LEAST_WORDS:
                yield text


def documents() -> Found:
    """Words and pairs of words of whole docstrings."""
    texts, _ = docstrings()
    return TfidfVectorizer(sublinear_tf=True, min_df=2, ngram_range=(1, 2)).fit_transform(texts), _modules()


def sentences() -> Found:
    """Words of their first paragraphs, which should tell how long the rest is, too."""
    texts, _ = docstrings()
    X = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform([text.partition("\n\n")[0] for text in texts])
    length = np.log([float(len(text.split())) for text in texts])
    paragraphs = np.array([float(text.count("\n\n")) for text in texts])
    return X, _modules() | {"numbers": (length - length.mean()) / length.std(), "counts": paragraphs}


def _modules() -> dict[str, np.ndarray]:
    _, modules = docstrings()
    is_sklearn = np.array([module.startswith("sklearn") for module in modules])
    return {"classes": np.unique(modules, return_inverse=True)[1], "signs": np.where(is_sklearn, 1.0, -1.0)}


def digits() -> Found:
    """1797 x 64 handwritten digits."""
    X, y = load_digits(return_X_y=True)
    return X / 16.0, {"classes": y, "signs": np.where(y % 2 == 1, 1.0, -1.0)}


def patches() -> Found:
    """Dense 12000 x 256: grey patches of the halves of two photographs; the numbers are pixels to the right of them."""
    rng = np.random.default_rng(0)
    X, y, beside = [], [], []
    for which, image in enumerate(load_sample_images().images):
        grey = image.mean(axis=2) / 255.0
        for _ in range(N_PATCHES // 2):
            top, left = (rng.integers(size - SIDE - 1) for size in grey.shape)
            X.append(grey[top : top + SIDE, left : left + SIDE].ravel())
            y.append(2 * which + (top > grey.shape[0] / 2))
            beside.append(grey[top + SIDE // 2, left + SIDE])
    numbers = np.array(beside)
    return np.array(X), {
        "classes": np.array(y),
        "signs": np.where(np.array(y) > 1, 1.0, -1.0),
        "numbers": (numbers - numbers.mean()) / numbers.std(),
    }


def cancer() -> Found:
    """569 x 30 measurements of cells."""
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), {"signs": np.where(y == 1, 1.0, -1.0)}


def diabetes() -> Found:
    """442 x 10 measurements of patients."""
    X, y = load_diabetes(return_X_y=True)
    return scale(X), {"numbers": scale(y), "counts": y / y.mean()}


FINDERS: dict[str, Callable[[], Found]] = {
    "documents": documents,
    "sentences": sentences,
    "digits": digits,
    "patches": patches,
    "cancer": cancer,
    "diabetes": diabetes,
}
SETS_OF = {
    "signs": ("documents", "sentences", "digits", "patches", "cancer"),
    "classes": ("documents", "sentences", "digits", "patches"),
    "numbers": ("sentences", "patches", "diabetes"),
    "counts": ("sentences", "diabetes"),
}
