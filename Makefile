# The main jobs of the project; each sets up what it needs in .venv first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
# The package is the repository's root, so mypy and pyright are shown it under its own name.
MYPY_ROOT := $(VENV)/mypy-root

# Else each process that the tests start would compile anew all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-nightly test-slow test-qwen lint types pyright bench bench-fast test-frameworks test-mlflow api llms notebooks pictures screenshots site samples clean

$(VENV)/.installed-local: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[local]'
	touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[network,local,minilm,datasets,excel,inspect,postgres,test]'
	mkdir -p $(MYPY_ROOT) && ln -sfn "$(CURDIR)" $(MYPY_ROOT)/folkmoot
	touch $@ $(VENV)/.installed-local

# inspect_ai needs a newer openai than litellm takes.
$(VENV)/.installed-bench: $(VENV)/.installed-test
	$(INSTALL) --editable '.[bench]'
	$(PYTHON) -m venv $(VENV)/bench-inspect
	$(VENV)/bench-inspect/bin/pip install --quiet --disable-pip-version-check inspect-ai 'openai>=3.4'
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed-test
	$(INSTALL) --editable '.[docs]'
	touch $@

demo: $(VENV)/.installed-local
	$(BIN)/python examples/demo.py

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n 4 --dist worksteal -m "not nightly"

# What the day leaves out, and every property once more with many examples.
test-nightly: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "nightly or hypothesis" --hypothesis-profile=nightly

test-slow: test-nightly

# The capable embedded LMs, 1.6 GB, from the hub.
test-qwen: $(VENV)/.installed-test
	$(BIN)/folkmoot lms get qwen2.5-coder-1.5b qwen2.5-coder-0.5b
	$(BIN)/python -m pytest -m "nightly and local_lm" -k "lms.md or one_program"

# Teams of ten frameworks, each in an environment of its own, against a server that counts.
test-frameworks: $(VENV)/.installed-test
	$(BIN)/python tools/frameworks.py

# MLflow 3.18 over the parts of 3.17, which are all that some indexes have.
test-mlflow: $(VENV)/.installed-test
	$(BIN)/python -m pip install -q --no-deps --upgrade --target $(VENV)/mlflow-next mlflow==3.18.0
	PYTHONPATH=$(CURDIR)/$(VENV)/mlflow-next $(BIN)/python -m pytest tests/pipelines/tracking -m "not nightly"

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-test
	MYPYPATH=$(MYPY_ROOT) $(BIN)/mypy --strict -p folkmoot
	MYPYPATH=$(MYPY_ROOT) $(BIN)/mypy $(foreach folder,benchmarks docs examples tools,$(MYPY_ROOT)/folkmoot/$(folder)/*.py)

# What an editor sees in the scripts. Node comes from the package index, too.
pyright: $(VENV)/.installed-test
	$(INSTALL) 'pyright[nodejs]>=1.1.414'
	$(BIN)/pyright benchmarks docs examples tools

bench: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/throughput.py
	$(BIN)/python benchmarks/waits.py
	$(BIN)/python benchmarks/policy.py

bench-fast: $(VENV)/.installed-test
	$(BIN)/python benchmarks/throughput.py --fast
	$(BIN)/python benchmarks/waits.py --fast
	$(BIN)/python benchmarks/policy.py --fast

api: $(VENV)/.installed-test
	$(BIN)/python docs/make_api.py

llms: $(VENV)/.installed-test
	$(BIN)/python docs/make_llms.py

notebooks: $(VENV)/.installed-test
	$(BIN)/python docs/make_notebooks.py

# docs/images/*.svg, from the recorded runs.
pictures: $(VENV)/.installed-test
	$(BIN)/python docs/make_pictures.py

# docs/images/*.png, with Chromium or Chrome, which must be installed.
screenshots: $(VENV)/.installed-test
	$(BIN)/python docs/make_screenshots.py

# The pages of docs/ as a site, in build/site.
site: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

samples: $(VENV)/.installed-test
	$(BIN)/python tools/check_samples.py

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
