# Each target works alone from a fresh clone: it makes .venv and installs what it needs, once.
# make PYTHON=/path/to/python3.12 ... chooses the interpreter of a new .venv; make NO_UV=1 ... installs with pip.
VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=
FAULTS_ARGS ?=
export PYTHON NO_UV

# One thread per process: on small graphs more bring nothing, and spinning threads starve their neighbours.
export OMP_NUM_THREADS ?= 1
export OMP_WAIT_POLICY ?= passive

# Compiled files halve the time a command takes to start; the tests start hundreds.
unexport PYTHONDONTWRITEBYTECODE

# The datasets' raw files, where they lie beside the clone. Without them, tests that need them are skipped.
ifndef CIGA_DATA
ifneq ($(wildcard ../shared/data),)
export CIGA_DATA := $(abspath ../shared/data)
endif
endif

.DEFAULT_GOAL := help
.PHONY: help install demo test lint faults faults-quick bench docs clean
.DELETE_ON_ERROR:

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# dev contains report and docs: once dev is installed, their stamps are there too.
$(VENV)/.installed-%: pyproject.toml
	@bash tools/install.sh $*

install: $(VENV)/.installed-dev ## Install ciga and everything for developing it into .venv

demo: $(VENV)/.installed-report ## ERM against CIGA on a shifted dataset: a table and a picture, in minutes
	$(BIN)/ciga demo

lint: $(VENV)/.installed-dev ## Check style (ruff), types (mypy) and the order of rooms (import-linter)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/rooms.py
	$(BIN)/python tools/check_pins.py

faults: $(VENV)/.installed-dev ## Attack everything for most of an hour: signals, disks, damaged files, clusters
	$(BIN)/python -m faults $(FAULTS_ARGS)

faults-quick: $(VENV)/.installed-dev ## A part of the attack, in under three minutes
	$(BIN)/python -m faults --quick $(FAULTS_ARGS)

test: lint faults-quick ## Check style and types, attack, then run every test; ends with what was skipped and why
	$(BIN)/pytest -n 2 --dist worksteal $(PYTEST_ARGS)

bench: $(VENV)/.installed-dev ## Measure speed and memory against peers
	$(BIN)/python -m benchmarks

docs: $(VENV)/.installed-docs ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict  # not --quiet: that hides warnings from --strict
	@echo "Documentation: site/index.html"

clean: ## Remove caches and build products (not .venv, not runs)
	rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests benchmarks tools faults -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
