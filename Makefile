# Works on a fresh machine with Python 3.11 or newer: targets that need .venv make it first.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SUITES := $(wildcard $(addprefix tests/,unit contract simulation integration chaos compatibility))
QUICK := $(wildcard $(addprefix tests/,unit simulation))
CODE := $(wildcard src tests bench examples scripts)
PYTEST := $(BIN)/python -m pytest -q
PAGE := src/stoker/web/static/index.html
PAGE_SOURCES := $(shell find web/src -type f ! -name schema.d.ts 2>/dev/null) \
	$(addprefix web/,index.html package.json package-lock.json vite.config.ts tsconfig.json)

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(STAMP): requirements/lock.txt requirements/build.txt pyproject.toml scripts/make-venv
	@scripts/make-venv $(VENV)
	@touch $@

$(PAGE): $(STAMP) $(PAGE_SOURCES) requirements/web.txt scripts/make-web
	@scripts/make-web $(BIN)/python
	@touch $@

.PHONY: venv
venv: $(STAMP) $(PAGE) ## make the environment in .venv from the lock, and the web page

.PHONY: web
web: $(PAGE) ## build the web page

.PHONY: web-dev
web-dev: $(STAMP) ## the web page, reloaded while you edit it (STOKER_MASTER=URL of a running master)
	scripts/web-tools $(BIN)/python dev

.PHONY: web-check
web-check: $(STAMP) ## types, style and unit tests of the web page
	scripts/web-tools $(BIN)/python check

.PHONY: demo
demo: $(STAMP) $(PAGE) ## a local cluster runs a batch and a streaming pipeline, then cleans up
	@$(BIN)/stoker demo

.PHONY: test
test: $(STAMP) $(PAGE) ## all tests
	$(PYTEST) $(SUITES)

.PHONY: check
check: lint types layers web-check ## style, types, layers, the web page, unit and simulation tests: under two minutes
	TEST_SEEDS=10 $(PYTEST) -n 2 $(QUICK)

.PHONY: lint
lint: $(STAMP) ## ruff: faults and format
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

.PHONY: format
format: $(STAMP) ## ruff: repair format and what can be repaired safely
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

.PHONY: types
types: $(STAMP) ## mypy, strict
	$(BIN)/mypy

.PHONY: layers
layers: $(STAMP) ## import-linter: an arrow goes down only
	$(BIN)/lint-imports

.PHONY: unit
unit: $(STAMP) ## pure tests, seconds
	$(PYTEST) tests/unit

.PHONY: simulation
simulation: $(STAMP) ## whole clusters on virtual time, from many seeds (SEEDS=500)
	TEST_SEEDS=$(or $(SEEDS),500) $(PYTEST) tests/simulation

.PHONY: integration
integration: $(STAMP) ## real gRPC, real Spark, real processes
	$(PYTEST) tests/integration

.PHONY: chaos
chaos: $(STAMP) ## real processes killed and frozen at length (ROUNDS=5, SEED=1), every failpoint
	TEST_CHAOS=long TEST_CHAOS_ROUNDS=$(or $(ROUNDS),5) TEST_CHAOS_SEED=$(or $(SEED),1) \
		$(PYTEST) -s tests/chaos

.PHONY: savepoints
savepoints: $(STAMP) ## savepoints of real jobs at length, random sequences with deaths (SEQUENCES=20, SEED=…, else a random one)
	TEST_SAVEPOINTS=long TEST_SEQUENCES=$(or $(SEQUENCES),20) TEST_SEQUENCE_SEED=$(or $(SEED),0) \
		$(PYTEST) tests/integration/engine/test_savepoints.py \
		tests/integration/engine/test_stateful_deaths.py tests/integration/cli/test_savepoints.py \
		tests/integration/cli/test_upgrades.py tests/integration/cli/test_job_options.py \
		tests/chaos/test_replacements.py tests/chaos/test_savepoint_law.py

.PHONY: flink-tools
flink-tools: $(STAMP) ## Flink's command line and dashboard (FLINK_JARS=…/lib names its jars)
	$(PYTEST) tests/integration/cli/test_flink_tools.py

.PHONY: insight-check
insight-check: $(STAMP) ## a real Prometheus reads a cluster; rules and dashboard find their series
	@command -v prometheus promtool > /dev/null || \
		{ echo "insight-check needs prometheus and promtool (Debian's package prometheus)" >&2; exit 1; }
	$(PYTEST) tests/integration/insight

.PHONY: bench
bench: $(STAMP) ## measure, and print ratios
	$(BIN)/python -m bench

.PHONY: docs
docs: $(STAMP) ## write the generated reference pages, and the names of Spark's settings
	$(BIN)/python scripts/spark_settings.py src/stoker/pipeline/spark_settings.txt
	$(BIN)/python -m stoker.config.reference docs/reference/configuration.md
	$(BIN)/python -m stoker.cli.reference docs/reference/cli.md
	$(BIN)/python -m stoker.rest.openapi.reference docs/reference/rest.md
	$(BIN)/python -m stoker.metrics.reference docs/reference/metrics.md
	$(BIN)/python scripts/python_reference.py docs/reference/python.md
	$(BIN)/python scripts/behaviours.py docs/behaviours.md

.PHONY: site
site: $(STAMP) ## the documentation as a web site, in site/ (SERVE=1: at http://127.0.0.1:8000)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs $(if $(SERVE),serve,build --quiet --strict)

.PHONY: lock
lock: $(STAMP) ## resolve pyproject.toml into requirements/ again (UPGRADE=1: newer versions)
	scripts/lock $(if $(UPGRADE),--upgrade)

.PHONY: audit
audit: ## known vulnerabilities in the packages of a cluster (asks PyPI's advisory service)
	scripts/audit

.PHONY: clean
clean: ## remove .venv, all caches and what was built
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build site \
		web/node_modules web/openapi.json web/src/api/schema.d.ts src/stoker/web/static
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
