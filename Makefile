# The doors of this project. On a bare Debian, which has not even make:
#   sh tasks/local/bootstrap.sh make run
#   sh tasks/local/bootstrap.sh make test
# Each target first does the set-up that it lacks, and nothing twice.

PYTHON ?= python3
VENV := .venv/bin
# What follows is handed on, as in: make run ARGS="--port 8100", make test ARGS="tests/unit -x"
ARGS ?=

# Processes start by the dozen: each module is compiled once, whatever this shell says.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test demo check bench bench-engine bench-admin bench-data bench-revocation soak password setup setup-test clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-12s %s\n", $$1, $$2 }'

run: setup ## start everything on this machine (Ctrl-C stops it)
	@exec $(VENV)/python -m tasks.local run $(ARGS)

test: setup-test ## run all tests, those on real ActiveMQ, PostgreSQL, Redis, Spark and a browser included
	@exec $(VENV)/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder $(ARGS)

demo: setup ## play the story without a person; report in var/demo/report.json
	@exec $(VENV)/python -m tasks.local demo $(ARGS)

check: setup ## ruff, mypy, import contracts
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	$(VENV)/lint-imports

bench: setup-test ## run the benchmarks
	@exec $(VENV)/python -m benchmarks $(ARGS)

bench-engine: setup-test ## run the benchmarks of the policy engine
	@exec $(VENV)/python -m benchmarks anonset sde publishing kpabe cpabe ope split $(ARGS)

bench-admin: setup-test ## measure the administration model on PostgreSQL with 100,000 policies and principals
	@exec $(VENV)/python -m benchmarks admin $(ARGS)

bench-revocation: setup-test ## measure revocations, a rotation, recomputes and deltas; ARGS="--small" in three minutes
	@exec $(VENV)/python -m benchmarks.bench_revocation \
	  --parts enforcement,rotation,recompute,deltas $(ARGS)

bench-data: setup-test ## measure agents on a real ActiveMQ: latency, throughput, growth, memory
	@exec $(VENV)/python -m benchmarks data $(ARGS)

soak: setup-test ## kill -9 agents, brokers and clients a hundred times each, every part of a site fifty times; a hundred partitions; a million changed messages; the oracles at full size
	@exec $(VENV)/python -m tests.soak $(ARGS)

password: setup ## give the operator account of `make run` a new random password
	@exec $(VENV)/python -m tasks.local password

setup: ## only what `make run` needs to be installed
	@$(PYTHON) -m tasks.local.setup run

setup-test: ## what `make test` needs to be installed
	@$(PYTHON) -m tasks.local.setup test

clean: ## remove everything that was made here (environment, assets, state)
	@$(PYTHON) -m tasks.local.clean
