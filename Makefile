# `make book` and `make test` on a fresh clone do everything; the rest is for those who look deeper.
PYTHON ?= python3
CORES ?= all
TORCH ?=
VENV := .venv
BIN := $(VENV)/bin
# The environment is made anew when the lock or the list of packages changes in content, not in date.
LOCKED := $(shell cat requirements.lock pyproject.toml postBuild | cksum | cut -d" " -f1)
# Bytecode is made of what is imported, when it is imported: of all 14,000 files it takes half a minute. Without it every
# process compiles PyTorch, pandas and seaborn anew, 6 s of processor: images of containers often forbid Python to write it.
unexport PYTHONDONTWRITEBYTECODE
PIP := --quiet --disable-pip-version-check --no-compile
READY := $(VENV)/ready-$(LOCKED)
export PATH := $(CURDIR)/$(BIN):$(PATH)
export JUPYTER_PREFER_ENV_PATH := 1
SNAKEMAKE := $(BIN)/python -m book.evidence.alone --quiet rules host --cores $(CORES) --rerun-incomplete --max-checksum-file-size 1000000000

.PHONY: gpu env otter wheel zip links pdf executed slides assignments book test test-long replay real paper lint lock pair bench clean help
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(READY): 
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Setting up $(VENV). PyTorch is the large part: for the small CPU build, or for another CUDA version than the"
	@echo "default's, take the address after --index-url from pytorch.org/get-started/locally and give it: make $(MAKECMDGOALS) TORCH=address"
	@[ ! -L $(VENV) ] || { echo "$(VENV) is a link to another environment, which would be emptied: remove the link first."; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) || { echo "python3-venv is missing: install it (Debian: apt install python3-venv)"; exit 1; }
	@PATH="$$PWD/$(BIN):$$PATH" bash postBuild $(if $(TORCH),--index-url $(TORCH))
	@touch $@

book: $(READY) ## execute every chapter that changed and render the site
	@$(SNAKEMAKE) site
	@$(BIN)/python -c 'import pathlib; print("The book:", pathlib.Path("_build/html/index.html").resolve().as_uri())'

env: $(READY) ## the environment alone, in .venv

zip: book ## the site in one file, _build/dp-book.zip
	@$(BIN)/python -m book zip

wheel: $(READY) ## wheels of library and book, and every chapter to run elsewhere, _build/elsewhere
	@$(BIN)/python -m book elsewhere

links: book ## whether every address outside the book still answers; needs a network
	@$(BIN)/python -m book links

pdf: book ## the book on paper, _build/dp-book.pdf; needs Chromium
	@$(BIN)/python -m book pdf

executed: $(READY) ## the executed chapters, without the site
	@$(SNAKEMAKE) executed

slides: executed ## slides of every chapter, _build/slides
	@$(BIN)/python -m book slides

# Otter-Grader lives in a folder of its own: it brings ipywidgets, which would turn the chapters' progress bars into widgets.
# A relative name: make takes a path with a space for two, and would remove and install outside of this folder.
OTTER := _build/otter-$(shell cksum < book/assignments/requirements.lock | cut -d" " -f1)
$(OTTER): | $(READY)
	@rm -rf $@.partial
	@$(BIN)/python -m pip install $(PIP) --no-deps --target $@.partial \
	  --requirement book/assignments/requirements.lock
	@mv $@.partial $@

otter: $(OTTER)

assignments: $(READY) $(OTTER) ## assignments for students and their graders, _build/assignments
	@PYTHONPATH="$$PWD/$(OTTER)" OMP_NUM_THREADS=1 $(BIN)/python -m book assignments $(if $(SEED),--seed $(SEED))

# Side by side, one file at a time: what a file's tests share, such as a browser, is made once.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder
TESTS ?= not long
IN ?= tests
test: $(READY) ## the tests
	@$(PYTEST) $(IN) -m "$(TESTS)"

test-long: $(READY) ## what the tests leave out: more settings, more kills, large files
	@$(PYTEST) -m long

replay: $(READY) ## make five stored runs again and compare them
	@OMP_NUM_THREADS=1 $(BIN)/python -m book runs check --sample 5

gpu: $(READY) ## first light on a GPU, in five minutes; LIMIT=10m makes more runs, DEVICE=cpu tries it on the processor
	@$(BIN)/python -m book gpu --limit $(or $(LIMIT),5m) $(if $(DEVICE),--device $(DEVICE)) $(if $(STAGE),--stage $(STAGE))

# JAX and jax-privacy, beside which the engine is timed, in an environment of their own.
PEERS := _build/peers-$(shell cksum < tests/benchmarks/peers.lock | cut -d" " -f1)
$(PEERS): | $(READY)
	@rm -rf $@.partial && $(PYTHON) -m venv $@.partial
	@$(BIN)/uv pip install --quiet --python $@.partial/bin/python --require-hashes --requirement tests/benchmarks/peers.lock
	@mv $@.partial $@

bench: $(READY) $(PEERS) ## ratios of run times, both sides measured in one run
	@for script in tests/benchmarks/bench_*.py; do \
	  OMP_NUM_THREADS=1 PEERS=$(PEERS)/bin/python $(BIN)/python -m tests.benchmarks.$$(basename $$script .py) || exit 1; done

lint: $(READY) ## ruff
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

pair: $(READY) ## bring each .ipynb and its .md source in step
	@$(BIN)/python -m book pair

lock: ## resolve requirements.lock anew from pyproject.toml
	@rm -rf .venv-lock && $(PYTHON) -m venv .venv-lock && .venv-lock/bin/pip install --quiet uv
	@{ sed '/^[^#]/,$$d' requirements.lock; printf 'torch==2.13.0\nuv\n' | .venv-lock/bin/uv pip compile pyproject.toml - \
	  --extra book --extra test --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --quiet; } > .venv-lock/all
	@awk '/^[^ ]/ { drop = /^(nvidia-|cuda-|triton)/ } !drop' .venv-lock/all > .venv-lock/new && mv .venv-lock/new requirements.lock
	@echo jax-privacy | .venv-lock/bin/uv pip compile - --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-annotate --quiet > .venv-lock/new
	@mv .venv-lock/new tests/benchmarks/peers.lock && rm -rf .venv-lock

clean: ## remove what make book made, but not the environment
	@rm -rf executed/*.ipynb .snakemake
	@find _build -mindepth 1 -maxdepth 1 ! -name studies ! -name sweeps ! -name store ! -name gpu ! -name 'assignments*' -exec rm -rf {} + 2>/dev/null || true
