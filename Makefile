# Every target first makes .venv if it is missing or older than pyproject.toml. Needs Python 3.10 or newer.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && { echo $$python; break; }; done)
BIN := .venv/bin
READY := .venv/.ready
# More workers than processors, because half of a test is waiting; one file a worker, so that a module's fixtures are
# built once; the slowest files first (tests/conftest.py). To debug one test: make suite PARALLEL=
PARALLEL ?= -n 6 --dist loadfile --no-loadscope-reorder
OLDEST := .rattler-venv/.ready
CONDA := .conda-venv/resume-dl-stamp
OLDEST_PYTHON := $(CURDIR)/.rattler-venv/bin/python
# The tests start some thousand processes: without bytecode each would compile every module (0.25 s of 0.75).
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test suite core bytecode test-long test-windows lint format release bench docs nginx tmux bsdtar oldest-rattler clean

demo: $(READY)  ## fetch pytorch=1.7 from three flaky mirrors on this machine, killed half way and resumed
	$(BIN)/resume-dl demo

# To keep both processors busy, environments are made in parallel; lint, the tests of the core with their coverage, and
# those of the oldest py-rattler run in parallel with the others, and are printed when all have ended.
LOGS := .cache/make-test
BESIDE := lint core oldest-rattler

test:  ## everything that CI checks
	@mkdir -p $(LOGS) && rm -f $(LOGS)/*
	@$(MAKE) --no-print-directory --keep-going --jobs=4 suite $(BESIDE:%=%.log); status=$$?; \
	for part in $(BESIDE); do test ! -f $(LOGS)/$$part || { printf '\n--- make %s\n' $$part; cat $(LOGS)/$$part; }; done; \
	test $$status = 0 || { printf '\nmake test: FAILED\n' >&2; exit 1; }

lint.log core.log: $(READY)
oldest-rattler.log: $(READY) $(OLDEST) $(CONDA)
$(BESIDE:%=%.log): %.log:
	@$(MAKE) --no-print-directory $* >$(LOGS)/$* 2>&1 || \
		{ echo "make $*: FAILED, see the end of the output" >&2; exit 1; }

suite: $(READY) nginx tmux bsdtar $(CONDA) bytecode  ## all tests but those of core/
	$(BIN)/pytest $(PARALLEL) --ignore=tests/core

core: $(READY)  ## the tests of the core, with 100 % branch coverage
	$(BIN)/pytest -q tests/core --cov=resume_dl.core --cov-branch --cov-report=term-missing:skip-covered --cov-fail-under=100

bytecode: $(READY)  # in one process: otherwise each worker of the suite compiles all tests (13 s of processor time)
	@$(BIN)/pytest --collect-only --quiet --quiet >/dev/null || $(BIN)/pytest --collect-only --quiet --quiet

SEEDS ?= 1 2 3 4 5 6 7 8 9 10

test-long: $(READY) nginx  ## an hour; more examples of every property, no forked runs, and kills at other moments
	RESUME_DL_EXPLORE=1 $(BIN)/pytest -q $(PARALLEL) tests/core tests/store tests/settings
	RESUME_DL_TEST_FRESH=1 $(BIN)/pytest -q $(PARALLEL) tests/bundle tests/integration tests/pip
	RESUME_DL_TEST_INDEX=1 $(BIN)/pytest -q tests/pack tests/integration/test_rattler_solver.py
	for seed in $(SEEDS); do RESUME_DL_TEST_SEED=$$seed $(BIN)/pytest -q tests/crash || exit 1; done
	RESUME_DL_WINE_OPTIONAL=1 $(MAKE) --no-print-directory test-windows

test-windows: $(READY)  ## the tests in a Windows Python under Wine, at two code pages, 20 minutes (docs/windows.md)
	PYTHONPATH=tests $(BIN)/python -m windows test

lint: $(READY)  ## style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vermin --quiet --violations --no-tips --target=3.8- src/resume_dl/fs src/resume_dl/offline_tools \
		src/resume_dl/byte_units.py src/resume_dl/conda_session.py src/resume_dl/file_names.py src/resume_dl/python_command.py src/resume_dl/shell_commands.py src/resume_dl/text_encoding.py

release: $(READY)  ## dist/: wheel, sdist, resume-dl.pyz, lock, SBOM, SHA256SUMS (docs/install.md); SNAPSHOT=1 for any commit
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python release/make.py $(if $(SNAPSHOT),--snapshot)

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) nginx  ## half an hour; each benchmark prints its numbers and fails above its bound (docs/benchmarks.md)
	@status=0; for file in benchmarks/*.py; do $(BIN)/python $$file || { status=1; echo "  failed: $$file"; }; done; exit $$status

docs: $(READY)  ## the documentation's site, in .cache/site/html; a warning is an error, and nothing is fetched
	$(BIN)/python docs/website.py

oldest-rattler: $(READY) $(OLDEST) $(CONDA)  ## the tests of solver and rattler's cache with the oldest py-rattler that pyproject.toml allows
	RESUME_DL_TEST_RATTLER=$(OLDEST_PYTHON) $(BIN)/pytest -q tests/resolve tests/integration/test_rattler_cache.py \
		-k "rattler-venv or (resolve and not conda)"

$(CONDA): $(READY) tests/support/conda_env.py  # if this fails, the tests that need it fail with the reason
	-@PYTHONPATH=tests $(BIN)/python -c 'from support.conda_env import bundled_python; bundled_python()' && touch $@

$(OLDEST): pyproject.toml | $(READY)  # a separate pip, and bytecode of modules that are never imported, would cost 10 s of processor time
	$(PYTHON) -m venv --without-pip .rattler-venv
	$(BIN)/python -m pip --python $(OLDEST_PYTHON) install --quiet --disable-pip-version-check --no-compile py-rattler==0.23.2 msgspec
	touch $@

nginx:  ## the tests' mirrors; without it the tests that need it are skipped
	@command -v nginx >/dev/null || test -x /usr/sbin/nginx || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nginx; } || \
		echo "nginx is not installed and cannot be by this user: the tests that need it will be skipped"

tmux: | nginx  ## the terminal of tests; without it they are skipped
	@command -v tmux >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends tmux; } || \
		echo "tmux is not installed and cannot be by this user: the tests that need it will be skipped"

bsdtar: | tmux  ## another reader of the tars of bundles; without it the tests that need it are skipped
	@command -v bsdtar >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libarchive-tools; } || \
		echo "bsdtar is not installed and cannot be by this user: the tests that need it will be skipped"

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.10 or newer is needed; name it with make PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv .venv || { echo "this Python lacks venv (on Debian and Ubuntu: apt-get install python3-venv)" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"  # the first with --group
	$(BIN)/python -m pip install --quiet --editable '.[all]' --group dev --group docs
	touch $@

clean:
	rm -rf .venv .conda-venv .rattler-venv .wine .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage
