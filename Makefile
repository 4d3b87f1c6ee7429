# `make demo` and `make test` set everything up first: Debian packages, a Python environment in .venv, and the virtual-time kernel.

# What fails in a pipe fails the recipe.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c

PYTHON ?= python3
VENV := .venv
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

PACKAGES := openvswitch-switch iproute2 ethtool iputils-ping util-linux python3-venv
PACKAGES += net-tools # ifconfig, which Mininet wants of every host: gradwire mininet and gradwire mn

# To build the virtual-time kernel; with it the source: 6.12, with which everything was measured, or else the distribution's newest.
BUILD_PACKAGES := gcc libc6-dev make patch flex bison bc libelf-dev xz-utils

# To compile the stand-ins for GPUs (gradwire exec --gpus).
COMPILER_PACKAGES := gcc libc6-dev
SOURCES := /usr/src/linux-source-*.tar.*

# What only tests need, all of it: a test that finds a program missing fails. tests/unmet.py has what a test may be skipped for.
TEST_PACKAGES := tshark # checks that Wireshark names the messages of captured runs
TEST_PACKAGES += chromium # opens reports, whose tables sort by a script, and sees that they load nothing and that no browser complains
TEST_PACKAGES += python3-simgrid # an independent simulator, beside which the fluid engine is checked; the system's Python imports it
TEST_PACKAGES += iperf # what the command `iperf` of Mininet's CLI starts
TEST_PACKAGES += iperf3 openmpi-bin libopenmpi-dev mpich # programs that users run on emulated hosts
TEST_PACKAGES += ibverbs-providers ibverbs-utils rdmacm-utils perftest ucx-utils # programs that use the RDMA devices of emulated hosts
TEST_PACKAGES += nftables # a firewall in a host
TEST_PACKAGES += tmux zsh fish # the windows of gradwire shell, and shells whose completion is tried
TEST_PACKAGES += gcc libc6-dev patch # compile programs that attack, count and wait, and agents as a kernel's build does

# What `make test-programs` needs besides: PyTorch from the wheels for CPUs, 200 MB, which no other test imports.
TORCH_WHEELS := https://download.pytorch.org/whl/cpu

# Other simulators, beside which `make bench` runs.
BENCH_PACKAGES := libns3-dev libgsl-dev g++ pkg-config python3-simgrid

# What `make check` runs: ten seconds of CPU time, types aside. What plans, engines, runs, commands and reports do takes longer.
QUICK_TESTS := tests/unit/test_layout.py tests/unit/test_named_paths.py tests/unit/docs/test_contributing.py tests/unit/topo tests/unit/controller \
  tests/unit/datatypes tests/unit/workloads/test_golden_digests.py

# Continuous integration installs exactly the files whose hashes .ci/requirements.txt has: `make LOCKED=1 ...`. Otherwise pip chooses the newest.
LOCK := .ci/requirements.txt

.PHONY: check hooks lock changelog docs gallery demo test test-quick test-long bench bench-packages test-broad test-programs test-distributions lint format wheel test-root setup packages python-packages test-packages package-list build-packages compiler-packages kernel stand-ins clean

demo: setup
	$(VENV)/bin/gradwire run geryon-table2

# Files are handed out in the order of their names and not by their number of tests: those that boot kernels come first, and what is left at the
# end, when one core has no more, is short.
test: setup test-packages
	$(VENV)/bin/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# What `make test` leaves out so that it takes minutes: more networks, strategies, programs and ways to fail (tests/core.py). PART=2/4: the second
# of four parts.
test-broad: setup test-packages
	$(VENV)/bin/python -m pytest -m broad $(PART:%=--part %) -n auto --dist loadfile --no-loadscope-reorder tests/end_to_end

# What `make test` skips for an ordinary user, as root: other users, mounts, devices and namespaces of the machine's own kernel. Its cache is a
# copy, so that none of the user's files becomes root's; not in /tmp, where a test forbids programs.
test-root: setup test-packages
	@cache=$$(mktemp -d -p /var/tmp) && cp "$${GRADWIRE_CACHE:-$$HOME/.cache/gradwire}"/kernel-* "$$cache" && status=0 && \
	  { $(SUDO) env GRADWIRE_CACHE="$$cache" HYPOTHESIS_STORAGE_DIRECTORY="$$cache" GIT_OPTIONAL_LOCKS=0 PYTHONDONTWRITEBYTECODE=1 $(VENV)/bin/python -m pytest -p no:cacheprovider \
	    -m 'root or namespaces or devices or net_admin' || status=$$?; }; $(SUDO) rm -r "$$cache"; exit $$status

# What `make test` leaves out because it takes minutes: the papers' quick reproduction, the notebooks, a large model whole,
# clusters whose workers die, and four of five examples of each property. Half an hour.
test-long: setup test-packages
	GRADWIRE_EXAMPLES=all $(VENV)/bin/python -m pytest -m 'long or hypothesis' -v tests

# Half an hour on an idle machine; writes docs/performance.md.
bench: setup bench-packages
	$(VENV)/bin/python -m benchmarks.performance --write

# One after the other: each takes a core and up to 8 GiB, and all of them half an hour to two hours.
test-programs: setup test-packages
	$(VENV)/bin/pip install --quiet --editable '.[dev,torch]' --extra-index-url $(TORCH_WHEELS)
	$(VENV)/bin/python -m pytest -m programs -s -v tests/programs

# As root, with debootstrap: the wheel's two commands and this file's two, in bare trees of Debian. Long.
test-distributions: wheel
	for suite in bookworm trixie sid; do tests/distributions/run $$suite wheel || exit; done
	tests/distributions/run trixie clone

wheel: build-packages $(VENV)/installed
	rm -f dist/gradwire-*.whl
	$(VENV)/bin/python release/build_wheel.py

# Two processes check types in half the time where nothing is cached, and give up (status 2) where one of them is not there within 3 s, as on a
# busy machine: then one process does it.
lint: $(VENV)/installed
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy --num-workers 2 || { [ $$? = 2 ] && $(VENV)/bin/mypy; }

# One process: to start two takes each of them as long as half of these tests.
test-quick: $(VENV)/installed
	$(VENV)/bin/python -m pytest $(QUICK_TESTS)

# What to run before each commit: no kernel, no sudo, no other programs. Types are checked beside the tests, on a second core.
check: $(VENV)/installed
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint test-quick

hooks: $(VENV)/installed
	$(VENV)/bin/pre-commit install

# The site, with search, in build/site. Dead links are errors.
docs: $(VENV)/installed
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet
	@echo "site: build/site/index.html, which a browser opens as a file, with its search"

# Pictures of docs/gallery.md, recordings of terminals, and outputs of the notebooks, anew: some minutes. PARTS=pictures, recordings or notebooks.
gallery: setup test-packages
	$(VENV)/bin/python -m benchmarks.gallery $(PARTS)

# Anew after a change of the dependencies in pyproject.toml. Versions that the lock already has are kept, unless UPGRADE=1.
lock: $(VENV)/installed
	$(VENV)/bin/pip install --quiet uv
	$(VENV)/bin/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
	  --custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade) --quiet --output-file $(LOCK)
	$(VENV)/bin/uv pip compile release/requirements.in --universal --python-version 3.11 --generate-hashes \
	  --custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade) --quiet --output-file release/requirements.txt

# Puts the fragments of changelog.d into the section of a version in CHANGELOG.md: make changelog VERSION=0.2.0
changelog: $(VENV)/installed
	$(VENV)/bin/python release/changelog.py $(VERSION)

format: $(VENV)/installed
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

setup: packages python-packages kernel stand-ins

# Each step says what it is at, a package or ten of them on a line, and then how long it took; or else that it had nothing to do. What goes wrong
# comes on standard error, as it was said.
get = $(SUDO) env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 $(1) | \
  sed --unbuffered --quiet -e 's/^Setting up \([^ ]*\).*/  \1/p'
update = $(SUDO) apt-get update -qq
install = if dpkg-query -W $(2) >/dev/null 2>&1; then echo "$(1): there already"; else \
  echo "$(1), with apt-get: $(2)"; SECONDS=0; $(update) && $(call get,$(2)) && echo "$(1): $$SECONDS s"; fi
pip = $(VENV)/bin/pip install --disable-pip-version-check --progress-bar off
told = while read -r what name _; do case "$$what" in \
  Collecting) ((++found % 10)) || echo "  $$found packages found, now $$name";; \
  Installing) ((found < 10)) || echo "  installing all $$found";; esac; done

packages:
	@$(call install,Debian packages,$(PACKAGES))

test-packages:
	@$(call install,Debian packages for tests,$(TEST_PACKAGES))

# For tests/distributions/run, which makes a tree with these and no others.
package-list:
	@echo $(PACKAGES) $(TEST_PACKAGES)

compiler-packages:
	@$(call install,Debian packages to compile the stand-ins for GPUs,$(COMPILER_PACKAGES))

bench-packages:
	@$(call install,Debian packages of other simulators,$(BENCH_PACKAGES))

build-packages:
	@$(call install,Debian packages to build the kernel,$(BUILD_PACKAGES))
	@ls $(SOURCES) >/dev/null 2>&1 || { echo "the kernel's source, with apt-get: about 150 MB"; $(update) && \
	  source=$$(apt-cache pkgnames linux-source- | grep -x 'linux-source-[0-9]*\.[0-9]*' | sort --version-sort | \
	     awk '/-6\.12$$/ { old = $$0 } { newest = $$0 } END { print old ? old : newest }') && $(call get,$$source); }

$(VENV)/installed: pyproject.toml $(if $(LOCKED),$(LOCK))
	$(eval INSTALLED_NOW := yes)
	@echo "Python packages, in $(VENV): one to four minutes"; SECONDS=0; \
	  $(PYTHON) -m venv $(VENV) && \
	  $(if $(LOCKED),$(pip) --require-hashes --requirement $(LOCK) | { $(told); } &&) \
	  $(pip) $(if $(LOCKED),--no-deps --no-build-isolation) --editable '.[dev]' | { $(told); } && \
	  touch $@ && echo "Python packages: $$SECONDS s"

python-packages: $(VENV)/installed
	@$(if $(INSTALLED_NOW),:,echo "Python packages: there already")

# `gradwire` on the PATH is an installed wheel. It puts the kernel that it brought where this clone looks, which takes it if the configs are the same.
kernel: packages $(VENV)/installed
	@SECONDS=0; if kernel=$$($(VENV)/bin/gradwire kernel --check 2>/dev/null); then echo "$$kernel, there already"; else \
	  { { gradwire kernel --check && $(VENV)/bin/gradwire kernel --check; } 2>/dev/null || \
	  { $(MAKE) --no-print-directory build-packages && $(VENV)/bin/gradwire kernel; }; } && echo "kernel: $$SECONDS s"; fi

# Compiled once into the cache, in three seconds.
stand-ins: compiler-packages $(VENV)/installed
	@$(VENV)/bin/python -m gradwire.gpus.stand_ins

clean:
	rm -rf $(VENV) runs dist build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
