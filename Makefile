# `make` alone lists what there is. Everything is installed into .venv; delete it to start anew.

PYTHON ?= python3.11
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
DEMO_DIR ?= work_dirs/demo
BENCH_DIR ?= work_dirs/bench
TEST_JOBS ?= 2
MMCV := $(shell sed -n 's/^\(onedl-mmcv==[^ ]*\).*/\1/p' requirements/pretrain.txt)
# No cache: pip keeps the pure and the compiled build of mmcv under one key.
MMCV_INSTALL := $(PIP) install --no-cache-dir $(MMCV) -c requirements/pretrain.txt
COMPILED := $(PY) -c 'import torch, mmcv._ext' 2>/dev/null

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' $(MAKEFILE_LIST)
	@echo "variables: PYTHON=$(PYTHON) (3.10 or newer), DEMO_DIR=$(DEMO_DIR), BENCH_DIR=$(BENCH_DIR), TEST_JOBS=$(TEST_JOBS), PIP_FIND_LINKS for wheels of mmcv"

demo: $(VENV)/.pretrain  ## pre-train and probe on the embedded scenes, on a CPU
	@echo "== demo: results go to $(DEMO_DIR)"
	$(PY) -m mmssprl demo --work-dir $(DEMO_DIR)

test: $(VENV)/.full  ## everything: compiled mmcv, mmdet, mmseg; then lint, types and tests
	@$(MAKE) --no-print-directory lint
	@echo "== tests"
	@$(PY) -m pytest -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder

bench: $(VENV)/.pretrain  ## measure speed against the gates, under 15 minutes; results go to $(BENCH_DIR)
	@echo "== bench"
	$(PY) tools/benchmarks/run.py --out $(BENCH_DIR)

lint: $(VENV)/.full  ## ruff and mypy
	@echo "== ruff"
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@echo "== mypy"
	@$(PY) -m mypy

clean:  ## delete .venv, builds and caches, but no results
	rm -rf $(VENV) build dist mmssprl.egg-info mmssprl/.mim .pytest_cache .mypy_cache .ruff_cache

$(VENV)/.python:
	@echo "== environment: $(VENV) with $(PYTHON)"
	@command -v $(PYTHON) >/dev/null || { \
		echo "$(PYTHON) is not here; name a Python >= 3.10: make PYTHON=python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python >= 3.10 is needed")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

# Pure-Python mmcv is enough here: its isolated build sees no torch and takes seconds.
$(VENV)/.pretrain: $(VENV)/.python requirements/pretrain.txt pyproject.toml setup.py
	@echo "== packages for pre-training"
	$(PIP) install -r requirements/pretrain.txt
	$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

# mmdet and mmseg need the compiled operators. A pure-Python mmcv left by `make demo` is replaced.
$(VENV)/.mmcv: $(VENV)/.python requirements/pretrain.txt requirements/build.txt
	@echo "== $(MMCV) with compiled operators"
	$(PIP) install -r requirements/build.txt -c requirements/pretrain.txt
	@if $(COMPILED); then echo "compiled operators are here already"; else \
		$(PIP) uninstall -y onedl-mmcv >/dev/null 2>&1; \
		echo "looking for a wheel"; \
		$(MMCV_INSTALL) --only-binary onedl-mmcv || true; \
		$(COMPILED) || { \
			echo "no wheel fits: compiling from source, 20 to 30 minutes on two cores"; \
			$(PIP) uninstall -y onedl-mmcv >/dev/null 2>&1; \
			$(MMCV_INSTALL) --no-binary onedl-mmcv --no-build-isolation; }; \
	fi
	@$(PY) -c 'import torch, mmcv._ext'
	@touch $@

$(VENV)/.full: $(VENV)/.mmcv requirements.txt $(wildcard requirements/*.txt) pyproject.toml setup.py
	@echo "== packages for pre-training, transfer and tests"
	$(PIP) install -r requirements.txt
	$(PIP) install --no-deps --no-build-isolation -e .
	@$(PY) -c 'import torch, mmcv._ext'
	@touch $@ $(VENV)/.pretrain
