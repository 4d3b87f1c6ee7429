"""What is changed in a script's Mininet: asked of a copy of the real one, in a Python that has nothing else of gradwire's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gradwire.inside.stock_mininet.changes import LEAST_QUEUE, duration_s, queue_frames, shape
from gradwire.inside.stock_mininet.tools import copy_changed
from gradwire.programs.interpreter import own_interpreter


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("modules")
    copy_changed(own_interpreter().mininet, folder)
    return folder


def asked(copied: Path, expression: str) -> Any:
    """What the changed Mininet says."""
    code = f"import json, mininet.link, mininet.node, mininet.nodelib, mininet.net; print(json.dumps({expression}))"
    environment = {"PYTHONPATH": str(copied), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("bw", [10_000, 100_000])
def test_links_are_as_fast_as_they_are_asked_to_be(copied: Path, bw: int) -> None:
    commands, parent = asked(copied, f"mininet.link.TCIntf.bwCmds(mininet.link.TCIntf, bw={bw})")
    assert parent == " parent 5:1 "
    assert f"rate {bw}.000000Mbit {shape(bw)}" in commands[-1]


def test_slower_links_have_mininets_own_commands(copied: Path) -> None:
    commands, _ = asked(copied, "mininet.link.TCIntf.bwCmds(mininet.link.TCIntf, bw=1000)")
    assert commands[-1].endswith("rate 1000.000000Mbit burst 15k")


def test_no_link_is_faster_than_the_clock_was_measured_for(copied: Path) -> None:
    commands, _ = asked(copied, "mininet.link.TCIntf.bwCmds(mininet.link.TCIntf, bw=100001)")
    assert commands == []


def test_a_module_of_the_copy_keeps_the_text_of_its_original(copied: Path) -> None:
    original = (own_interpreter().mininet / "node.py").read_text()
    assert (copied / "mininet" / "node.py").read_text().startswith(original)


def test_hosts_with_limits_of_cpu_need_no_cgroup(copied: Path) -> None:
    assert asked(copied, "mininet.node.CPULimitedHost.init() or mininet.node.CPULimitedHost.inited") is True


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5ms", 0.005), ("10us", 1e-5), ("1s", 1.0), ("250", 0.00025), ("soon", 0.0), ("1.2.3ms", 0.0)],
)
def test_delays_are_read_as_tc_reads_them(text: str, seconds: float) -> None:
    assert duration_s(text) == pytest.approx(seconds)


def test_a_queue_holds_what_is_under_way() -> None:
    assert queue_frames(100_000, 0.0) == LEAST_QUEUE
    assert queue_frames(100_000, 0.01) == pytest.approx(LEAST_QUEUE + 125e6 / 1514, abs=1)


def test_nat_leaves_the_machines_interfaces_alone(copied: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("text")
    assert asked(copied, "mininet.nodelib.open('/etc/network/interfaces').read()") == ""
    assert asked(copied, f"mininet.nodelib.open({str(tmp_path / 'other')!r}).read()") == "text"


def test_open_vswitch_takes_the_place_of_a_reference_switch_that_is_missing(copied: Path) -> None:
    assert asked(copied, "[base.__name__ for base in mininet.node.UserSwitch.__mro__[:2]]") == [
        "UserSwitch",
        "OVSSwitch",
    ]
