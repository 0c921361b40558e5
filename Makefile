# `make` alone lists what there is. Everything is installed into .venv; delete it to start anew.

# Tried, not looked up: a version manager's shim can be there without its Python.
FITS := -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'
PYTHON ?= $(shell for python in python3.11 python3 python3.12 python3.13; do \
	$$python $(FITS) >/dev/null 2>&1 && echo $$python && break; done)
VENV := .venv
FULL := requirements.txt
LOCKED := requirements/locked.txt
OPENMMLAB_VENV := .venv-openmmlab
NETWORKS_VENV := .venv-networks
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
DEMO_DIR ?= work_dirs/demo
COMPARE_DIR ?= work_dirs/compare
FIGURES_DIR ?= work_dirs/figures
# ultralytics is AGPL-3.0. mmpretrain imports names that transformers 5 removed.
NETWORKS := ultralytics segmentation-models-pytorch "transformers<5" accelerate
COMPARED := random mocov2 byol densecl detco insloc maskco swav swav-small ssprl ssprl-small-sampled
SPEED_DIR ?= work_dirs/speed
IMAGES ?=
TEST_JOBS ?= 2
# No cache: it can hold a build of mmcv that was compiled for another torch. An isolated build sees
# no torch, and compiles nothing; a wheel that PIP_FIND_LINKS offers is taken instead.
INSTALL_MMCV := $(PIP) install --no-cache-dir --no-deps onedl-mmcv -c requirements/pretrain.txt
# mmdetection's imaug asks for a second build of OpenCV, whose files lie over the first one's.
ONE_OPENCV := if $(PIP) uninstall -y opencv-python-headless | grep -q Successfully; then \
	$(PIP) install --no-deps --force-reinstall "opencv-python==$$($(PY) -c \
	'from importlib.metadata import version; print(version("opencv-python"))')"; fi
unexport PIP_NO_BUILD_ISOLATION

.DEFAULT_GOAL := help
.PHONY: help demo compare figures test fence fence-slow test-openmmlab test-networks docs lock lint speed faults clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' $(MAKEFILE_LIST)
	@echo "variables: PYTHON=$(PYTHON) (3.11 to 3.13), DEMO_DIR=$(DEMO_DIR), COMPARE_DIR=$(COMPARE_DIR), SPEED_DIR=$(SPEED_DIR), TEST_JOBS=$(TEST_JOBS),"
	@echo "  IMAGES=$(IMAGES) (folder of photographs for speed; none: generated JPEGs)"

demo: $(VENV)/.pretrain  ## pre-train and probe on the embedded scenes, on a CPU
	@echo "== demo: results go to $(DEMO_DIR)"
	$(PY) -m mmssprl demo --work-dir $(DEMO_DIR)

compare: $(VENV)/.pretrain  ## compare the methods on the embedded scenes, under 30 minutes on two cores
	@echo "== compare: results go to $(COMPARE_DIR)"
	$(PY) -m mmssprl compare --work-dir $(COMPARE_DIR) --methods $(COMPARED) --epochs 6 --seeds 3

figures: $(VENV)/.pretrain  ## the paper's figures of a run on generated scenes, some minutes on two cores
	@echo "== figures: $(FIGURES_DIR)/figures.html"
	test -d $(FIGURES_DIR)/scenes || $(PY) -m mmssprl scenes $(FIGURES_DIR)/scenes --num-train 1200
	$(PY) tools/train.py configs/ssprl/ssprl_resnet18_scenes.py --work-dir $(FIGURES_DIR)/run --resume \
		--cfg-options train_dataloader.dataset.data_root=$(FIGURES_DIR)/scenes/coco/train2014 \
		train_cfg.max_epochs=24 param_scheduler.0.T_max=24
	$(PY) -m mmssprl visualize figures $(FIGURES_DIR)/run $(FIGURES_DIR)/figures.html --overwrite

test: $(VENV)/.full  ## install everything of OneDL's family, mmdet and mmseg too, then lint, types and tests
	@$(MAKE) --no-print-directory lint
	@echo "== tests"
	@$(PY) -m pytest -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder

fence: $(VENV)/.full  ## the tests that no change may break, under 5 minutes on two cores
	@echo "== fence"
	@$(PY) -m pytest -m "fence and not slow" -n $(TEST_JOBS) --dist loadfile

fence-slow: $(VENV)/.full  ## their slow ones: digits of the paper's tables, README, MIM, Slurm
	@echo "== fence, slow"
	@$(PY) -m pytest -m "fence and slow" -n $(TEST_JOBS) --dist loadfile

test-openmmlab:  ## the tests with the official OpenMMLab packages, in $(OPENMMLAB_VENV)
	@$(MAKE) --no-print-directory VENV=$(OPENMMLAB_VENV) INSTALL_MMCV=: FULL=requirements/openmmlab-test.txt $(OPENMMLAB_VENV)/.full
	@echo "== tests, official OpenMMLab packages"
	@$(OPENMMLAB_VENV)/bin/python -m pytest -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder

test-networks:  ## pre-train networks of other packages and take them back, in $(NETWORKS_VENV); about 10 minutes
	@$(MAKE) --no-print-directory VENV=$(NETWORKS_VENV) $(NETWORKS_VENV)/.full
	$(NETWORKS_VENV)/bin/python -m pip --disable-pip-version-check install $(NETWORKS)
	@echo "== networks of other packages"
	@$(NETWORKS_VENV)/bin/python -m tools.dev.networks

docs: $(VENV)/.docs  ## build the pages into build/docs, warnings as errors
	@echo "== docs: build/docs/index.html"
	$(PY) -m sphinx -W --keep-going -q -b html docs build/docs

lock: $(VENV)/.full  ## write the versions that are installed, with hashes of their files, into $(LOCKED)
	@echo "== lock: $(LOCKED)"
	$(PY) -m venv build/lock
	build/lock/bin/pip install uv
	$(PIP) freeze --exclude-editable > build/lock/installed.txt
	build/lock/bin/uv pip compile requirements.txt --constraints build/lock/installed.txt \
		--python $(PY) --generate-hashes --no-emit-package opencv-python-headless --no-annotate \
		--custom-compile-command "make lock" --quiet --output-file $(LOCKED)

speed: $(VENV)/.pretrain  ## measure time and memory against the gates, under 15 minutes; results go to $(SPEED_DIR)
	@echo "== speed"
	$(PY) -m tools.dev.speed.cpu --out $(SPEED_DIR) $(if $(IMAGES),--images "$(IMAGES)")

faults: $(VENV)/.full  ## all tests that kill, stop and damage trainings, the slow ones too
	@echo "== faults"
	@$(PY) -m pytest -m fault -n $(TEST_JOBS) --dist loadfile

lint: $(VENV)/.full  ## ruff and mypy
	@echo "== ruff"
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@echo "== mypy"
	@$(PY) -m mypy

clean:  ## delete the environments, builds and caches, but no results
	rm -rf $(VENV) $(OPENMMLAB_VENV) $(NETWORKS_VENV) build dist mmssprl.egg-info mmssprl/.mim .pytest_cache .mypy_cache .ruff_cache

$(VENV)/.python:
	@echo "== environment: $(VENV) with $(PYTHON)"
	@$(or $(PYTHON),false) $(FITS) 2>/dev/null || { echo "PYTHON must be a Python 3.11 to \
	3.13 with venv, but got '$(PYTHON)'; name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.pretrain: $(VENV)/.python requirements/pretrain.txt pyproject.toml setup.py
	@echo "== packages for pre-training"
	$(INSTALL_MMCV)
	$(PIP) install -r requirements/pretrain.txt
	$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.full: $(VENV)/.python requirements.txt $(filter-out $(LOCKED),$(wildcard requirements/*.txt)) pyproject.toml setup.py
	@echo "== packages for pre-training, transfer and tests"
	$(INSTALL_MMCV)
	$(PIP) install -r $(FULL)
	@$(ONE_OPENCV)
	$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/.pretrain

$(VENV)/.docs: $(VENV)/.full requirements/docs.txt
	@echo "== packages for the pages"
	$(PIP) install -r requirements/docs.txt
	@touch $@
