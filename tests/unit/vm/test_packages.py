"""Packages by distribution."""

import pytest

from gradwire.vm.doctor import PROGRAMS, RDMA_PROGRAMS, TEST_PROGRAMS, WALL_PROGRAMS
from gradwire.vm.kernel_source import TOOLS
from gradwire.vm.packages import PACKAGES, family_of, install_command, source_remedy


@pytest.mark.parametrize(
    ("release", "family"),
    [
        ({"ID": "debian"}, "debian"),
        ({"ID": "ubuntu", "ID_LIKE": "debian"}, "debian"),
        ({"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}, "debian"),
        ({"ID": "fedora"}, "fedora"),
        ({"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, "fedora"),
        ({"ID": "arch"}, "arch"),
        ({"ID": "manjaro", "ID_LIKE": "arch"}, "arch"),
        ({"ID": "alpine"}, ""),
        ({}, ""),
    ],
)
def test_distributions_belong_to_families(release: dict[str, str], family: str) -> None:
    assert family_of(release) == family


@pytest.mark.parametrize(
    ("family", "command"),
    [
        ("debian", "apt-get install --no-install-recommends openvswitch-switch iproute2 ethtool util-linux"),
        ("fedora", "dnf install openvswitch iproute-tc iproute ethtool util-linux"),
        ("arch", "pacman -S --needed openvswitch iproute2 ethtool util-linux"),
        ("", "install openvswitch iproute2 ethtool util-linux (the names differ between distributions)"),
    ],
)
def test_each_family_has_its_command_and_its_names(family: str, command: str) -> None:
    programs = ("openvswitch", "tc", "ip", "ethtool", "setpriv", "taskset")
    assert install_command(*programs, of=family) == command


def test_every_program_that_may_be_missing_has_a_package() -> None:
    assert {*PROGRAMS, *RDMA_PROGRAMS, *TEST_PROGRAMS, *WALL_PROGRAMS, *TOOLS, "openvswitch"} == set(PACKAGES)


def test_the_kernels_source_is_a_package_on_debian_alone() -> None:
    assert source_remedy("NAME", of="debian").endswith("install --no-install-recommends linux-source-6.12")
    assert "set NAME to" in source_remedy("NAME", of="fedora")
