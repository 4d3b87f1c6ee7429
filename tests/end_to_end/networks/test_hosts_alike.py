"""Hosts that rtnetlink configured, as ip and tc see them: addresses, and queues that are copies of what tc made at the first host."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from gradwire import PACKAGE
from gradwire.vm.batch_job import run_virtual
from gradwire.vm.machine import Boot

pytestmark = pytest.mark.kernel

SCRIPT = """
import json, subprocess
from gradwire.topo.abilities import probe_kernel
from gradwire.network.fabric import Fabric, Port
from gradwire.topo.network import Network

def said(host, *command):
    return host.popen(list(command)).communicate()[0].decode()

def here(host, *command):
    text = said(host, *command)
    try:
        return json.loads(text)
    except ValueError:
        raise SystemExit(f"{command} said {text!r}")

for impaired in ((), (Port("h2", 0),)):
    fabric = Fabric(3, 100e9, classes=2, aggregators=True)
    with Network(fabric, probe_kernel(), controller_port=6653, owns_kernel=True, impaired=impaired) as network:
        for host in network.net.hosts:
            print(json.dumps({
                "name": host.name,
                "impaired": bool(impaired),
                "qdiscs": here(host, "tc", "-j", "qdisc", "show", "dev", f"{host.name}-eth0"),
                "classes": [{"class": line} for line in said(host, "tc", "-d", "class", "show", "dev", f"{host.name}-eth0").splitlines()],
                "address": here(host, "ip", "-j", "address", "show", f"{host.name}-eth0"),
                "routes": here(host, "ip", "-j", "-d", "route"),
                "route": said(host, "ip", "route"),
                "neighbours": here(host, "ip", "-j", "neigh"),
            }))
        first = network.net["h1"]
        first.cmd("ping -c 3 10.0.0.99")  # nobody answers, and no switch has rules: it counts at the host's port
        bands = [[band.bytes_sent, band.packets_sent] for band in network.counters()[0].bands]
        print(json.dumps({"name": "counters", "impaired": bool(impaired), "netlink": bands, "tc": [
            [entry["bytes"], entry["packets"]]
            for entry in sorted(
                here(first, "tc", "-s", "-j", "qdisc", "show", "dev", "h1-eth0"), key=lambda each: each.get("parent", "")
            )
            if entry.get("parent", "").startswith("1:")
        ]}))
"""


@pytest.fixture(scope="module")
def shown(virtual_kernel: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What ip and tc show of each host, without and with a host whose port is impaired."""
    lines: list[str] = []
    status = run_virtual(
        Boot(
            [sys.executable, "-c", SCRIPT],
            env={"PYTHONPATH": str(PACKAGE.parent)},
            cpu=max(os.sched_getaffinity(0)),
            memory_mb=768,
            workdir=tmp_path_factory.mktemp("hosts"),
            kernel=virtual_kernel,
        ),
        time_limit_s=120,
        on_line=lines.append,
    )
    assert status == 0, lines
    return [json.loads(line) for line in lines]


def of(shown: list[dict[str, Any]], name: str, *, impaired: bool = False) -> dict[str, Any]:
    (found,) = (each for each in shown if (each["name"], each["impaired"]) == (name, impaired))
    return found


def neutral(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the name of the interface, and without handles that the kernel chose."""
    kept = json.loads(json.dumps(entries))
    for entry in kept:
        entry.pop("dev", None)
        if "class" in entry:  # in words; tc has no JSON for all of it
            entry["class"] = re.sub(r" leaf [89a-f]\w{3}:", "", entry["class"])
        for key in ("handle", "leaf"):
            if int(str(entry.get(key, "0:")).partition(":")[0] or "0", 16) >= 0x8000:
                del entry[key]
    return sorted(kept, key=lambda entry: (entry.get("parent", ""), entry.get("kind", ""), str(entry.get("class"))))


@pytest.mark.parametrize("what", ["qdiscs", "classes"])
def test_a_copied_port_is_as_tc_makes_it(shown: list[dict[str, Any]], what: str) -> None:
    made_by_tc = neutral(of(shown, "h1")[what])
    assert len(made_by_tc) > 1
    for name in ("h2", "h3"):
        assert neutral(of(shown, name)[what]) == made_by_tc, name


def test_a_port_of_other_commands_is_no_copy(shown: list[dict[str, Any]]) -> None:
    """An aggregator's port has no shaper, and an impaired one has netem."""
    kinds = {
        name: {entry["kind"] for entry in of(shown, name, impaired=True)["qdiscs"]} for name in ("h1", "h2", "h3", "a1")
    }
    assert kinds == {
        "h1": {"htb", "prio", "fq"},
        "h2": {"htb", "prio", "netem", "fq"},
        "h3": kinds["h1"],
        "a1": {"prio", "fq"},
    }


def test_a_host_has_its_address_and_a_patient_route(shown: list[dict[str, Any]]) -> None:
    host = of(shown, "h2")
    (interface,) = host["address"]
    assert (interface["operstate"], interface["address"]) == ("UP", "02:00:00:00:00:02")
    (address,) = interface["addr_info"]
    assert (address["local"], address["prefixlen"], address["scope"]) == ("10.0.0.2", 16, "global")
    (route,) = host["routes"]
    assert (route["dst"], route["prefsrc"], route["protocol"], route["scope"]) == (
        "10.0.0.0/16",
        "10.0.0.2",
        "kernel",
        "link",
    )
    assert route["metrics"] == [{"rto_min": 20000}]
    assert "rto_min lock 20s" in host["route"]  # in words; ip's JSON leaves the lock out


def test_a_host_knows_every_other_for_good_and_not_itself(shown: list[dict[str, Any]]) -> None:
    known = {each["dst"]: (each["lladdr"], each["state"]) for each in of(shown, "h2")["neighbours"]}
    others = (1, 3, 4)
    assert known == {f"10.0.0.{n}": (f"02:00:00:00:00:{n:02x}", ["PERMANENT"]) for n in others}


@pytest.mark.parametrize("impaired", [False, True])
def test_counters_are_those_of_tc(shown: list[dict[str, Any]], impaired: bool) -> None:
    counters = of(shown, "counters", impaired=impaired)
    assert counters["netlink"] == counters["tc"]
    assert sum(packets for _, packets in counters["tc"]) > 0
