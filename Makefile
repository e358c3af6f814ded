# Everything a developer runs. Each target sets up what it needs by itself; a second run starts at once.
# Another Python: make PYTHON=/path/to/python3.12 setup

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
export PYTHON

VENV := .venv
RUN := source scripts/env.sh &&
KERNELS := $(shell find src/quantide/kernels -name '*.py' 2>/dev/null)
CODE := $(wildcard src tests benchmarks characterization examples)
# Tests that reach kernels. Spark, the page and the documents reach the same ones.
REACH := $(addprefix tests/,queries windows history live server test_bad_input.py test_bytes_fuzz.py test_checks.py \
	test_edges.py test_hostile_arrays.py test_scale.py test_summaries.py test_summary_properties.py)

PACKAGES := $(VENV)/.done-packages
WARM := $(VENV)/.done-kernels
JAVA := $(VENV)/.done-java
BROWSER := $(VENV)/.done-browser
STRACE := $(VENV)/.done-strace
PEERS := $(VENV)/.done-bench

.PHONY: help setup demo test test-all test-bounds lint docs bench evidence soak characterize release clean

help:  ## Show this list
	@echo "Quantide: quantiles of data that keeps arriving, with a proved bound for every answer."
	@echo
	@sed -n -E 's/^([a-z-]+):.*  ## (.*)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
		while IFS='|' read -r target text; do printf '%-19s %s\n' "$$target" "$$text"; done

setup: $(PACKAGES) $(WARM) $(JAVA) $(BROWSER) $(STRACE)  ## Prepare everything: environment, packages, compiled kernels, Java, a browser for tests
	@echo "Ready. Try: make demo"

demo: $(WARM) $(JAVA)  ## Open the page on a live market that does not exist (ARGS="--terminal --port 8700")
	@$(RUN) python -m quantide demo $(ARGS)

test: lint $(WARM) $(JAVA) $(BROWSER) $(STRACE)  ## Lint, then run the tests and the examples in the documentation (ARGS="-k merge")
	@echo "Tests: all but the slow ones"
	@$(RUN) python -m pytest -m "not slow" -n 2 --dist loadgroup $(ARGS)

test-all: lint $(WARM) $(JAVA) $(BROWSER) $(STRACE)  ## As test, with the slow tests too
	@echo "Tests: all of them"
	@$(RUN) python -m pytest -n 1 --dist loadgroup $(ARGS)

test-bounds: $(PACKAGES)  ## Run all tests that reach kernels with every index checked, in about five minutes (ARGS="-k merge")
	@echo "State machines, then tests: an index out of bounds, or negative, raises IndexError"
	@$(RUN) python -m tests.bounds tests/machines $(ARGS) && \
		python -m tests.bounds $(REACH) -m "not slow" -n 2 --dist loadgroup $(ARGS)

lint: $(PACKAGES)  ## Check style (ruff), types (mypy, strict) and that rooms import only downward (import-linter)
	@echo "Style: ruff"
	@$(RUN) python -m ruff check . && python -m ruff format --check .
	@echo "Types: mypy, strict, on $(CODE)"
	@$(RUN) python -m mypy $(CODE)
	@echo "Rooms: import-linter"
	@$(RUN) lint-imports --no-logo

docs: $(PACKAGES)  ## Make a site of the documentation in build/site (ARGS=serve shows it while it is written)
	@$(RUN) NO_MKDOCS_2_WARNING=1 python -m mkdocs $(if $(ARGS),$(ARGS),build --strict)

bench: $(PEERS) $(WARM)  ## Measure speed beside the peers and write docs/results (ARGS are handed on)
	@$(RUN) python -m benchmarks $(ARGS)

evidence: $(PEERS) $(WARM) $(JAVA) $(BROWSER)  ## Measure everything in an hour and write docs/results, docs/characterization (FULL=1: large sizes)
	@$(RUN) python -m benchmarks.evidence $(if $(FULL),--full)

soak: $(WARM) $(JAVA)  ## Kill ingestion at random for ten minutes and check every row (SOAK="1 h", ARGS="--seed 2")
	@$(RUN) python -m tests.spark.soak $(ARGS)

characterize: $(WARM) $(JAVA)  ## Measure how time and memory grow and write docs/characterization (ARGS are handed on)
	@$(RUN) python -m characterization $(ARGS)

release: $(PACKAGES)  ## Build the sdist, and from it the wheel, into dist (the same commit, the same bytes), and check them
	@rm -rf dist
	@$(RUN) SOURCE_DATE_EPOCH="$$(git log -1 --format=%ct)" python -m build
	@$(RUN) python -m twine check --strict dist/*
	@echo "Next: make test-all installs them in bare environments. What then: CONTRIBUTING.md, \"A release\""

clean:  ## Remove the virtual environment, caches and build output
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name .git -prune -o -type d -name __pycache__ -print | xargs rm -rf

$(PACKAGES): pyproject.toml scripts/setup.sh
	@scripts/setup.sh packages all,dev
	@touch $@

$(PEERS): $(PACKAGES)
	@scripts/setup.sh packages bench
	@touch $@

$(WARM): $(PACKAGES) $(KERNELS)
	@scripts/setup.sh kernels $@

# The mark is left by the script, and only when Java was found: only the Spark parts need it.
$(JAVA): $(PACKAGES)
	@scripts/setup.sh java $@

# As with Java: only the tests of the page need it.
$(BROWSER): $(PACKAGES)
	@scripts/setup.sh browser $@

$(STRACE): scripts/setup.sh | $(PACKAGES)
	@scripts/setup.sh strace $@
