# Few words; conventions.md says how long each may take. Everything runs in .venv, made on first use.
SHELL := /bin/bash
PYTHON ?= python3
PY := .venv/bin/python
STAMP := .venv/.installed
WORKERS ?= 2

.PHONY: demo demo-real check unit stories test long bench lock sbom generate clean

# uv reads the lock (hash-pinned, no index named); where uv cannot be had, pip reads the same file.
$(STAMP): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or newer is needed: install python3 and python3-venv"; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv .venv
	@$(PY) -m pip install --quiet uv && \
	  $(PY) -m uv pip install --quiet --compile-bytecode --python $(PY) --require-hashes -r requirements.lock || \
	  $(PY) -m pip install --quiet --require-hashes -r requirements.lock
	@$(PY) -m uv pip install --quiet --python $(PY) --no-deps -e . || $(PY) -m pip install --quiet --no-deps -e .
	@touch $(STAMP)

demo: $(STAMP) ## the embedded federation: hub and three members in one process
	@.venv/bin/fedctl demo

demo-real: $(STAMP) ## the same flow on a real hub and two real members
	@$(PY) -m e2e.demo

check: $(STAMP) ## format, lint, types, contracts, drift of generated files
	@.venv/bin/ruff format --check --quiet . && .venv/bin/ruff check --quiet .
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-logo >.import-linter.log 2>&1 || { cat .import-linter.log; exit 1; }
	@$(PY) -m apis.crdgen --check
	@echo "check: format, lint, types, contracts and generated files are clean"

unit: $(STAMP) ## examples, laws, scenarios, contract tests in memory, 200 simulation seeds
	@PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -q -n $(WORKERS) --dist worksteal --ignore tests/kills -m "not long and not story" tests

stories: $(STAMP) ## whole programs on virtual time, one story after the other
	@PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -q -n $(WORKERS) --dist worksteal --ignore tests/kills -m "story and not long" tests

test: check ## check, unit, stories, kills in the simulator, e2e on real control planes
	@bash .ci/test

long: $(STAMP) ## many seeds and long runs, by hand
	@VF_LONG=1 $(PY) -m pytest -q -n $(WORKERS) -m "long or not long" --timeout 3600 tests
	@$(PY) -m benchmarks.dispatch --sitting 50000

bench: $(STAMP) ## the table of measured ratios, by hand
	@$(PY) -m benchmarks

lock: $(STAMP) ## resolve dependencies anew
	@$(PY) -m uv pip compile --quiet pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
	  --no-header --no-emit-index-url --no-annotate --upgrade -o requirements.lock
	@$(PY) -m uv pip compile --quiet pyproject.toml --universal --python-version 3.11 --generate-hashes \
	  --no-header --no-emit-index-url --no-annotate --constraint requirements.lock -o requirements-run.lock

sbom: $(STAMP) ## bill of materials of an installation, CycloneDX: build/sbom.cdx.json
	@mkdir -p build && $(PY) -m machinery.sbom requirements-run.lock > build/sbom.cdx.json

generate: $(STAMP) ## CRDs, reference and lifecycle pages from their sources
	@$(PY) -m apis.crdgen && $(PY) -m apis.docgen && $(PY) -m tests.test_lifecycles && $(PY) -m tests.member_agent.test_lifecycles

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache build *.egg-info
