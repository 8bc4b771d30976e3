# make demo: a lake from the generated sample corpus. make test: everything checked. make ui: the Dagster UI on the demo's lake.
# All set-up happens here, in .venv; nothing outside the project is touched (the browser tests use Chromium where there is one).

PYTHON ?= $(shell command -v python3.11 || command -v python3)
TORCH ?= torch==2.13.0
EXTRAS ?= cpu,postgres,dev
DEMO ?= demo
BIN := .venv/bin
export DO_NOT_TRACK = 1
export DAGSTER_DISABLE_TELEMETRY = yes
export RAY_USAGE_STATS_ENABLED = 0
export HF_HUB_OFFLINE = 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help demo test ui lint types contracts loops bytecode unit chromium docs audit vulnerabilities lock hashed sbom licences clean

help:  ## what there is to make
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# torch comes first and alone: where a CPU build is at hand it satisfies the pin, and nothing later replaces it. Python
# compiles a module when it is first imported: pip would compile all of them, one by one, before anything runs.
.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "mmlake needs Python 3.11 or newer; name one with PYTHON=/path/to/python3.11"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=24" "setuptools>=77" wheel
	$(BIN)/python -m pip install --quiet --no-compile $(TORCH)
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@touch $@

demo: .venv/installed  ## build a lake from the sample corpus: all stages, summary and report
	$(BIN)/mmlake demo --dir $(DEMO)

ui: .venv/installed  ## the Dagster UI on the demo's lake, at 127.0.0.1:3000
	$(BIN)/mmlake ui --lake $(DEMO)/lake

test: .venv/installed  ## lint, types, layer contracts, tests
	@$(MAKE) --no-print-directory -j2 $(if $(filter output-sync,$(.FEATURES)),--output-sync) types lint contracts loops bytecode chromium
	@$(MAKE) --no-print-directory unit

lint: .venv/installed  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .

# What mypy makes it keeps to the end, so to search it for garbage is a quarter of its time (without: 1.6 GB instead of 1.0).
types: .venv/installed  ## mypy
	@$(BIN)/python -c 'import gc; gc.disable(); gc.enable = lambda: None; from mypy.__main__ import console_entry; console_entry()'

contracts: .venv/installed  ## import-linter, and the code location loads
	$(BIN)/lint-imports
	$(BIN)/dagster definitions validate -m mmlake_assets.definitions

# While mypy keeps one processor busy: what the tests would compile, each of them again or while others wait.
loops: .venv/installed  ## compile the inner loops
	$(BIN)/mmlake compile --json

# What nearly no test imports is left to its first import.
UNUSED := tests|transformers/models|torch/(testing|distributed|onnx|_inductor|_dynamo)|sklearn|sentence_transformers|networkx|narwhals|fontTools|mypyc?|moto|cfnlint|selenium|pip
bytecode: .venv/installed  ## compile the modules that are installed
	@$(BIN)/python -m compileall -qq -j 0 -x '/($(UNUSED))/' "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" >/dev/null 2>&1 || true

# Files go whole to a worker, the longest first (tests/conftest.py), so that what a file's tests share is made once. A
# worker that crashes ends the run with the name of its test: pytest-xdist 3.8 hands the rest of its file to nobody and waits.
unit: .venv/installed chromium  ## pytest, on all processors
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --max-worker-restart 0

# The browser tests say so and skip where Chromium cannot be had; as root on Debian it is installed.
chromium:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver >/dev/null; \
	} || echo "Chromium is not installed and cannot be: the browser tests will be skipped"

docs: .venv/installed  ## rewrite the generated pages of docs/
	$(BIN)/mmlake docs --out docs

audit: .venv/installed  ## every installed file against its package's list, and the lists against constraints.sha256
	$(BIN)/python deploy/supply.py check

lock: .venv/installed  ## constraints.sha256 and constraints.hashed.txt anew; after a change of constraints.txt
	$(BIN)/python deploy/supply.py lock
	@report=$$(mktemp) && $(BIN)/python -m pip install --quiet --dry-run --no-deps --ignore-installed --report "$$report" --requirement constraints.txt \
	  && $(BIN)/python deploy/supply.py archives "$$report"; code=$$?; rm -f "$$report"; exit $$code

hashed:  ## the same environment, of archives that have the hashes of constraints.hashed.txt alone (Linux x86_64, Python 3.11; torch apart)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet $(TORCH) --constraint constraints.txt
	$(BIN)/python -m pip install --quiet --no-deps --force-reinstall --only-binary :all: --require-hashes --requirement constraints.hashed.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable '.[$(EXTRAS)]'
	@touch .venv/installed

sbom: .venv/installed  ## sbom.json: what is installed, as CycloneDX, with licences
	$(BIN)/python deploy/supply.py sbom sbom.json

licences: .venv/installed  ## docs/licences.md anew
	$(BIN)/python deploy/supply.py licences docs/licences.md

# In an environment of its own: what it needs would move our pins. It asks a database on the network.
vulnerabilities:  ## the pins against the database of known vulnerabilities (pip-audit; needs the network)
	@test -x .venv-audit/bin/pip-audit || { $(PYTHON) -m venv .venv-audit && .venv-audit/bin/python -m pip install --quiet pip-audit; } \
	  || { echo "NOT CHECKED: pip-audit is not installed and cannot be fetched; run this where there is a network"; exit 3; }
	@report=$$(mktemp) && { .venv-audit/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip --progress-spinner off --format json \
	  --output "$$report" >/dev/null 2>&1; .venv-audit/bin/python deploy/supply.py audited "$$report"; code=$$?; rm -f "$$report"; exit $$code; }

clean:  ## remove the demo's lake; the environment stays
	rm -rf $(DEMO)
