"""Finds out what the running kernel and its tools can do, by trying it."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gradwire.documents import DocumentTable, table_at
from gradwire.faults import MachineFault
from gradwire.network_namespace import fresh_network_namespace
from gradwire.topo.command import attempt
from gradwire.topo.tc import batch_text

LOG = logging.getLogger(__name__)

NETLINK_GENERIC = 16
GENL_ID_CTRL = 16
CTRL_CMD_GETFAMILY = 3
CTRL_ATTR_FAMILY_NAME = 2
NLM_F_REQUEST = 1
NLMSG_ERROR = 2
LINE_COUNTERS = Path("/proc/lines")
"""Where the kernel tells what lines carry (topo/line_counters.py)."""
BASE_RTT = Path("/proc/sys/net/ipv4/tcp_base_rtt_us")
"""Where hosts find how long a round trip of their empty network takes (vm/patches/6.12/delays.patch)."""
NETEM_WITH_SEED = ["handle", "2:", "netem", "loss", "1%", "seed", "1"]


@dataclass(frozen=True)
class Abilities:
    """Features of the kernel and of tc that decide how a network is built."""

    #: The kernel has the strict-priority qdisc sch_prio; without it, HTB class priorities stand in.
    has_prio: bool
    #: The kernel has the fair queue sch_fq; without it, the flows of a band share one FIFO.
    has_fq: bool
    #: The kernel has Open vSwitch's datapath; without it, packets go through the userspace datapath.
    has_openvswitch: bool
    #: tc and the kernel both know netem's `seed`, with which losses repeat.
    has_netem_seed: bool
    #: The kernel counts what lines carry, and HTB charges each frame of a burst what it occupies on the line
    #: (vm/patches/6.12/lines.patch).
    counts_lines: bool = False
    #: Congestion controls that look at delays can be told the network's round trip (vm/patches/6.12/delays.patch).
    has_base_rtt: bool = False


def probe_kernel() -> Abilities:
    """Tries each qdisc on the loopback interface of a temporary network namespace, and logs the result.

    Raises MachineFault without root, without tc, or if a trial fails in an unknown way.
    """
    with fresh_network_namespace():
        (has_prio, has_fq, _), last = _trials([["handle", "1:", "prio"], ["handle", "3:", "fq"], NETEM_WITH_SEED])
    # Kernels before 6.6 accept netem's seed silently and ignore it.
    has_seed = any("seed" in table_at(qdisc, "options") for qdisc in last)
    has_openvswitch = _has_generic_netlink_family("ovs_datapath")
    abilities = Abilities(has_prio, has_fq, has_openvswitch, has_seed, LINE_COUNTERS.exists(), BASE_RTT.exists())
    LOG.info("kernel abilities: %s", asdict(abilities))
    return abilities


def require_red() -> None:
    """Makes sure that queues can mark packets. Raises MachineFault with what to do if they cannot."""
    trial = ["red", "limit", "100000", "min", "30000", "max", "30000", "avpkt", "1500", "burst", "20", "ecn", "nodrop"]
    with fresh_network_namespace():
        (accepted,), _ = _trials([["handle", "2:", *trial]])
        if not accepted:
            raise MachineFault(
                "fabric.ecn: this kernel, or its tc, has no sch_red that marks (Linux 5.7 and iproute2 5.7 have): "
                "load it with `modprobe sch_red`, or use the virtual clock"
            )


def _trials(qdiscs: Sequence[Sequence[str]]) -> tuple[list[bool], list[DocumentTable]]:
    """Tries qdiscs one after the other in the same place. Returns whether tc and the kernel accept each, and the qdiscs
    that are there after the last trial.

    In one process, because each takes tens of milliseconds in the virtual-time kernel. Raises MachineFault.
    """
    commands = [
        *(["qdisc", "replace", "dev", "lo", "root", *qdisc] for qdisc in qdiscs),
        ["qdisc", "show", "dev", "lo"],
    ]
    result = attempt(["tc", "-j", "-force", "-batch", "-"], batch_text(commands))
    refused = refusals(result.stderr)
    if result.returncode and not refused:
        raise MachineFault(f"tc failed in an unknown way: {result.stderr.strip()}")
    for number, words in refused.items():
        # The kernel's message for a missing qdisc, and tc's for an unknown option.
        if "kind is unknown" not in words and "What is" not in words:
            raise MachineFault(f"`tc {' '.join(commands[number - 1])}` failed in an unknown way: {words}")
    return [number not in refused for number in range(1, len(commands))], json.loads(result.stdout)


def refusals(stderr: str) -> dict[int, str]:
    """Parses what `tc -force -batch` writes to stderr: the error message of each line that failed, by its number. tc
    writes "Command failed -:3" after the message of line 3. Pure."""
    *parts, _ = re.split(r"^Command failed -:(\d+)$", stderr, flags=re.MULTILINE)
    return {int(number): words.strip() for words, number in zip(parts[::2], parts[1::2], strict=True)}


def _has_generic_netlink_family(name: str) -> bool:
    """Asks the kernel for a family, which also loads the module that provides it."""
    word = name.encode() + b"\0"
    padding = bytes(-len(word) % 4)
    attribute = struct.pack("=HH", 4 + len(word), CTRL_ATTR_FAMILY_NAME) + word + padding
    body = struct.pack("=BBH", CTRL_CMD_GETFAMILY, 1, 0) + attribute
    header = struct.pack("=IHHII", 16 + len(body), GENL_ID_CTRL, NLM_F_REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC) as kernel:
        kernel.bind((0, 0))
        kernel.send(header + body)
        answer = kernel.recv(65536)
    (kind,) = struct.unpack_from("=H", answer, 4)
    if kind != NLMSG_ERROR:
        return True
    (code,) = struct.unpack_from("=i", answer, 16)
    if code == -2:  # ENOENT
        return False
    raise MachineFault(f"asking the kernel for {name} failed: {os.strerror(-code)}")
