# Every target sets the machine up first (infra/install.sh) and runs again without harm.
VENV ?= .venv
BIN := $(VENV)/bin
PROFILE ?=
ONLY ?=
export HESPER_VENV := $(VENV)
# Where it is set, as in many containers, each of a run's processes would compile all it imports, 10 s of work.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-all ui bench lint clean install

run: install  ## environments to release; PROFILE=smoke for the small one
	@$(BIN)/hesper run $(if $(PROFILE),--profile $(PROFILE))

# A test that fails is tried once more, and named as such at the end: browsers on a busy machine miss time limits.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --reruns 1

test: install  ## what the project promises, in real browsers, servers and X11 programs
	@$(PYTEST) -m "not slow"

test-all: install  ## and the few that repeat at length what another shows
	@$(PYTEST)

ui: install  ## the Dagster and MLflow pages, on loopback
	@$(BIN)/hesper ui

bench: install  ## reports/bench.json; ONLY=name for one
	@$(BIN)/python -m tests.performance $(if $(ONLY),--only "$(ONLY)")

lint: install  ## format, lint, types, import rules
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

clean:  ## caches and build leftovers; data, models, reports and runs stay
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
	@find assets dagster_project tests -name __pycache__ -type d -prune -exec rm -rf {} +

install:
	@bash infra/install.sh
