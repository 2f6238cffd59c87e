# `make run` and `make test` need Python 3.11 or newer and nothing else: they make their own environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: run test lint results clean

run: $(VENV)/.installed
	$(BIN)/undercut demo

test: $(VENV)/.installed-dev
	$(BIN)/pytest

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Runs every benchmark and writes its tables into benchmarks/RESULTS.md; NAMES="linear table6" runs some.
results: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/results.py $(NAMES)

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
