# SPDX-License-Identifier: GPL-3.0-or-later
# The two commands that matter: `make demo` and `make test`. Both do their own set-up.
SHELL := /bin/bash
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
LAB_HOST ?= gpu1
PROMPT ?= Say hello.
STAGES ?=

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/.ready: requirements/dev.txt tests/lab/setup.sh
	@echo "setup: the locked Python environment, in .venv"
	@tests/lab/setup.sh

.PHONY: setup
setup: .venv/.ready ## Make the locked Python environment in .venv

.PHONY: lock
lock: setup ## Pin the lists in requirements anew, with hashes
	for list in dev mutation; do \
		uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
			requirements/$$list.in --output-file requirements/$$list.txt || exit 1; \
	done

.PHONY: demo
demo: setup ## Deploy the real SGLang on a lab host, prove its start, leave it running
	@tests/lab/demo.sh

.PHONY: chat
chat: setup ## Ask the demo's server: make chat PROMPT="Say hello."
	@tests/lab/on_host.sh $(LAB_HOST) python3 - "$(PROMPT)" < tests/lab/chat.py

.PHONY: shell
shell: setup ## Open a shell on the demo's host
	@tests/lab/on_host.sh $(LAB_HOST)

.PHONY: test
test: setup ## Run all tests, or some: make test STAGES="unit lint"
	@python tests/run_tests.py $(STAGES)

.PHONY: lint
lint: setup ## Run ruff, yamllint and ansible-lint
	@python tests/run_tests.py lint

.PHONY: docs
docs: setup ## Make docs/roles anew from the roles' specifications
	@python tests/tools/make_role_docs.py

.PHONY: bench
bench: setup ## Measure the journal reader against journalctl; makes 1 GB of journals once
	@python tests/bench/bench_verify.py
	@python tests/bench/bench_model.py
	@python tests/bench/bench_arguments.py
	@python tests/bench/bench_install.py
	@python tests/bench/bench_rollout.py
	@python tests/bench/bench_fleet.py

.PHONY: clean
clean: ## Remove the lab's hosts, its network and its server; keep caches
	@tests/lab/clean.sh

.PHONY: distclean
distclean: clean ## Remove the caches and .venv as well
	rm -rf --one-file-system /var/lib/llmfleet-lab .venv .venv.part .cache .ansible
