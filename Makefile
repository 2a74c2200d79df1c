# Two commands set everything up by themselves: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TESTS ?= tests
JOBS ?= $(shell echo $$(( 2 * $$(nproc 2>/dev/null || echo 2) )))
TARGET ?= decoder
OUT ?= build/page-shots
SECONDS ?= 60
SEEDS ?= 1000
PART ?= 1/1
CORE ?= $(AOS_CORE)
BEGAN := $(shell date +%s)

.PHONY: demo demo-python demo-node demo-cluster demo-gateway docs test test-long test-api test-clients pm4py browser page-shots sim sim-cluster fuzz check bench bench-peers bench-rest bench-sdk bench-flow bench-node bench-audit bench-gateway bench-linear bench-page bench-cluster modules core pyflow nats-server gateway-tools gateway-arlocal gateway-matrix lock clean help

help:
	@echo "make demo     1,000 orders through the kernel, killed half way, replayed byte for byte"
	@echo "make demo-python  the same with the order workflow in Python, as a flow"
	@echo "make demo-node  the same through a node with three workers, each kind of process killed"
	@echo "make demo-cluster  the same on three nodes and three NATS servers, the owner killed half way (2 minutes; needs Go 1.26, or a nats-server)"
	@echo "make demo-gateway  works and scores on a local chain where everything goes wrong (2 minutes; needs Node.js)"
	@echo "make docs     a site of all documents in build/site: searchable, without a network"
	@echo "make test     every test, formatter, linter and type checker (CORE=fast or python: with that kernel)"
	@echo "make test-long  the long forms of the tests that have one (15 minutes; PART=2/4 runs a quarter)"
	@echo "make test-api  a node against the document of its API, by schemathesis (2 minutes)"
	@echo "make test-clients  clients of the API, made by two generators, against a node (2 minutes; needs Node.js)"
	@echo "make pm4py    the environment in which pm4py reads our event logs (AGPL; no dependency of AOS)"
	@echo "make browser  the environment in which the tests look at the page in Chromium (170 MB; needs Node.js)"
	@echo "make page-shots  a picture of every kind of page, in build/page-shots (OUT=DIR: elsewhere)"
	@echo "make sim SEEDS=1000  simulated worlds from seeds, or a range: SEEDS=5..9 (spec/simulation.md)"
	@echo "make sim-cluster SEEDS=1000  simulated clusters on a log that fails, from seeds, or a range (spec/cluster.md)"
	@echo "make fuzz TARGET=decoder SECONDS=60  one target of tests/fuzz under atheris (Linux, x86-64)"
	@echo "make check    formatter, linter and type checker alone"
	@echo "make bench    measure both kernels (10 minutes; benchmarks/README.md; OPTIONS=--quick)"
	@echo "make bench-peers  the same three effects on AOS, DBOS, Restate and Temporal, by turns (8 minutes)"
	@echo "make bench-rest  a world of a million cells at rest (12 minutes; OPTIONS=--quick)"
	@echo "make bench-sdk  size and steps of a workflow by hand, in Rust, in AssemblyScript (half a minute)"
	@echo "make bench-flow  time, space and memory of flows (5 minutes; OPTIONS=--quick: half a minute)"
	@echo "make bench-node  events and workers over HTTP, and Restate's ingress, by turns (5 minutes)"
	@echo "make bench-audit  event logs, shadow, checkpoints, proofs (15 minutes; OPTIONS=--quick: half a minute)"
	@echo "make bench-gateway  a lane, signers and works on a local EVM node (2 minutes; run make gateway-tools first; OPTIONS=--quick)"
	@echo "make bench-linear  linear plans and lists by attribute, beside PostgreSQL and DBOS (15 minutes; OPTIONS=--quick: a minute)"
	@echo "make bench-page  the page and its index on a world of a million cells (15 minutes; OPTIONS=--quick: a minute)"
	@echo "make bench-cluster  a world on one and three servers, owners and leaders killed, with Restate's three nodes (40 minutes; OPTIONS=--quick: 3 minutes)"
	@echo "make modules  rebuild the WASM modules (needs Rust and Node.js; see modules/README.md)"
	@echo "make pyflow   rebuild the interpreter of flows in Python (needs Rust 1.96; CHECK=1: compare only)"
	@echo "make core     rebuild the second kernel to core.wasm (needs Rust; CHECK=1: compare only)"
	@echo "make nats-server  the server of worlds on several machines, which their tests need (a minute; needs Go 1.26)"
	@echo "make gateway-tools  a local EVM node and a compiler for contracts, by npm (5 seconds; needs Node.js)"
	@echo "make gateway-arlocal  the scenarios of uploads on arlocal (3 minutes the first time; needs Node.js, its headers, g++)"
	@echo "make gateway-matrix  worlds of the gateway killed everywhere, on a local EVM node (8 minutes; OPTIONS='--part 1/8')"
	@echo "make lock     resolve the dependencies again and write requirements.lock, and that of make docs"

demo: $(READY)
	$(BIN)/aos demo

demo-python: $(READY)
	$(BIN)/aos demo --python

demo-node: $(READY)
	$(BIN)/aos demo --workers 3

# A nats-server that is named or on the path is used; otherwise one is built.
demo-cluster: $(READY) $(if $(or $(AOS_NATS_SERVER),$(shell command -v nats-server)),,$(BIN)/nats-server)
	$(BIN)/aos demo --cluster

demo-gateway: gateway-tools
	$(BIN)/aos gateway demo

docs: $(READY) $(VENV)/docs/.ready
	$(BIN)/python -m spec.site.pages build
	NO_MKDOCS_2_WARNING=1 $(VENV)/docs/bin/mkdocs build --quiet --strict --config-file build/site-pages.yml
	@echo "open build/site/index.html"

# Without a name, the seed of the run chooses the kernel (tests/run_core.py).
test test-long: export AOS_CORE := $(CORE)
test: check
	$(BIN)/python -m pytest $(TESTS) -n $(JOBS) --dist worksteal
	@echo "make test took $$(( $$(date +%s) - $(BEGAN) )) s (the aim on two quiet cores is 480 s)"

test-long: export AOS_PART := $(PART)
test-long: $(READY)
	AOS_LONG=1 $(BIN)/python -m pytest $(TESTS) -m long -n $(JOBS) --dist worksteal

test-api: $(VENV)/api/.ready
	$(BIN)/python -m tests.api.run $(VENV)/api/bin/schemathesis $(OPTIONS)

test-clients: $(VENV)/clients/.ready
	$(BIN)/python -m tests.api.clients.run $(VENV)/clients

pm4py: $(VENV)/pm4py/.ready

browser: $(VENV)/browser/.ready

page-shots: $(READY) browser
	$(BIN)/python -m tests.page.in_browser.page_shots $(OUT)

sim: $(READY)
	$(BIN)/python -m tests.sim $(SEEDS)

sim-cluster: $(READY)
	$(BIN)/python -m tests.sim.cluster_run $(SEEDS)

fuzz: $(VENV)/.fuzz
	$(BIN)/python -m tests.fuzz.run $(TARGET) --seconds $(SECONDS)

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks $(OPTIONS)

bench-peers: $(READY)
	$(BIN)/python -m benchmarks.peers $(OPTIONS)

bench-rest: $(READY)
	$(BIN)/python -m benchmarks.rest $(OPTIONS)

bench-sdk: $(READY)
	$(BIN)/python -m benchmarks.sdk $(OPTIONS)

bench-flow: $(READY)
	$(BIN)/python -m benchmarks.flow $(OPTIONS)

bench-node: $(READY)
	$(BIN)/python -m benchmarks.node $(OPTIONS)

bench-audit: $(READY)
	$(BIN)/python -m benchmarks.audit $(OPTIONS)

bench-page: $(READY)
	$(BIN)/python -m benchmarks.page $(OPTIONS)

bench-cluster: $(READY) $(if $(AOS_NATS_SERVER)$(shell command -v nats-server),,$(BIN)/nats-server)
	$(BIN)/python -m benchmarks.cluster $(OPTIONS)

bench-gateway: $(READY)
	$(BIN)/python -m benchmarks.gateway $(OPTIONS)

bench-linear: $(READY)
	$(BIN)/python -m benchmarks.linear $(OPTIONS)

modules: $(READY)
	$(BIN)/python modules/build
	$(BIN)/python modules/cookbook/generate
	$(BIN)/python modules/build-assemblyscript

pyflow: $(READY)
	$(BIN)/python modules/pyflow/build $(if $(CHECK),--check)

core: $(READY)
	$(BIN)/python kernel/rust-core/build $(if $(CHECK),--check)

nats-server: $(BIN)/nats-server

# Go checks the module and those that it needs by the hashes of its checksum database.
$(BIN)/nats-server: $(READY)
	@command -v go >/dev/null || { echo "make nats-server: go was not found on the PATH. Install Go 1.26 or newer, or set AOS_NATS_SERVER to a nats-server." >&2; exit 3; }
	GOBIN=$(abspath $(BIN)) go install github.com/nats-io/nats-server/v2@v2.15.2
	@touch $@

gateway-tools: $(READY)
	$(BIN)/python manifests/gateway/tools/install

gateway-arlocal: $(READY)
	$(BIN)/python manifests/gateway/arlocal/install
	AOS_ARLOCAL=1 $(BIN)/python -m pytest tests/gateway/arweave/test_arweave_scenarios.py

gateway-matrix: $(READY)
	$(BIN)/python -m tests.gateway.matrix $(OPTIONS)

lock:
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-emit-index-url --output-file requirements.lock --upgrade
	$(BIN)/uv pip compile spec/site/requirements.in --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-annotate --no-emit-index-url --output-file spec/site/requirements.txt --upgrade

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "AOS needs Python 3.11 or newer, found " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# Only `make fuzz` needs the fuzzer, so it is not among the locked development tools.
$(VENV)/.fuzz: $(READY) tests/fuzz/requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tests/fuzz/requirements.txt
	@touch $@

# Its own environment: schemathesis needs other versions of what the tests need.
$(VENV)/api/.ready: $(READY) tests/api/requirements.txt
	$(PYTHON) -m venv $(VENV)/api
	$(VENV)/api/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tests/api/requirements.txt
	@touch $@

# Its own environment: generators of clients, and what the clients need.
$(VENV)/clients/.ready: $(READY) tests/api/clients/requirements.txt tests/api/clients/package-lock.json
	$(PYTHON) -m venv $(VENV)/clients
	$(VENV)/clients/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tests/api/clients/requirements.txt
	cp tests/api/clients/package.json tests/api/clients/package-lock.json $(VENV)/clients
	npm ci --prefix $(VENV)/clients --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# Its own environment: only the site needs MkDocs.
$(VENV)/docs/.ready: spec/site/requirements.txt
	$(PYTHON) -m venv $(VENV)/docs
	$(VENV)/docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r spec/site/requirements.txt
	@touch $@

# Its own environment: pm4py is licensed under the AGPL, and must be no dependency.
$(VENV)/pm4py/.ready: tests/prove/event_log/requirements.txt
	$(PYTHON) -m venv $(VENV)/pm4py
	$(VENV)/pm4py/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tests/prove/event_log/requirements.txt
	@touch $@

# Its own environment: playwright contains a Node.js. The browser itself is the system's.
$(VENV)/browser/.ready: tests/page/in_browser/requirements.txt tests/page/in_browser/package-lock.json
	$(PYTHON) tests/page/in_browser/system_browser.py
	$(PYTHON) -m venv $(VENV)/browser
	$(VENV)/browser/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tests/page/in_browser/requirements.txt
	cp tests/page/in_browser/package.json tests/page/in_browser/package-lock.json $(VENV)/browser
	npm ci --prefix $(VENV)/browser --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
