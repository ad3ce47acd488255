# Needs Python 3.11 or newer and make, and a C compiler for the native core; everything else goes into $(VENV).
#
#   make demo          the overload demonstration, then what each mode costs (quick forms)
#   make test          the test suite; ARGS='-k name' goes to pytest
#   make check         ruff, format, mypy --strict
#   make test-all      the test suite on each of $(PYTHONS)
#   make test-repeat   contract and process tests five times in a row
#   make model         every interleaving of the product's own Python code: the full form, with its states counted
#   make wheel         a wheel and an sdist in dist/, the wheel checked for the stable ABI
#   make clean         remove what was built, the virtual environments too

PYTHON ?= $(shell command -v python3.11 || command -v python3)
PYTHONS ?= python3.11 python3.12 python3.13
VENV ?= .venv
ARGS ?=

PIP_INSTALL = $(VENV)/bin/python -m pip install --disable-pip-version-check --no-input -q

# The build of the native core is optional, so the tests are told whether to find it: it could hide its own failure.
CC ?= cc
export CC
EXPECTED = $(shell command -v $(CC) > /dev/null && echo native || echo atomics)
PYTEST = HARDCAP_EXPECT_BACKEND=$(EXPECTED) $(VENV)/bin/python -m pytest -n auto

.PHONY: demo test check test-all test-repeat model wheel clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

demo: $(VENV)/bench.stamp
	$(VENV)/bin/python -m bench overload --quick
	$(VENV)/bin/python -m bench modes --quick

test: $(VENV)/dev.stamp
	$(PYTEST) $(ARGS)

check: $(VENV)/dev.stamp
	$(VENV)/bin/python -m ruff check .
	$(VENV)/bin/python -m ruff format --check .
	$(VENV)/bin/python -m mypy --strict

# All of them are looked for first, so that a missing one is told before minutes of tests.
test-all:
	@for python in $(PYTHONS); do \
	    "$$python" --version || { echo "'$$python' does not run here; name those that do: make test-all PYTHONS='...'" >&2; exit 2; }; \
	done
	@for python in $(PYTHONS); do \
	    $(MAKE) test PYTHON="$$python" VENV=".venv-$$(basename "$$python")" || exit 1; \
	done

test-repeat: $(VENV)/dev.stamp
	@for round in 1 2 3 4 5; do \
	    echo "round $$round of 5"; \
	    $(PYTEST) tests/contract tests/process $(ARGS) || exit 1; \
	done

model: $(VENV)/dev.stamp
	$(VENV)/bin/python -m tests.model $(ARGS)

wheel: $(VENV)/dev.stamp
	rm -rf dist
	$(VENV)/bin/python -m build
	$(VENV)/bin/abi3audit -v dist/*.whl

# The environment is made in the same step as what it holds: after an interrupt both are done again.
$(VENV)/%.stamp: pyproject.toml hardcap/native.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "'$(PYTHON)' is not Python 3.11 or newer; name one that is: make PYTHON=..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) -e '.[$*]'
	@touch $@

clean:
	rm -rf .venv .venv-* build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
