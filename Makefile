# `make train` and `make test` set everything up by themselves; a second call installs nothing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# How many processes the tests have: one more than two cores, for tests wait a lot.
AT_ONCE ?= 3
SIDE_BY_SIDE := -n $(AT_ONCE) --dist loadgroup --no-loadscope-reorder
# The tested version. Another one, or the CPU build's file: make install TORCH=...
TORCH ?= torch==2.13.0

# Compiled Python files halve the start of every command, whatever the shell says about writing them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: train test test-all lint install dev bench clean help

help:            ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/'

train: $(VENV)/.installed   ## train an agent on three Meta-World tasks; ARGS="..." passes any options
	@$(BIN)/medley train $(if $(findstring env=,$(ARGS)),,env=metaworld-quick) $(ARGS)

test: $(VENV)/.dev          ## lint, types and all quick tests
	$(MAKE) --no-print-directory lint
	$(BIN)/python -m pytest -m "not long" $(SIDE_BY_SIDE)

test-all: $(VENV)/.dev      ## the same with the long soaks and sweeps, and coverage
	$(MAKE) --no-print-directory lint
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) --cov --cov-report=term:skip-covered

lint: $(VENV)/.dev          ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.dev         ## medley against Stable-Baselines3
	$(BIN)/medley bench update --json

install: $(VENV)/.installed ## the virtual environment with medley in it
dev: $(VENV)/.dev           ## the same with the tools of developers

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# What pip does with one core, by all of them; some packages bring files that are templates rather than Python.
COMPILE := $(BIN)/python -m compileall -q -j 0 $(VENV)/lib medley > /dev/null || true

$(VENV)/.installed: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit("medley needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@echo "Setting up $(VENV); this happens once and takes a minute or two."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) "$(TORCH)" -c requirements.lock
	@$(PIP) --editable . -c requirements.lock
	@$(COMPILE)
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	@$(PIP) --editable ".[dev,bench,adroit,minari,slurm,ray,tune,export]" -c requirements.lock
	@$(PIP) --no-deps gym-hil==0.1.13
	@$(COMPILE)
	@touch $@

clean:           ## remove the virtual environment and caches, not the runs
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .coverage build *.egg-info
