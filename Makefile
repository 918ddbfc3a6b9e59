# Every target sets up .venv by itself and uses it again.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

CHROMIUM := /usr/bin/chromium
SUDO := $(if $(filter-out 0,$(shell id -u)),sudo)

.PHONY: demo test test-long test-browser fuzz torture torture-ray check format docs dist try-wheel bench agree d3rlpy setup clean

demo: setup
	$(BIN)/chary demo

test: setup
	$(BIN)/python -m pytest

# Whole programs: killed and resumed, on two devices, on Ray and SLURM, examples trained to their end.
test-long: setup
	$(BIN)/python -m pytest -m long

# The pages as people see them, in a real browser: Debian's, so that nothing is downloaded from elsewhere.
test-browser: setup $(CHROMIUM)
	$(BIN)/python -m pytest -n 0 tests/browser

$(CHROMIUM):
	$(SUDO) apt-get install --yes --no-install-recommends chromium \
	  || { $(SUDO) apt-get update && $(SUDO) apt-get install --yes --no-install-recommends chromium; }

# Many more damaged and malicious datasets than the tests try; SEED=1 tries others.
fuzz: setup
	$(BIN)/python -m tests.torture.datasets --seed $(or $(SEED),0) --cases 2000

# Kills at chosen moments, thousands of damaged folders and datasets, hours of work, crowds at the servers: two
# hours on two cores, and a table in results/torture.md. The same command resumes; SEED=1 is another one. `python -m
# tests.torture --dry-run` says what it would take here.
SEED ?= 0
torture: setup
	$(BIN)/python -m tests.torture --seed $(SEED)

# The same on a Ray cluster of several nodes, which are killed too.
torture-ray: setup
	CHARY_TORTURE=1 $(BIN)/python -m pytest -n 0 -m long tests/tune/test_ray.py

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell
	$(BIN)/basedpyright

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: setup
	$(BIN)/mkdocs build --strict

# An archive of the source, and a wheel that is built from it.
dist: setup
	rm -rf dist
	$(BIN)/python -m build --quiet
	ls -lh dist

# The wheel in a clean environment of every supported Python that is found; DEMO=1 also runs `chary demo`.
try-wheel: dist
	$(BIN)/python -m tests.try_wheel $(if $(DEMO),--demo)

bench: setup d3rlpy
	$(BIN)/chary bench updates --out results
	$(BIN)/python -m benchmarks.bench ensembles --out results
	$(BIN)/python -m benchmarks.bench population --out results
	$(BIN)/python -m benchmarks.bench start --out results
	$(BIN)/python -m benchmarks.bench simulation --out results
	$(BIN)/python benchmarks/compare.py

# Scores and speed of our baselines beside d3rlpy's; CONTROLLER is D4RL's policy for hopper-medium-v2.
agree: setup d3rlpy
	$(BIN)/python benchmarks/agree.py --controller $(CONTROLLER)

# What we are compared with lives in an environment of its own.
d3rlpy: .venv-d3rlpy/.ready

.venv-d3rlpy/.ready: benchmarks/d3rlpy.txt
	test -x .venv-d3rlpy/bin/python || $(PYTHON) -m venv .venv-d3rlpy
	.venv-d3rlpy/bin/python -m pip install --quiet --constraint benchmarks/d3rlpy.txt torch
	.venv-d3rlpy/bin/python -m pip install --quiet --constraint benchmarks/d3rlpy.txt d3rlpy
	touch .venv-d3rlpy/.ready

setup: $(READY)

# Rebuilt when what is to be installed changes.
$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) not found; run 'make PYTHON=/path/to/python3.11'" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) .venv-d3rlpy dist site .pytest_cache .ruff_cache .hypothesis
