# `make demo` and `make test` set everything up first: Debian packages, a Python environment in .venv, and the virtual-time kernel.

PYTHON ?= python3
VENV := .venv
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

# mininet: mnexec, which runs programs in a host's namespace; the Python part comes from PyPI.
# linux-source and what follows it: to build the virtual-time kernel.
PACKAGES := mininet openvswitch-switch iproute2 ethtool iputils-ping util-linux python3-venv \
            linux-source-6.12 gcc make patch flex bison bc libelf-dev xz-utils

# What only tests need. tshark: checks that Wireshark names the messages of captured runs.
TEST_PACKAGES := tshark

.PHONY: demo test lint format setup packages test-packages kernel clean

demo: setup
	$(VENV)/bin/gradwire run geryon-table2

test: setup test-packages
	$(VENV)/bin/python -m pytest -n auto --dist loadfile

lint: $(VENV)/installed
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

format: $(VENV)/installed
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

setup: packages $(VENV)/installed kernel

install = dpkg-query -W $(1) >/dev/null 2>&1 || \
	  { $(SUDO) apt-get update && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $(1); }

packages:
	@$(call install,$(PACKAGES))

test-packages:
	@$(call install,$(TEST_PACKAGES))

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --editable '.[dev]'
	@touch $@

kernel: packages $(VENV)/installed
	@$(VENV)/bin/gradwire kernel

clean:
	rm -rf $(VENV) runs *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
