# Everything below works in a clean clone, without root.
.PHONY: demo test lint format proto bench clean help
.DEFAULT_GOAL := help

bin := .venv/bin

help:
	@echo "make demo    a kubelet of our own and a few devices, live, in this terminal"
	@echo "make test    the tests"
	@echo "make lint    ruff, mypy, floors, generated messages"
	@echo "make format  what make lint would complain of and ruff can mend"
	@echo "make proto   generate agent/kubelet/messages from protos/"
	@echo "make bench   the measurements"
	@echo "make clean   remove what was made here"

.venv/.ready: pyproject.toml requirements/constraints.txt requirements/venv
	@requirements/venv

demo: .venv/.ready
	@$(bin)/device-agent lab --demo

test: .venv/.ready
	$(bin)/python -m pytest $(ARGS)

# All of them, even if the first has something to say.
lint: .venv/.ready
	@failed=; \
	for check in "$(bin)/ruff check" "$(bin)/ruff format --check" "$(bin)/mypy --strict" \
	             "$(bin)/lint-imports --no-logo" "protos/generate --check"; do \
		echo "$$check"; $$check || failed="$$failed, $$check"; \
	done; \
	if [ -n "$$failed" ]; then echo "make lint: failed: $${failed#, }" >&2; exit 1; fi

format: .venv/.ready
	$(bin)/ruff check --fix
	$(bin)/ruff format

proto: .venv/.ready
	protos/generate

bench: .venv/.ready
	$(bin)/python -m bench $(ARGS)

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
