"""The small programs that Mininet calls, as they answer on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from gradwire.inside.stock_mininet.tools import programs


@pytest.fixture
def tools(tmp_path: Path) -> Mapping[str, Path]:
    for name, text in programs("/opt/a python", "/opt/code").items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return {name: tmp_path / name for name in ("mnexec", "telnet", "vconfig", "controller")}


def said(*words: str | Path) -> tuple[int, str]:
    done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout + done.stderr


def test_mnexec_says_the_process_that_the_command_becomes(tools: Mapping[str, Path]) -> None:
    status, text = said(tools["mnexec"], "-cdp", "sh", "-c", "echo $$ $0", "last word")
    first, second = text.splitlines()
    assert status == 0
    assert second == f"{int(first.removeprefix(chr(1)))} sh" or second.endswith(" last word")
    assert second.split()[0] == first.removeprefix("\x01")


def test_mnexec_hands_on_a_status_and_closes_files(tools: Mapping[str, Path]) -> None:
    with Path("/dev/null").open() as file:
        words = [str(tools["mnexec"]), "-c", "sh", "-c", f"test ! -e /proc/self/fd/{file.fileno()} && exit 7"]
        assert subprocess.run(words, check=False, pass_fds=[file.fileno()]).returncode == 7


def test_mnexec_refuses_what_it_does_not_know(tools: Mapping[str, Path]) -> None:
    status, text = said(tools["mnexec"], "-z", "true")
    assert status == 1
    assert "usage: mnexec" in text


def test_telnet_says_whether_something_listens(tools: Mapping[str, Path]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        assert "Connected to 127.0.0.1." in said(tools["telnet"], "-e", "A", "127.0.0.1", port)[1]
    status, text = said(tools["telnet"], "-e", "A", "127.0.0.1", port)
    assert (status, "Connection refused" in text) == (1, True)


def test_the_controller_is_started_with_its_port_and_paths_as_they_are(tools: Mapping[str, Path]) -> None:
    text = tools["controller"].read_text()
    assert "'/opt/a python' -m gradwire.controller.learning_switch" in text
    assert said("bash", "-n", tools["controller"]) == (0, "")


def stood_in(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of this name that says its arguments."""
    (folder / name).write_text('#!/bin/sh\necho "$@"\n')
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_the_controller_has_the_port_of_the_reference_one(
    tools: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stood_in(tmp_path, "ovs-testcontroller", monkeypatch)
    said_of = {words: said(tools["controller"], "-v", words)[1] for words in ("ptcp:", "ptcp:6655")}
    assert said_of["ptcp:"] == "-O OpenFlow10,OpenFlow13 -v ptcp:6633\n"
    assert said_of["ptcp:6655"] == "-O OpenFlow10,OpenFlow13 -v ptcp:6655\n"


def test_vconfig_makes_and_removes_interfaces(
    tools: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stood_in(tmp_path, "ip", monkeypatch)
    added = said(tools["vconfig"], "add", "h1-eth0", "100")[1]
    assert added == "link add link h1-eth0 name h1-eth0.100 type vlan id 100\n"
    assert said(tools["vconfig"], "rem", "h1-eth0.100")[1] == "link delete h1-eth0.100\n"
    assert said(tools["vconfig"], "set_flag")[0] == 1
