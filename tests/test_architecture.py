"""Every package keeps to its place: heavy dependencies have one home each, whatever modules there are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "undercut"
HOMES = {  # prefixes of the modules that may import each heavy dependency
    "dask": ["maps.cluster"],
    "distributed": ["maps.cluster"],
    "joblib": ["selection"],
    "numba": ["_jit"],
    "sklearn": ["estimators", "selection", "cli"],
    "matplotlib": ["plotting"],
    "rich": ["callbacks", "cli", "display"],
    "typer": ["cli"],
    "torch": ["devices"],  # others ask it for torch
    "safetensors": ["io"],
    "polars": ["io.frames", "io.tables"],
    "onnx": ["estimators.files.onnx_export"],
    "piqp": ["solvers.quadratic_program"],
    "threadpoolctl": ["threads"],
}


def imports(file: Path) -> Iterator[str]:
    """The packages that a file imports anywhere, inside functions too."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module.partition(".")[0]


def test_a_heavy_dependency_has_one_home():
    for file in SOURCE.rglob("*.py"):
        module = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
        for package in HOMES.keys() & set(imports(file)):
            assert any(f"{module}.".startswith(f"{home}.") for home in HOMES[package]), f"{module} imports {package}"


def test_every_package_says_what_it_is_for():
    for folder in {file.parent for file in SOURCE.rglob("*.py")}:
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))), folder


def test_every_package_is_named_in_the_architecture():
    told = (SOURCE.parent.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    packages = {file.parent for file in SOURCE.rglob("*.py")} - {SOURCE}
    assert not [package for package in packages if f"`{package.name}/`" not in told]
