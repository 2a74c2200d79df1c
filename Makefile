# Two commands set everything up by themselves: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TESTS ?= tests
JOBS ?= 2

.PHONY: demo test check modules lock clean help

help:
	@echo "make demo     1,000 orders through the kernel, killed half way, replayed byte for byte"
	@echo "make test     every test, formatter, linter and type checker"
	@echo "make check    formatter, linter and type checker alone"
	@echo "make modules  rebuild the WASM modules (needs Rust; see modules/README.md)"
	@echo "make lock     resolve the dependencies anew into requirements.lock"

demo: $(READY)
	$(BIN)/aos demo

test: check
	$(BIN)/python -m pytest $(TESTS) -n $(JOBS) --dist worksteal

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

modules: $(READY)
	$(BIN)/python modules/build

lock:
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-emit-index-url --output-file requirements.lock --upgrade

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "AOS needs Python 3.11 or newer, found " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
