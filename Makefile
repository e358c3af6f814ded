# Commands for developers. Each target installs what it needs on first use.
# To choose a Python: make PYTHON=/path/to/python3.12 setup

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
export PYTHON

VENV := .venv
RUN := source scripts/env.sh &&
KERNELS := $(shell find src/quantide/kernels -name '*.py' 2>/dev/null)
CODE := $(wildcard src tests bench examples)
# Tests that together run every kernel.
KERNEL_TESTS := $(addprefix tests/,queries windows history live server test_bad_input.py test_bytes_fuzz.py test_checks.py \
	test_edges.py test_hostile_arrays.py bench/test_cost_model.py test_summaries.py test_summary_properties.py \
	test_sorting.py test_merge_trees.py test_old_bytes.py test_order_statistics.py test_pandas_quantiles.py \
	test_polars_quantiles.py test_tails.py spark/test_record_reader.py store/test_parquet_footer.py)

PACKAGES := $(VENV)/.done-packages
WARM := $(VENV)/.done-kernels
JAVA := $(VENV)/.done-java
BROWSER := $(VENV)/.done-browser
PROGRAMS := $(VENV)/.done-programs
PROMETHEUS := build/tools/.done-prometheus
OBJECT_STORES := build/tools/.done-object-stores
KAFKA := build/tools/.done-kafka
JAVA_CLASSES := build/tools/.done-java-classes
PEERS := $(VENV)/.done-bench
DEMO := $(if $(wildcard $(VENV)/.done-packages),$(VENV)/.done-kernels,$(VENV)/.done-demo)

.PHONY: help setup demo test test-all test-bounds lint docs bench evidence soak characterize release clean

help:  ## Show this list
	@echo "Quantide: quantiles of data that keeps arriving, with an error bound proved for every answer."
	@echo
	@sed -n -E 's/^([a-z-]+):.*  ## (.*)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
		while IFS='|' read -r target text; do printf '%-19s %s\n' "$$target" "$$text"; done

setup: $(PACKAGES) $(WARM) $(JAVA) $(JAVA_CLASSES) $(BROWSER) $(PROGRAMS) $(PROMETHEUS) $(OBJECT_STORES) $(KAFKA)  ## Install everything: environment, packages, compiled kernels, Java, a browser, Prometheus, object stores and Kafka for tests
	@echo "Ready. Try: make demo"

demo: $(DEMO) $(JAVA)  ## Run the demo: a page with live data of a generated market (ARGS="--terminal --port 8700")
	@$(RUN) python -m quantide demo $(ARGS)

test: lint $(WARM) $(JAVA) $(JAVA_CLASSES) $(BROWSER) $(PROGRAMS) $(PROMETHEUS) $(OBJECT_STORES) $(KAFKA)  ## Lint, then run the tests and the examples in the documentation (ARGS="-k merge")
	@echo "Tests: all except the slow ones"
	@$(RUN) python -m pytest -m "not slow" -n 3 --dist loadgroup $(ARGS)

test-all: lint $(WARM) $(JAVA) $(JAVA_CLASSES) $(BROWSER) $(PROGRAMS) $(PROMETHEUS) $(OBJECT_STORES) $(KAFKA)  ## Like test, including the slow tests
	@echo "Tests: all"
	@$(RUN) python -m pytest -n 3 --dist loadgroup $(ARGS)

test-bounds: $(PACKAGES)  ## Run the tests of kernels with bounds checks on every index, in about five minutes (ARGS="-k merge")
	@echo "State machines, then tests: an index that is negative or out of bounds raises IndexError"
	@$(RUN) python -m tests.bounds tests/machines $(ARGS) && \
		python -m tests.bounds $(KERNEL_TESTS) -m "not slow" -n 2 --dist loadgroup $(ARGS)

lint: $(PACKAGES)  ## Check style (ruff), types (mypy, strict) and that packages import only from lower layers (import-linter)
	@echo "Style: ruff"
	@$(RUN) python -m ruff check . && python -m ruff format --check .
	@echo "Types: mypy, strict, on $(CODE)"
	@$(RUN) python -m mypy --num-workers auto $(CODE)
	@echo "Layers: import-linter"
	@$(RUN) lint-imports --no-logo

docs: $(PACKAGES)  ## Build the documentation site in build/site (ARGS=serve for a live preview)
	@$(RUN) NO_MKDOCS_2_WARNING=1 python -m mkdocs $(if $(ARGS),$(ARGS),build --strict)

bench: $(PEERS) $(WARM) $(KAFKA)  ## Measure speed against other libraries and write docs/results (ARGS are passed on)
	@$(RUN) python -m bench $(ARGS)

evidence: $(PEERS) $(WARM) $(JAVA) $(BROWSER) $(KAFKA)  ## Measure every subject except the soak and the violation search, in less than an hour, and write docs/results, docs/characterization (FULL=1: large sizes)
	@$(RUN) python -m bench evidence $(if $(FULL),--full)

soak: $(WARM) $(JAVA) $(KAFKA) $(OBJECT_STORES)  ## Kill ingestion at random for ten minutes and check every row (SOAK="1 h", ARGS="--seed 2 --source all")
	@$(RUN) python -m tests.spark.soak $(ARGS)

characterize: $(WARM) $(JAVA)  ## Measure how time and memory grow and write docs/characterization (ARGS are passed on)
	@$(RUN) python -m bench characterize $(ARGS)

release: $(PACKAGES)  ## Build the sdist and its wheel in dist, reproducibly, and check them
	@rm -rf dist
	@$(RUN) SOURCE_DATE_EPOCH="$$(git log -1 --format=%ct)" python -m build
	@$(RUN) python -m twine check --strict dist/*
	@echo "Next: make test-all, which installs them in new environments; then see CONTRIBUTING.md, \"A release\""

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

# Without the packages for developers, which the demo does not need.
$(VENV)/.done-demo: pyproject.toml scripts/setup.sh $(KERNELS)
	@scripts/setup.sh demo $@

# The script creates this file only if it finds Java, so that the next make tries again: only Spark needs it.
$(JAVA): scripts/setup.sh
	@scripts/setup.sh java $@

# Tests start many Java processes. Without the archive they start more slowly.
$(JAVA_CLASSES): tests/java_classes.py $(PACKAGES) | $(JAVA)
	@echo "==> Archiving the classes of Spark, for tests"
	@$(RUN) python -m tests.java_classes build/tools/spark.jsa
	@mkdir -p $(@D) && touch $@

# Like Java: only the tests of the page need it.
$(BROWSER): $(PACKAGES)
	@scripts/setup.sh browser $@

$(PROGRAMS): scripts/setup.sh | $(PACKAGES)
	@scripts/setup.sh programs $@

# Like Java: only tests need it, and are skipped without it.
$(PROMETHEUS): scripts/setup.sh
	@scripts/setup.sh prometheus $@

# Like Java: only tests need them, and are skipped without them.
$(OBJECT_STORES): scripts/setup.sh
	@scripts/setup.sh object-stores $@

# Like Java: only tests need it, and are skipped without it.
$(KAFKA): scripts/setup.sh tests/kafka/pom.xml
	@scripts/setup.sh kafka $@
