# Needs Python 3.11 or newer and make, and a C compiler for the native core; everything else goes into $(VENV).
#
#   make demo          the overload demonstration, then what each mode costs (quick forms)
#   make test          the test suite; ARGS='-k name' goes to pytest
#   make test-full     the same with the long form of each test
#   make check         ruff, format, mypy --strict
#   make test-all      the test suite on each of $(PYTHONS)
#   make test-repeat   contract and process tests five times in a row; REPEATED='tests/servers tests/crash' for others
#   make sanitize      contract and native tests under AddressSanitizer and UndefinedBehaviorSanitizer (sanitize-quick: fewer)
#   make fuzz          wrong arguments and damaged segments, each test for SECONDS=60, from SEED on
#   make differential  both backends, asked the same: likewise
#   make mixed         both backends in one fleet, with kills: likewise
#   make torture       20,000 kills in storms of workers; ARGS='--kills 2000' for fewer
#   make crash         kill at every instruction, system call and access there is; ARGS='--size 9' at a sample of them
#   make model         every interleaving of the product's own Python code: the full form, with its states counted
#   make matrix        the README's table of servers and ways a request may end, run, and what passed
#   make wheel         the distributions in dist/, and what must hold of them
#   make clean         remove what was built, the virtual environments too

PYTHON ?= $(shell command -v python3.11 || command -v python3)
PYTHONS ?= python3.11 python3.12 python3.13
VENV ?= .venv
ARGS ?=
WORKERS ?= $(shell echo $$(( $$(nproc) * 3 / 2 )))
SECONDS ?= 60
SEED ?= $(shell date +%s)
REPEATED ?= tests/contract tests/process
SANITIZED_TESTS ?= tests/contract tests/native
SANITIZED_QUICK = tests/contract $(addprefix tests/native/test_,damage.py fork_from_c.py hostile.py)

PIP_INSTALL = $(VENV)/bin/python -m pip install --disable-pip-version-check --no-input -q

# The build of the native core is optional, so the tests are told whether to find it: it could hide its own failure.
EXPECTED = $(shell $(VENV)/bin/python -m tests.support.builds)
# Neighbours stay together as long as nobody is idle: what a module starts once is not started by each process.
# More of them than cores, since tests of servers mostly wait.
SPREAD = -n $(WORKERS) --dist worksteal
PYTEST = HARDCAP_EXPECT_BACKEND=$(EXPECTED) $(VENV)/bin/python -m pytest $(SPREAD)
LONG_PYTEST = TEST_SECONDS=$(SECONDS) TEST_SEED=$(SEED) $(PYTEST) --timeout=$$(( $(SECONDS) * 2 + 300 ))

.PHONY: demo test test-full check test-all test-repeat sanitize sanitize-quick fuzz differential mixed torture crash model matrix wheel clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

demo: $(VENV)/bench.stamp
	$(VENV)/bin/python -m bench overload --quick
	$(VENV)/bin/python -m bench modes --quick

test: $(VENV)/dev.stamp
	$(PYTEST) $(ARGS)

test-full: $(VENV)/dev.stamp
	TEST_FULL=1 $(PYTEST) --timeout=1800 $(ARGS)

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
	    version="$$("$$python" -c 'import platform; print(platform.python_version())')" && \
	    $(MAKE) test PYTHON="$$python" VENV=".venv-$$version" || exit 1; \
	done

test-repeat: $(VENV)/dev.stamp
	@for round in 1 2 3 4 5; do \
	    echo "round $$round of 5"; \
	    $(PYTEST) $(REPEATED) $(ARGS) || exit 1; \
	done

sanitize: $(VENV)/dev.stamp
	$(VENV)/bin/python -m tests.support.sanitized build/sanitized -n $(WORKERS) $(SANITIZED_TESTS) $(ARGS)

sanitize-quick:
	$(MAKE) sanitize SANITIZED_TESTS="$(SANITIZED_QUICK)"

fuzz: $(VENV)/dev.stamp
	$(LONG_PYTEST) tests/native/test_arguments.py tests/native/test_damage.py tests/native/test_hostile.py $(ARGS)

differential: $(VENV)/dev.stamp
	$(LONG_PYTEST) tests/native/test_differential.py $(ARGS)

mixed: $(VENV)/dev.stamp
	$(LONG_PYTEST) tests/native/test_mixed_fleet.py $(ARGS)

torture: $(VENV)/dev.stamp
	$(VENV)/bin/python -W error -m tests.torture $(ARGS)

crash: $(VENV)/dev.stamp
	$(VENV)/bin/python -m tests.crash $(ARGS)

model: $(VENV)/dev.stamp
	$(VENV)/bin/python -m tests.model $(ARGS)

matrix: $(VENV)/dev.stamp
	$(VENV)/bin/python -m tests.support.matrix $(SPREAD) $(ARGS)

wheel: $(VENV)/dev.stamp
	rm -rf dist
	$(VENV)/bin/python -m build
	TEST_DIST=dist $(PYTEST) tests/native/test_wheel.py $(ARGS)

# The environment is made in the same step as what it holds: after an interrupt both are done again.
$(VENV)/%.stamp: pyproject.toml hardcap/native.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "'$(PYTHON)' is not Python 3.11 or newer; name one that is: make PYTHON=..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) -e '.[$*]'
	@touch $@

clean:
	rm -rf .venv .venv-* build dist hardcap/*.so *.egg-info .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
