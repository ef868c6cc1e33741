PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup browser demo demo-dask test test-slow lint types imports unit avalanche release federation fuzz bench tables site docs screenshots pictures format clean

help: ## Say what each target does
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: .venv/.installed ## Make .venv with everything in it, once

# uv is several times as fast as pip, which takes over where uv finds something missing: it does not
# read pip's configuration, of which it is told the folders with wheels.
PIP_INSTALL = $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable
UV_INSTALL = UV_FIND_LINKS="$${PIP_FIND_LINKS:-$$($(BIN)/python -m pip config get global.find-links 2>/dev/null || true)}" \
	$(BIN)/uv pip install --quiet --python .venv --constraint constraints.txt --editable

.venv/.installed: pyproject.toml constraints.txt
	@echo "Installing into .venv, once: this takes about a minute"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt uv
	$(UV_INSTALL) '.[dev]' || $(PIP_INSTALL) '.[dev]'
	@touch $@

browser: ## Install Chromium, which the tests of the page want, where that is possible
	@command -v chromium >/dev/null \
		|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
			&& apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } \
		|| echo "no Chromium here, and no way to install it: the tests of the page will be skipped"

demo: setup ## Learn the bundled digits in five tasks, then forget a class
	$(BIN)/redunet demo --out demo

demo-dask: setup ## The same, then once more with two worker processes, ending in the same model file
	$(BIN)/redunet demo --workers 2 --out demo-dask

test: lint types imports unit ## All checks: lint, types, import rules, tests

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports --no-cache

# Three processes of one thread each, for two cores: some tests wait for processes of their own.
unit: setup
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 3

test-slow: setup browser avalanche release ## What takes longer: browser, Flower, storms of signals, attacks, Avalanche, release
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 3 -m slow

# Beside .venv, whose packages it sees: Avalanche needs many that nothing else here does.
avalanche: setup ## Test the adapter of Avalanche with Avalanche itself
	$(PYTHON) -m venv .venv-avalanche
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> .venv-avalanche/beside.pth
	mv .venv-avalanche/beside.pth .venv-avalanche/lib/python3*/site-packages/
	$(BIN)/uv pip install --quiet --python .venv-avalanche --no-deps \
		--requirement tests/adapters/avalanche-requirements.txt
	PYTHONPATH=src .venv-avalanche/bin/python -m pytest -q -p no:xdist -k avalanche tests/adapters

release: setup ## Write wheel, sdist and bill of materials to dist/, tried in fresh environments
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -s -p no:xdist tests/release/release_checks.py

federation: setup ## Run a federation of real Flower processes: withdrawal, masks
	$(BIN)/pytest -q -m slow tests/distributed/test_flower_deployment.py

fuzz: setup ## Attack models, files and processes: hours on two cores
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz

bench: setup ## Measure speed against the machine's limits, on a quiet machine, for half an hour; needs mnist and clinc150
	$(BIN)/pytest benchmarks -q -p no:xdist --benchmark-disable-gc --benchmark-columns=median
	for case in many clinc150 mnist; do $(BIN)/python -m benchmarks.answers benchmarks/results $$case || exit 1; done
	$(BIN)/python -m benchmarks.readme

tables: setup ## Make the tables and pictures of README and docs from the records
	$(BIN)/python -m redunet_lab.report.readme --figures
	$(BIN)/python -m benchmarks.readme
	$(BIN)/python -m benchmarks.widths_page

.venv/.docs-installed: .venv/.installed
	$(UV_INSTALL) '.[dev,docs]' || $(PIP_INSTALL) '.[dev,docs]'
	@touch $@

site: .venv/.docs-installed ## Build the documentation into site/, strictly, and check its links
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	$(BIN)/python -m docsite.check

docs: site ## Build the site, and run all code and notebooks of the documentation
	OMP_NUM_THREADS=1 ALL_PAGES=1 $(BIN)/pytest -q -n 2 tests/docs
	OMP_NUM_THREADS=1 $(BIN)/python -m docsite.notebooks --check

screenshots: site ## Make the pictures of the documentation in a browser
	$(BIN)/python -m docsite.screenshots

pictures: setup ## Make the pictures of terminals in README and docs, by running the commands
	$(BIN)/python -m docsite.terminal_picture docs

format: setup ## Put the code in its usual form
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

clean: ## Remove what the other targets made
	rm -rf .venv .venv-avalanche build dist site demo demo-dask src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
