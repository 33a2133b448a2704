# Every target makes .venv by itself when it is missing or when the lock has changed.
#   make demo                      a real GRPO run, live in this terminal
#   make PYTHON=python3.12 test    another interpreter

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

export PIP_DISABLE_PIP_VERSION_CHECK := 1

# An interpreter named on the command line or in the environment replaces the one the venv was made with.
ifneq ($(origin PYTHON),file)
ifneq ($(PYTHON),$(shell cat $(VENV)/.python 2>/dev/null))
REBUILD := FORCE
endif
endif

WHY_NOT = $(shell $(PYTHON) .ci/check_python.py 2>/dev/null || echo "There is no Python to run at '$(PYTHON)': choose another with \`make PYTHON=python3.12\`")

.DEFAULT_GOAL := help
.PHONY: help venv demo test lint format bench screenshots clean FORCE

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

$(STAMP): requirements.lock requirements-gpu.lock pyproject.toml $(REBUILD)
	$(if $(filter ok,$(WHY_NOT)),,$(error $(WHY_NOT)))
	@rm -f $(STAMP)
	@echo "Installing what requirements.lock says into $(VENV): some minutes the first time"
	@if [ "$$(cat $(VENV)/.python 2>/dev/null)" != "$(PYTHON)" ] || [ ! -x $(BIN)/python ]; then \
	  $(PYTHON) -m venv --clear $(VENV) && echo "$(PYTHON)" > $(VENV)/.python; \
	fi
	@$(BIN)/python -m pip install --quiet --requirement requirements.lock
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

venv: $(STAMP) ## the environment, exactly as requirements.lock says

demo: $(STAMP) ## a real GRPO run of the shipped model, live
	@$(BIN)/grpo-tui demo
	@command -v grpo-tui >/dev/null || echo "the command grpo-tui comes with: source $(BIN)/activate"

lint: $(STAMP) ## ruff, mypy and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# One thread per process, because the suite starts several trainings. Four workers, even on two cores, because tests of
# processes and screens mostly wait. Tests of one file stay together, because they share a run. tests/conftest.py puts
# long files first, so that no core waits for one of them at the end.
test: export OMP_NUM_THREADS ?= 1
test: export TOKENIZERS_PARALLELISM = false
test: export HF_HUB_OFFLINE = 1
# Bytecode is kept, whatever the shell says, or every worker and every program that a test starts compiles all again.
test: export PYTHONDONTWRITEBYTECODE =
test: lint ## lint, then the whole suite
	TERM=xterm-256color $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

bench: $(STAMP) ## every benchmark in turn
	@set -e; for file in benchmarks/*.py; do \
	  case $$file in */_*) continue;; esac; echo "== $$file"; $(BIN)/python "$$file"; \
	done

screenshots: $(STAMP) ## write screenshots/*.svg from the real app
	$(BIN)/python screenshots/make.py

clean: ## remove the environment and the caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
