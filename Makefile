# `make run` and `make test` need Python 3.11 or newer and nothing else: they make their own environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: run test lint bench clean

run: $(VENV)/.installed
	$(BIN)/undercut demo

test: $(VENV)/.installed-dev
	$(BIN)/pytest

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/linear.py
	$(BIN)/python benchmarks/master.py
	$(BIN)/python benchmarks/table1.py
	$(BIN)/python benchmarks/figures12.py
	$(BIN)/python benchmarks/figure3.py
	$(BIN)/python benchmarks/bmrm_figures.py
	$(BIN)/python benchmarks/stream.py
	$(BIN)/python benchmarks/tables23.py
	$(BIN)/python benchmarks/table6.py
	$(BIN)/python benchmarks/multivariate.py
	$(BIN)/python benchmarks/ranking.py
	$(BIN)/python benchmarks/paths.py
	$(BIN)/python benchmarks/hedging.py
	$(BIN)/python benchmarks/structured.py
	$(BIN)/python benchmarks/tables45.py
	$(BIN)/python benchmarks/chunking.py

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("undercut needs Python 3.11 or newer; this is " + sys.version.split()[0] + ": run make PYTHON=python3.x") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
