# The commands of a checkout. Each target makes .venv and installs what it needs first; a second run finds the stamps and does
# nothing. Whatever the setting up prints goes to standard error, so that `make -s bench-engine` prints its figures alone.
#
#   make demo            renders and benchmarks scenes/cornell.gltf: out/cornell.png, out/cornell.json
#   make test            runs the tests (TESTS=tests/engine for a part of them); as root it installs the Debian packages they need
#   make lint            ruff and mypy
#   make bench           benchmarks every scene of scenes/: out/bench/NAME.json
#   make bench-engine    the engine's image graphs: one JSON object
#   make kernels-diff    the generated kernels against main's (REF=COMMIT: that commit's); fails where they differ
#   make gallery         renders the scenes of scenes/features anew: docs/images/features, docs/gallery.md (about an hour)
#   make view SCENE=FILE the viewer
#   make clean           removes .venv, out and the caches of the tools
#
# PYTHON=python3.12 make ...   takes that interpreter for .venv instead of the newest one found.

SHELL := /bin/sh
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install
SCENE ?= scenes/cornell.gltf
TESTS ?= tests
# What the tests run on: software OpenGL and OpenCL, a screen that nobody sees, keys and a mouse for it, and one of Wayland.
DEBIAN := libegl1 libgl1 libgl1-mesa-dri pocl-opencl-icd xvfb xdotool weston

.PHONY: demo test lint bench bench-engine kernels-diff gallery view clean

demo: .venv/.stamp-app
	@mkdir -p out
	$(BIN)/rayfuse render scenes/cornell.gltf -o out/cornell.png --size 512 512 --spp 256
	$(BIN)/rayfuse bench scenes/cornell.gltf --size 512 512 --json out/cornell.json

test: .venv/.stamp-test .venv/.stamp-debian
	$(BIN)/python -m pytest -n auto --dist worksteal $(TESTS)

lint: .venv/.stamp-dev
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: .venv/.stamp-app
	@mkdir -p out/bench
	@for scene in scenes/*.gltf; do \
	  $(BIN)/rayfuse bench "$$scene" --json "out/bench/$$(basename "$$scene" .gltf).json" || exit $$?; \
	done

bench-engine: .venv/.stamp-app
	@$(BIN)/python -m engine.bench

kernels-diff: .venv/.stamp-app
	@$(BIN)/python -m engine.inspect.kernels_diff $(if $(REF),--ref $(REF)) renderer/app/kernel_texts.py scenes

gallery: .venv/.stamp-app
	$(BIN)/python scenes/render_features.py

view: .venv/.stamp-viewer
	$(BIN)/rayfuse view $(SCENE)

clean:
	rm -rf .venv out build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

# --- the environment ---------------------------------------------------------------------------------------------------------
# An interpreter counts when it runs, is 3.11 or newer and can make an environment (Debian splits ensurepip off: python3-venv).

.venv/bin/python:
	@found=; \
	find_python() { \
	  for candidate in $(PYTHON) python3.14 python3.13 python3.12 python3.11 python3 python; do \
	    if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	      found=$$candidate; return; \
	    fi; \
	  done; \
	}; \
	find_python; \
	if [ -z "$$found" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  { apt-get update && apt-get install --yes python3-venv; } >&2; find_python; \
	fi; \
	if [ -z "$$found" ]; then \
	  echo "make: no Python 3.11 or newer with the venv module found; install one (Debian: apt-get install python3-venv)" >&2; \
	  exit 1; \
	fi; \
	echo "making .venv with $$("$$found" --version)" >&2; \
	"$$found" -m venv .venv >&2

.venv/.stamp-app: pyproject.toml | .venv/bin/python
	@echo "installing rayfuse into .venv" >&2
	@$(PIP) --editable . >&2
	@touch $@

.venv/.stamp-debian: | .venv/bin/python
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  missing=; \
	  for package in $(DEBIAN); do dpkg -s "$$package" >/dev/null 2>&1 || missing="$$missing $$package"; done; \
	  if [ -n "$$missing" ]; then \
	    echo "installing$$missing" >&2; \
	    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends $$missing; } >&2 || exit 1; \
	  fi; \
	fi
	@touch $@

.venv/.stamp-%: .venv/.stamp-app
	@echo "installing what '$*' needs into .venv" >&2
	@$(PIP) --editable '.[$*]' >&2
	@touch $@
