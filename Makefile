# Everything below works in a clean clone, without root.
.PHONY: demo test test-kubelet lint format proto docs bench install uninstall clean help
.DEFAULT_GOAL := help

bin := .venv/bin

help:
	@echo "make demo    a kubelet of our own and a few devices, live, in this terminal"
	@echo "make test    the tests"
	@echo "make test-kubelet  scenarios on the real kubelet, built with Go; those with containers need root"
	@echo "make lint    ruff, mypy, floors, generated messages, plain words"
	@echo "make format  what make lint would complain of and ruff can mend"
	@echo "make proto   generate agent/kubelet/messages from protos/"
	@echo "make docs    the pages that are printed from tables"
	@echo "make bench   the measurements; one of them with ONLY=name"
	@echo "make install on this node, as root: PREFIX, BINDIR, DESTDIR; with LAB=1 also the lab; make uninstall takes it away"
	@echo "make clean   remove what was made here"

.venv/.ready: pyproject.toml lab/pyproject.toml requirements/constraints.txt requirements/venv
	@requirements/venv

demo: .venv/.ready
	@$(bin)/device-agent lab --demo

# One process for each core. What changes the whole machine waits for its turn (`whole_machine` in tests/conftest.py).
PYTEST := $(bin)/python -m pytest -n auto --dist worksteal

test: .venv/.ready
	$(PYTEST) $(ARGS)

# A tier of its own: what it runs on is compiled first, for minutes where nothing is cached.
test-kubelet: .venv/.ready
	@tests/kubelet/build manager-1.34 manager-1.37 $(if $(wildcard tests/node),kubelet-1.37 control-1.37 containerd-2.3 shim-2.3)
	$(bin)/python -m pytest -m kubelet --tb=native $(wildcard tests/real tests/node) $(ARGS)

# All of them, even if the first has something to say.
lint: .venv/.ready
	@failed=; \
	for check in "$(bin)/ruff check" "$(bin)/ruff format --check" "$(bin)/mypy --strict" \
	             "$(bin)/lint-imports --no-logo" "protos/generate --check" "$(bin)/python lint/plain_words.py"; do \
		echo "$$check"; $$check || failed="$$failed, $$check"; \
	done; \
	if [ -n "$$failed" ]; then echo "make lint: failed: $${failed#, }" >&2; exit 1; fi

format: .venv/.ready
	$(bin)/ruff check --fix
	$(bin)/ruff format

proto: .venv/.ready
	protos/generate

docs: .venv/.ready
	$(bin)/python -m docs.reference words > docs/words.md
	$(bin)/python -m docs.reference keys > docs/keys.md
	$(bin)/python -m docs.class_reference docs

bench: .venv/.ready
	@$(bin)/python -m bench $(ONLY) $(ARGS)

# A virtual environment of its own, a link to the program, the unit, and a configuration where there is none yet.
PYTHON ?= python3
PREFIX ?= /opt/device-agent
BINDIR ?= /usr/bin
ETC    := $(DESTDIR)/etc/device-agent
UNIT   := $(DESTDIR)/usr/lib/systemd/system/device-agent.service
TMP    := $(DESTDIR)/usr/lib/tmpfiles.d/device-agent.conf
CATALOG := $(DESTDIR)/usr/lib/systemd/catalog/device-agent.catalog
MAN    := $(DESTDIR)/usr/share/man/man8/device-agent.8
DOC    := $(DESTDIR)/usr/share/doc/device-agent

install:
	@if [ -n "$$(ls -A "$(DESTDIR)$(PREFIX)" 2>/dev/null)" ] && [ ! -e "$(DESTDIR)$(PREFIX)/bin/device-agent" ]; then \
		echo "make install: $(PREFIX) is not ours: choose another PREFIX" >&2; exit 1; fi
	$(PYTHON) -m venv "$(DESTDIR)$(PREFIX)"
	PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CONSTRAINT=requirements/constraints.txt \
	PIP_BUILD_CONSTRAINT=requirements/constraints.txt \
		"$(DESTDIR)$(PREFIX)/bin/python" -m pip install --quiet --upgrade . $(if $(LAB),./lab)
	$(if $(LAB),,"$(DESTDIR)$(PREFIX)/bin/python" -m pip uninstall -qq --yes device-agent-lab)
	@if [ -n "$(DESTDIR)" ]; then \
		sed -i "1s|^#!$(DESTDIR)|#!|" "$(DESTDIR)$(PREFIX)/bin/device-agent" $(if $(LAB),"$(DESTDIR)$(PREFIX)/bin/fake-kubelet"); fi
	install -d "$(DESTDIR)$(BINDIR)" "$(ETC)/resources.d" "$(ETC)/classes" "$(DOC)/classes"
	ln -sf "$(PREFIX)/bin/device-agent" "$(DESTDIR)$(BINDIR)/device-agent"
	install -Dm644 systemd/device-agent.service "$(UNIT)"
	sed -i "s|/usr/bin/device-agent|$(BINDIR)/device-agent|" "$(UNIT)"
	install -Dm644 systemd/device-agent.tmpfiles.conf "$(TMP)"
	install -Dm644 config/device-agent.catalog "$(CATALOG)"
	install -Dm644 man/device-agent.8 "$(MAN)"
	install -m644 docs/*.md config/prometheus-rules.yml "$(DOC)"
	install -m644 docs/classes/*.md "$(DOC)/classes"
	@[ -e "$(ETC)/agent.toml" ] || install -m644 config/agent.toml "$(ETC)/agent.toml"
	@echo "installed. next: device-agent scan; then a file in /etc/device-agent/resources.d; then"
	@echo "    systemctl daemon-reload && systemctl enable --now device-agent"
	@echo "    journalctl --update-catalog        # once: journalctl -x then explains what the agent says"

# The configuration and the state stay.
uninstall:
	@if [ -e "$(DESTDIR)$(PREFIX)/pyvenv.cfg" ] && [ -e "$(DESTDIR)$(PREFIX)/bin/device-agent" ]; then \
		rm -rf "$(DESTDIR)$(PREFIX)"; fi
	rm -f "$(DESTDIR)$(BINDIR)/device-agent" "$(UNIT)" "$(TMP)" "$(CATALOG)" "$(MAN)"
	rm -rf "$(DOC)"
	@echo "uninstalled; /etc/device-agent and /var/lib/device-agent are left as they are"

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
