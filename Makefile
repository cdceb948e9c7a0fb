# Shortcuts for packaging/set_up.py, which also works alone, on systems without make. Needs Python 3.11 or newer.

PYTHON ?= python3
SET_UP := $(PYTHON) packaging/set_up.py
ARGS ?=

.PHONY: help run test check acceptance screenshots package package-test clean

help: ## show these lines
	@sed -n 's/^\([a-z-]*\):.*## /  make \1  /p' $(MAKEFILE_LIST)

run: ## open the window, or chat in the terminal where no display is (ARGS="..." is passed on)
	@$(SET_UP) run $(ARGS)

test: ## run the tests (ARGS="-k name" chooses)
	@$(SET_UP) test $(ARGS)

check: ## run the linter, the type checker and the import rules
	@$(SET_UP) check

acceptance: ## run the long tests
	@$(SET_UP) acceptance $(ARGS)

screenshots: ## make pictures of the real window, in both themes, languages and scales (build/screenshots)
	@$(SET_UP) install
	@.venv/bin/python packaging/screenshots.py

package: ## make the packages that people install (dist/); ARGS="--quick" compresses little
	@$(PYTHON) packaging/package.py $(ARGS)

package-test: ## try what `make package` made: every edition and kind, as people meet it
	@$(SET_UP) package-test $(ARGS)

clean: ## remove everything that was made here: the environment, builds and caches
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
