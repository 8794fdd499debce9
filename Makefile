# mmprep: `make help` lists the targets.
#
# Tools are installed into $(VENV) once. BIN=/some/bin takes an mmprep that is installed already.

PYTHON ?= python3
VENV ?= .venv
BIN ?= $(VENV)/bin
PIP = $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check
TORCH = torch==2.13.0

ifeq ($(BIN),$(VENV)/bin)
CORE := $(VENV)/.core
DEV := $(VENV)/.dev
BENCH := $(VENV)/.bench
FUZZ := $(VENV)/.fuzz
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-trainers check format bench proof fuzz clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/.venv:
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.core: pyproject.toml | $(VENV)/.venv
	$(PIP) --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.venv
	$(PIP) --editable ".[dev]"
	@touch $@ $(VENV)/.core

$(VENV)/.bench: pyproject.toml | $(VENV)/.venv
	$(PIP) $(TORCH)
	$(PIP) --editable ".[dev,bench]"
	@touch $@

$(VENV)/.fuzz: $(VENV)/.dev
	$(PIP) atheris
	@touch $@

# The demo: raw recordings to trainable data sets, as a pipeline of the kind that mmprep is made for.
# A target is a data set's record; what it hangs on beside is written by --depfile and included.

RAW := sample_data
OUT := build/demo
MMPREP := $(BIN)/mmprep
AUDIO := reference
AMIGOS := $(OUT)/amigos
CMLR := $(OUT)/cmlr

DEMO := $(addprefix $(AMIGOS)/,validated.txt stats.txt nemo/mmprep.json) \
	$(addprefix $(CMLR)/,validated.txt stats.txt nemo/mmprep.json)

demo: $(DEMO) ## install, and turn sample_data/ into trainable data sets

$(AMIGOS)/converted/dataset.json: | $(CORE)
	$(MMPREP) convert $(RAW)/amigos --layout amigos --time-unit s \
	    --exclude labels.tsv --exclude truth.json -o $(@D) --depfile $(@D).d

$(AMIGOS)/features/dataset.json: $(AMIGOS)/converted/dataset.json | $(CORE)
	$(MMPREP) mfcc $(<D) -o $(@D)

$(AMIGOS)/aligned/dataset.json: $(AMIGOS)/features/dataset.json $(RAW)/amigos/labels.tsv | $(CORE)
	$(MMPREP) align $(<D) --rates video=30,eeg=128,gsr=4 --labels $(RAW)/amigos/labels.tsv \
	    --on session -o $(@D)

$(AMIGOS)/split/dataset.json: $(AMIGOS)/aligned/dataset.json | $(CORE)
	$(MMPREP) manifest split $(<D) --by subject --ratios train=0.5,val=0.25,test=0.25 -o $(@D)

$(CMLR)/converted/dataset.json: | $(CORE)
	$(MMPREP) convert $(RAW)/cmlr --layout cmlr -o $(@D) --depfile $(@D).d

$(CMLR)/features/dataset.json: $(CMLR)/converted/dataset.json | $(CORE)
	$(MMPREP) mfcc $(<D) -o $(@D)

$(CMLR)/split/dataset.json: $(CMLR)/features/dataset.json | $(CORE)
	$(MMPREP) manifest split $(<D) --by subject --ratios train=0.34,val=0.33,test=0.33 -o $(@D)

%/validated.txt: %/split/dataset.json | $(CORE)
	$(MMPREP) manifest validate --checksums --leakage subject $(<D) > $@

%/stats.txt: %/split/dataset.json | $(CORE)
	$(MMPREP) manifest stats $(<D) > $@
	@cat $@

$(AMIGOS)/nemo/mmprep.json: AUDIO := flac

%/nemo/mmprep.json: %/split/dataset.json | $(CORE)
	$(MMPREP) manifest export $(<D) --to nemo --audio $(AUDIO) -o $(@D)

-include $(wildcard $(OUT)/*/*.d)

test: $(DEV) ## install what the tests need and run them all
	$(BIN)/python -m pytest -n 2 --dist loadscope

test-trainers: build/trainers/.done ## read exports with the trainers themselves, in build/trainers
	build/trainers/bin/python -m pytest -m trainers

build/trainers/.done: pyproject.toml
	$(PYTHON) -m venv build/trainers
	build/trainers/bin/python -m pip install --quiet --disable-pip-version-check \
	    $(TORCH) --editable ".[dev,trainers]"
	@touch $@

check: $(DEV) ## format, lint, types, layer rule
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tests/layers.py mmprep

format: $(DEV) ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(BENCH) ## mmprep and its peers, side by side in one run
	$(BIN)/python -m tests.bench

proof: $(DEV) ## every collected file, beside what other readers make of it
	@mkdir -p build
	$(BIN)/python -m tests.collected > build/proof.tsv

SECONDS := 60

fuzz: $(FUZZ) ## other cases of the property tests, and made-up tables for SECONDS=60
	$(BIN)/python -m pytest -n 2 --hypothesis-profile=explore -m hypothesis
	@mkdir -p build/fuzz/corpus
	$(BIN)/python -m tests.fuzz -max_total_time=$(SECONDS) -max_len=256 \
	    -artifact_prefix=build/fuzz/found- build/fuzz/corpus tests/fuzz/seeds

clean: ## remove everything that was built
	rm -rf build work $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
