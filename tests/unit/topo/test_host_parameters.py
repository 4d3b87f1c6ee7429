"""Parameters of hosts' kernels: written, read back, and refused with host and key. A folder stands for /proc/sys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gradwire.datatypes.host_settings import AskedParameter, HostParameter
from gradwire.faults import InputFault
from gradwire.topo.host_parameters import set_parameters
from tests.shared.parts import in_order

KEY, FILE = "net.ipv4.tcp_ecn", "net/ipv4/tcp_ecn"


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    (tmp_path / "net/ipv4").mkdir(parents=True)
    (tmp_path / FILE).write_text("2\n")
    return tmp_path


def test_what_is_asked_is_written_and_what_was_there_is_kept(settings: Path) -> None:
    found = set_parameters("h1", {KEY: AskedParameter("1", "h*")}, {FILE}, settings)
    assert found == [HostParameter("h1", KEY, "2", is_own=True)]
    assert (settings / FILE).read_text() == "1"
    assert not set_parameters("h1", {KEY: AskedParameter("1", "h*")}, set(), settings)[0].is_own


def test_a_parameter_that_does_not_exist_is_told_with_host_and_key(settings: Path) -> None:
    with pytest.raises(InputFault, match=in_order("fabric.host.'h*'.sysctl.'net.ipv4.x':", "h3 has no")):
        set_parameters("h3", {"net.ipv4.x": AskedParameter("1", "h*")}, set(), settings)


def test_a_value_that_is_not_kept_is_told_with_what_it_becomes(settings: Path) -> None:
    (settings / FILE).unlink()
    (settings / FILE).symlink_to(os.devnull)  # takes everything and has nothing
    with pytest.raises(InputFault, match=in_order("= '7':", "h3", "''")):
        set_parameters("h3", {KEY: AskedParameter("7", "h*")}, set(), settings)


def test_a_folder_is_not_a_parameter(settings: Path) -> None:
    with pytest.raises(InputFault, match=in_order("h3", "Is a directory")):
        set_parameters("h3", {"net.ipv4": AskedParameter("1", "h3")}, set(), settings)
