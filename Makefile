# Two commands are enough: `make run` and `make test`. Both set up what they need.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUN    := $(VENV)/.run
TEST   := $(VENV)/.test
PURE_TESTS := $(shell $(PYTHON) scripts/pure.py tests) tests/properties
SITE   := $(VENV)/.site
DATA   ?= build/data
WORK   ?= build/training
MODEL  ?= gateway/model

# Every start of Python would compile all modules again: 1.4 s of CPU for the server, not 0.6 s.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test tooling lint types pure suite docs docs-pages dist sbom fuzz search mutation soak outages cuts fleet journey audit test-vllm test-oldest test-3.12 test-3.13 test-node test-browser meeting test-clients bench instructions train evaluate clean

run: $(RUN)
	@$(BIN)/gateway serve $(ARGS) || { status=$$?; \
	  echo 'Flags are given in ARGS: make run ARGS="--port 8001"' >&2; exit $$status; }

test: lint types pure suite

$(VENV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name one with: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

$(RUN): pyproject.toml | $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e .
	@touch $@

# Dependency groups of pyproject.toml need pip 25.1, so pip is upgraded first.
$(TEST): pyproject.toml tools/pyproject.toml tools/hatch_metadata.py requirements/speech.txt | $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -U 'pip>=25.1'
	$(BIN)/python -m pip install -q --disable-pip-version-check -e . -e tools --group test
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -r requirements/speech.txt
	@touch $@ $(RUN)

# What all targets below that share the environment need beside the packages of the tests.
tooling: $(TEST) $(SITE)
	$(BIN)/python -m pip install -q --disable-pip-version-check --group dist --group oldest --group audit --group fuzz

$(SITE): pyproject.toml | $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -U 'pip>=25.1'
	$(BIN)/python -m pip install -q --disable-pip-version-check --group docs
	@touch $@

lint: $(TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(TEST)
	$(BIN)/mypy

# Tests run in several processes. Those of one file stay together and share its fixtures.
PYTEST := $(BIN)/pytest --dist loadfile
# Most tests of the suite wait for sockets and processes, so that each core has time for two.
TWO_EACH := $(shell $(PYTHON) -c 'import os; print(2 * (os.cpu_count() or 1))')

# The tests of the pure folders (scripts/pure.py), with complete branch coverage, in seconds.
# Properties do not count towards the coverage: hypothesis draws constants from the modules that are
# loaded, so its examples depend on the order of the tests.
# Make does not print the commands with the lists of files, which are pages long.
pure: $(TEST)
	@$(PYTEST) -n auto -m 'not hypothesis' --cov --cov-report= $(PURE_TESTS)
	@$(BIN)/coverage report --fail-under=100 --include='$(shell $(PYTHON) scripts/pure.py)'
	@$(PYTEST) -n auto -m hypothesis $(PURE_TESTS)

# Marks of the tests that need no GPU, Node.js or vLLM.
QUICK := not vllm and not node and not browser and not clients and not external

# All other tests of this kind. The tests of `pure` are not run twice.
suite: $(TEST)
	@$(PYTEST) -n $(TWO_EACH) -m '$(QUICK)' \
	  $(addprefix --ignore=,$(PURE_TESTS))

# New examples for all property tests, ten times as many as in `make test`.
search: $(TEST)
	HYPOTHESIS_PROFILE=search $(BIN)/pytest --timeout 1800 -m 'not vllm' $(shell grep -rl '^@given' tests)

# Small changes to the code of the core, 93 % of which its tests must notice, or of one folder:
# AREA=core/session. ARGS=--again repeats only the changes that went unnoticed.
mutation: $(TEST)
	$(BIN)/python -m pip install -q --disable-pip-version-check --group mutation
	$(BIN)/python scripts/mutation.py $(ARGS) $(AREA)

test-node: $(TEST)
	$(BIN)/pytest -m node

# The demo page in Chromium and Firefox. Pictures of its screens are left in build/browser.
# One file at a time, because other tests run beside them in CI and pages are slow when CPUs are full.
test-browser: $(TEST)
	$(BIN)/pytest -m browser

# A meeting of six people in six browsers, with the included model, a gateway that is stopped once and
# killed once, and somebody who comes late: 15 minutes, or MINUTES=5.
meeting: $(TEST)
	MINUTES=$(or $(MINUTES),15) $(BIN)/pytest -n0 -rP -m browser -k six-people tests/browser

# Clients of other services: LiveKit and Pipecat with OpenAI's realtime sockets, LibreTranslate's and
# DeepL's over HTTP. They have an environment of their own, since some are large.
CLIENTS := .venv-clients
$(CLIENTS)/.made: pyproject.toml tools/pyproject.toml tools/hatch_metadata.py
	$(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/python -m pip install -q --disable-pip-version-check -U 'pip>=25.1'
	$(CLIENTS)/bin/python -m pip install -q --disable-pip-version-check -e . -e tools --group clients
	@touch $@

test-clients: $(CLIENTS)/.made
	$(CLIENTS)/bin/python -m pytest -m clients

# Tests with a real vLLM on the CPU, in an environment of their own, since vLLM brings PyTorch.
test-vllm:
	PYTHON=$(PYTHON) scripts/vllm-cpu.sh
	.venv-vllm/bin/python -m pytest -m vllm tests/engines tests/tools/tune tests/training

# The sdists and wheels of the gateway, its client and its tools, and the archive of the client in
# JavaScript, in dist/, installed and tried. URL is the address of the repository, to which the links
# of the package's page then lead.
dist: $(TEST)
	$(BIN)/python -m pip install -q --disable-pip-version-check --group dist
	rm -rf dist build/installed
	CAPTION_GATEWAY_URL=$(URL) $(BIN)/python -m build --outdir dist .
	CAPTION_GATEWAY_URL=$(URL) $(BIN)/python -m build --outdir dist clients/python
	$(BIN)/python -m build --outdir dist tools
	$(BIN)/twine check --strict dist/*
	npm pack --silent ./clients/js --pack-destination dist
	$(BIN)/python scripts/check_dist.py dist build/installed

# The software bill of materials of the gateway as `make dist` has installed it: CycloneDX, in
# dist/sbom.cdx.json. The client and the tools are distributions of their own.
sbom: dist
	$(BIN)/python -m pip --python build/installed/bin/python uninstall -q -y caption-gateway-client caption-gateway-tools
	$(BIN)/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
	  --mc-type application --output-file dist/sbom.cdx.json build/installed/bin/python

# The tests of what depends on other packages most, with the oldest allowed version of each. The
# other tests always run with the newest ones. uv can choose the oldest versions; pip cannot.
OLDEST := .venv-oldest
test-oldest: $(TEST)
	$(BIN)/python -m pip install -q --disable-pip-version-check --group oldest
	$(BIN)/uv venv -q --allow-existing --python $(BIN)/python $(OLDEST)
	$(BIN)/uv pip compile -q --resolution lowest-direct --no-header --no-annotate \
	  --python $(OLDEST)/bin/python -o $(OLDEST)/oldest.txt pyproject.toml
	$(BIN)/uv pip install -q --python $(OLDEST)/bin/python -e . -e tools --group test -c $(OLDEST)/oldest.txt
	$(OLDEST)/bin/python -m pytest -n auto --dist loadfile -m '$(QUICK)' $(OLDEST_TESTS)
OLDEST_TESTS := tests/client/test_api.py tests/engines/ctranslate2 tests/engines/test_contract.py \
  tests/protocol tests/server/access tests/server/uvicorn tests/storage/sqlite \
  tests/test_public_names.py

# The same tests and those of Redis with the newest dependencies: with Python 3.13 in a root of
# Debian 13, and with a Python 3.12 of this machine, which Debian does not have. TESTS=tests runs
# all, which takes as long as `make test`.
TESTS ?= $(OLDEST_TESTS) tests/server/fleet
PYENV_ROOT ?= $(HOME)/.pyenv
test-3.13: IN := scripts/debian-13.sh
test-3.13: NEW := python3
test-3.12: IN :=
# A python3.12 on PATH may be a shim of pyenv that does not start.
test-3.12: NEW = $(shell for python in python3.12 $(PYENV_ROOT)/versions/3.12*/bin/python3.12; do \
  "$$python" -c '' 2>/dev/null && echo "$$python" && break; done)

.venv-3.%/.made: pyproject.toml tools/pyproject.toml tools/hatch_metadata.py requirements/speech.txt
	@[ -n "$(NEW)" ] || { \
	  echo 'No python3.12 on PATH or in $(PYENV_ROOT)/versions: install it or set PYENV_ROOT.' >&2; \
	  exit 1; }
	$(IN) $(NEW) -m venv $(@D)
	$(IN) $(@D)/bin/python -m pip install -q -U 'pip>=25.1'
	$(IN) $(@D)/bin/python -m pip install -q -e . -e tools --group test
	$(IN) $(@D)/bin/python -m pip install -q --no-deps -r requirements/speech.txt
	@touch $@

test-3.12 test-3.13: test-3.%: .venv-3.%/.made
	$(IN) .venv-3.$*/bin/python -m pytest -n auto --dist loadfile -m '$(QUICK)' $(TESTS)

# Known vulnerabilities of the dependencies. If the service cannot be reached, the output says so.
audit: $(TEST)
	$(BIN)/python -m pip install -q --disable-pip-version-check --group audit
	$(BIN)/python scripts/audit.py

# The generated pages, then the site with its search, in build/site. A dead link is an error.
docs: docs-pages $(SITE)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs-pages: $(RUN)
	$(BIN)/python scripts/docs.py

# Fuzzing of frames, byte streams, whole meetings and HTTP. The corpus stays in build/fuzz. A SEED
# repeats the same inputs.
SECONDS ?= 60
SEED ?= 0
fuzz: $(TEST)
	$(BIN)/python -m pip install -q --disable-pip-version-check --group fuzz
	$(BIN)/python -m fuzz --seconds $(SECONDS) --seed $(SEED)

# Conformance to RFC 6455 by the Autobahn test-suite, which needs Python 2.7.
PYTHON2 ?= python2.7
autobahn: $(TEST)
	$(BIN)/python -m fuzz.autobahn --python2 $(PYTHON2)

# A soak test with a bad network and a gateway that is killed: 60 s, or ARGS="--seconds 600".
soak: $(RUN)
	$(BIN)/python -m benchmarks.soak $(ARGS)

# The Redis of three gateways is reset, refused, delayed and emptied, in 20 runs: 20 minutes.
outages: $(RUN)
	$(BIN)/python -m benchmarks.soak.outages $(ARGS)

# HAProxy, three gateways and Redis on this machine, and the demo meeting with readers on all three.
# ARGS="--fault kill" kills the owner of the room, see benchmarks/fleet/__main__.py.
fleet: $(TEST)
	$(BIN)/python -m benchmarks.fleet $(ARGS)

# A comparison with the architectures that preceded this gateway. See docs/figures/engines.md.
journey: $(TEST)
	$(BIN)/python -m benchmarks.journey $(ARGS)

# A replayed meeting whose connections are cut a thousand times.
cuts: $(TEST)
	$(BIN)/python -m benchmarks.cuts $(ARGS)

bench: $(RUN)
	$(BIN)/python -m benchmarks.delta

# Instructions for each delta, compared with their ceilings. Needs valgrind, but no idle machine.
instructions: $(RUN)
	$(BIN)/python -m benchmarks.instructions $(ARGS)

# Training of the embedded model on one GPU, and its scores on a CPU. See training/README.md.
train: $(RUN)
	$(BIN)/python -m pip install -q -r training/requirements.txt
	$(BIN)/python -m training.prepare $(DATA) $(WORK)
	$(BIN)/python -m training.train $(WORK) $(ARGS)
	$(BIN)/python -m training.export $(WORK) $(MODEL)

evaluate: $(RUN)
	$(BIN)/python -m pip install -q 'sacrebleu>=2.5,<3'
	$(BIN)/python -m training.evaluate $(MODEL) $(DATA)

clean:
	rm -rf $(VENV) .venv-vllm .venv-oldest .venv-clients .venv-3.12 .venv-3.13 build dist node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis
