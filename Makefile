# Daily commands. Each makes or refreshes .venv by itself: all it needs is Python 3.11 or newer.
#
# A stamp in .venv carries the checksum of what was installed, so a ready .venv costs nothing and needs no
# network. Packages come from the hash-locked files in requirements/. uv installs them, in seconds: the one on PATH, or
# one that pip puts into .venv. Where uv cannot, pip does. On Windows, or without make: see CONTRIBUTING.md.

VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
# Looked for only when .venv has to be made.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v "$$p"; break; }; done)

sum = $(shell cat $(1) pyproject.toml | cksum | tr ' ' -)
BASE := $(VENV)/.base-$(call sum,requirements/base.txt)
HINDSIGHT := .venv-hindsight/.server-$(call sum,requirements/hindsight-server.txt)
DOCS := .venv-docs/.ready-$(call sum,requirements/docs.txt)
AUDIT := .venv-audit/.ready-$(call sum,requirements/audit.txt)
BROWSER := $(VENV)/browser/.ready-$(call sum,requirements/browser.txt)
BENCH := .venv-bench/.ready-$(call sum,requirements/bench.txt)
HERMES := .venv-hermes/.ready-$(call sum,requirements/hermes.txt)
HERMES_0_14 := .venv-hermes-0.14/.ready-$(call sum,requirements/hermes-0.14.txt)
HERMES_0_15 := .venv-hermes-0.15/.ready-$(call sum,requirements/hermes-0.15.txt)
BENCH_HERMES := .venv-bench-hermes/.ready-$(call sum,requirements/bench-hermes.txt)
DEV := $(VENV)/.dev-$(call sum,requirements/dev.txt requirements/encryption.txt)

INSTALLER := $(or $(UV),$(BIN)/uv)
PIP = -m pip --quiet --disable-pip-version-check
# install(environment, options): uv first. A package index that only pip is set up for is a reason to ask pip.
install = { test -x "$(INSTALLER)" && $(INSTALLER) pip install --quiet --python $(1)/bin/python $(2); } \
	|| $(1)/bin/python $(PIP) install --no-compile $(2)
# Tests start the program a hundred times. Where byte code may not be kept, each start would compile all of it.
export PYTHONDONTWRITEBYTECODE :=
COMPILE = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --no-config
LOCK = $(COMPILE) pyproject.toml --group build

.PHONY: help install up encryption test test-browser test-confinement test-full-disk test-hermes test-hindsight test-proxy check audit wheel build docs hadolint sim bench walk mutants shots soak lock clean

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile

install: $(DEV) ## make .venv with everything development needs

up: $(BASE) ## run Holdfast here (ARGS="--port 7421" and the like)
	$(BIN)/holdfast up $(ARGS)

encryption: $(BASE) ## let SQLite encrypt: apsw-sqlite3mc takes the place of apsw in .venv (docs/howto/encrypt.md)
	$(if $(UV),$(UV) pip uninstall --quiet --python $(BIN)/python,$(BIN)/python -m pip uninstall --quiet --yes) apsw
	$(call install,$(VENV),--no-deps --require-hashes -r requirements/encryption.txt)
	$(BIN)/holdfast version

test: $(DEV) ## lint, types and every test except the soak (ARGS="-k fence")
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@echo "Separate, because it takes long: make soak"
	@echo "Separate, because it starts the real Hindsight server: make test-hindsight"
	@echo "Separate, because it starts the real Hermes: make test-hermes"
	@echo "Separate, because it needs Chromium: make test-browser"
	@echo "Separate, because it installs a generator of sites: make docs"
	@echo "Separate, because it needs nginx on PATH: make test-proxy"
	@echo "Separate, because it needs bubblewrap and root: make test-confinement"
	@echo "Separate, because it mounts file systems as root: make test-full-disk"
	@echo "$(BIN)/mypy, beside the tests"; $(BIN)/mypy & types=$$!; \
	$(BIN)/pytest -n 3 --dist worksteal --durations=10 $(ARGS); tests=$$?; \
	wait $$types || { echo "mypy has complaints, above"; exit 1; }; exit $$tests

test-hindsight: $(DEV) $(HINDSIGHT) ## the Hindsight provider against the real server (three minutes)
	$(BIN)/pytest -m hindsight $(ARGS) tests/hindsight_server

test-hermes: $(DEV) $(HERMES) $(HERMES_0_14) $(HERMES_0_15) ## with the real Hermes and its own plugins (minutes)
	$(BIN)/pytest -m hermes $(ARGS) tests/hermes_real

test-full-disk: $(DEV) ## a full disk, on a small tmpfs that only root may mount
	$(BIN)/pytest -m full_disk $(ARGS) tests/full_disk

test-browser: $(DEV) $(BROWSER) ## the console and the chat page in a real Chromium, which is installed if it is missing
	@$(BIN)/python -m tools.chromium
	PYTHONPATH=$(VENV)/browser $(BIN)/pytest -m browser $(ARGS) tests/browser

shots: $(DEV) $(BROWSER) ## make the screenshots of docs/console anew
	@$(BIN)/python -m tools.chromium
	HOLDFAST_SHOTS=docs/console PYTHONPATH=$(VENV)/browser $(BIN)/pytest -m browser $(ARGS) tests/browser/test_pages.py

test-proxy: $(DEV) ## behind a real nginx over TLS, which must be on PATH
	$(BIN)/pytest -m proxy $(ARGS) tests/proxy

test-confinement: $(DEV) ## MCP programs in a real bubblewrap and as another user; needs bwrap on PATH, and root
	$(BIN)/pytest -m confinement $(ARGS) tests/confinement

check: $(DEV) ## lint, types and the tidy tests: seconds, before every commit
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/test_tidy.py tests/test_rules.py

audit: $(AUDIT) ## ask the public advisory database about every locked version (needs the network)
	.venv-audit/bin/pip-audit --strict --progress-spinner off --require-hashes --disable-pip \
		-r requirements/base.txt -r requirements/dev.txt -r requirements/encryption.txt

wheel: $(DEV) ## build the wheel into dist/ (docs/howto/install.md)
	rm -rf dist && mkdir dist
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

docs: $(DOCS) ## build the site of the documentation, with search, into build/docs; a broken link fails
	.venv-docs/bin/python -m tools.docs_site
	@echo "build/docs/index.html"

hadolint: $(DOCS) ## lint the Dockerfile
	.venv-docs/bin/hadolint Dockerfile

build: $(DEV) $(AUDIT) ## the wheel, and beside it the list of what it is locked to (CycloneDX), in dist/
	rm -rf dist && mkdir dist
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	.venv-audit/bin/cyclonedx-py requirements --output-reproducible --of JSON --pyproject pyproject.toml \
		--output-file dist/holdfast.cdx.json requirements/base.txt
	$(BIN)/python -m tools.sbom dist/holdfast.cdx.json requirements/base.txt

sim: $(DEV) ## simulate 2000 random histories (ARGS="--seed 7")
	$(BIN)/holdfast sim --histories 2000 $(ARGS)

bench: $(DEV) $(BENCH) $(BENCH_HERMES) ## measure beside peers: an hour, or two minutes with ARGS="--quick" (ARGS="--only e2e")
	$(BIN)/python -m bench $(ARGS)

walk: $(DEV) ## print the way of one message through the code, and how long it is
	@$(BIN)/python -m tools.walk $(ARGS)

mutants: $(DEV) ## plant 400 bugs in the decisions and the store verbs and list those that no test notices (two hours)
	$(BIN)/python -m tools.mutation hits .mutation
	$(BIN)/python -m tools.mutation run .mutation --results .mutation/results.json $(ARGS)

soak: $(DEV) ## the long run: 50000 histories and the tests marked soak
	$(BIN)/holdfast sim --histories 50000 $(ARGS)
	$(BIN)/pytest -m soak
	$(MAKE) test-hindsight ARGS=
	$(MAKE) test-hermes ARGS=

lock: ## choose the newest versions and write requirements/*.txt (needs uv)
	@command -v uv >/dev/null || { echo "make lock needs uv on PATH: pip install uv"; exit 1; }
	$(LOCK) --upgrade --group dev --all-extras --output-file requirements/dev.txt
	$(LOCK) --upgrade --extra models --constraint requirements/dev.txt --output-file requirements/base.txt
	$(LOCK) --upgrade --all-extras --constraint requirements/dev.txt --output-file requirements/image.txt
	$(COMPILE) --upgrade --group pyproject.toml:docs --group pyproject.toml:hadolint --output-file requirements/docs.txt
	$(COMPILE) --upgrade --group pyproject.toml:installer --output-file requirements/installer.txt
	$(COMPILE) --upgrade --group pyproject.toml:audit --output-file requirements/audit.txt
	$(COMPILE) --upgrade --group pyproject.toml:bench --output-file requirements/bench.txt
	$(COMPILE) --upgrade --group pyproject.toml:hermes --output-file requirements/hermes.txt
	$(COMPILE) --upgrade --group pyproject.toml:hermes-0-14 --output-file requirements/hermes-0.14.txt
	$(COMPILE) --upgrade --group pyproject.toml:hermes-0-15 --output-file requirements/hermes-0.15.txt
	$(COMPILE) --upgrade --group pyproject.toml:bench-hermes --output-file requirements/bench-hermes.txt
	$(COMPILE) --upgrade --group pyproject.toml:browser --constraint requirements/dev.txt --output-file requirements/browser.txt
	$(COMPILE) --upgrade --group pyproject.toml:encryption --constraint requirements/dev.txt --output-file requirements/encryption.txt

clean: ## remove .venv, caches and built files
	rm -rf $(VENV) .venv-audit .venv-docs .venv-bench .venv-bench-hermes .venv-hermes .venv-hermes-0.14 .venv-hermes-0.15 .venv-hindsight .mutation build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests bench tools -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Holdfast needs Python 3.11 or newer; none was found."; exit 1; }
ifneq ($(UV),)
	$(UV) venv --quiet --python "$(PYTHON)" $(VENV)
else
	"$(PYTHON)" -m venv $(VENV)
	-$(BIN)/python $(PIP) install --no-compile --no-deps --require-hashes -r requirements/installer.txt
endif

# A lock is the whole of its packages, so nothing has to be resolved. The package goes in last, without a download.
define install_locked
	@test -x "$(INSTALLER)" || $(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null
	$(call install,$(VENV),--no-deps --require-hashes -r $(1))
	$(call install,$(VENV),--no-build-isolation --no-deps -e .)
endef

$(BASE): | $(BIN)/python
	$(call install_locked,requirements/base.txt)
	@rm -f $(VENV)/.base-* && touch $@

$(DEV): | $(BIN)/python
	$(call install_locked,requirements/dev.txt)
	@# Beside apsw and not over it: the tests of encryption name this folder first.
	rm -rf $(VENV)/encryption
	$(call install,$(VENV),--no-deps --require-hashes --target $(VENV)/encryption -r requirements/encryption.txt)
	@rm -f $(VENV)/.base-* $(VENV)/.dev-* && touch $(BASE) $@

# The server has an environment of its own: its packages are many, and not ours. The lock is the whole of them, and
# without --no-deps pip takes a locked package for unpinned where another asks for it with extras.
$(HINDSIGHT): $(DEV)
	rm -rf .venv-hindsight && $(BIN)/python -m venv .venv-hindsight
	$(call install,.venv-hindsight,--no-deps --require-hashes -r requirements/hindsight-server.txt)
	@touch $@

# Each release of Hermes has an environment of its own, because its pins exclude ours and those of other releases.
define make_hermes
	rm -rf $(1) && $(BIN)/python -m venv $(1)
	$(call install,$(1),--no-deps --require-hashes -r $(2))
	@touch $@
endef

$(HERMES): | $(DEV)
	$(call make_hermes,.venv-hermes,requirements/hermes.txt)

$(HERMES_0_14): | $(DEV)
	$(call make_hermes,.venv-hermes-0.14,requirements/hermes-0.14.txt)

$(HERMES_0_15): | $(DEV)
	$(call make_hermes,.venv-hermes-0.15,requirements/hermes-0.15.txt)

# Peers have environments of their own. One that cannot be made is missing in the benchmark, which says so.
define make_peers
	@rm -rf $(1) && $(BIN)/python -m venv $(1) && { $(call install,$(1),--no-deps --require-hashes -r $(2)); } \
		&& touch $(3) || { rm -rf $(1); echo "$(1) could not be made: its peers are not measured"; }
endef

# Beside the other packages and not among them: only tests/browser names this folder.
$(BROWSER): | $(DEV)
	rm -rf $(VENV)/browser
	$(call install,$(VENV),--no-deps --require-hashes --target $(VENV)/browser -r requirements/browser.txt)
	@touch $@

$(BENCH): | $(DEV)
	$(call make_peers,.venv-bench,requirements/bench.txt,$@)

$(BENCH_HERMES): | $(DEV)
	$(call make_peers,.venv-bench-hermes,requirements/bench-hermes.txt,$@)

$(DOCS): | $(BIN)/python
	rm -rf .venv-docs && $(BIN)/python -m venv .venv-docs
	$(call install,.venv-docs,--no-deps --require-hashes -r requirements/docs.txt)
	@touch $@

# The auditor is not audited together with what it looks at.
$(AUDIT): | $(BIN)/python
	rm -rf .venv-audit && $(BIN)/python -m venv .venv-audit
	$(call install,.venv-audit,--require-hashes -r requirements/audit.txt)
	@touch $@
