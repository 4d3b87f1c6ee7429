"""What the running kernel and its tools can do, found out by trying."""

from __future__ import annotations

import json
import logging
import os
import socket
import struct
from dataclasses import asdict, dataclass

from gradwire.faults import MachineFault
from gradwire.network_namespace import fresh_network_namespace
from gradwire.topo.command import attempt, run

LOG = logging.getLogger(__name__)

NETLINK_GENERIC = 16
GENL_ID_CTRL = 16
CTRL_CMD_GETFAMILY = 3
CTRL_ATTR_FAMILY_NAME = 2
NLM_F_REQUEST = 1
NLMSG_ERROR = 2


@dataclass(frozen=True)
class Abilities:
    """What the network can be built from."""

    #: The kernel has the strict-priority qdisc sch_prio; without it, HTB class priorities stand in.
    has_prio: bool
    #: The kernel has the fair queue sch_fq; without it, the flows of a band share one FIFO.
    has_fq: bool
    #: The kernel has Open vSwitch's datapath; without it, packets go through the userspace datapath.
    has_openvswitch: bool
    #: tc and the kernel both know netem's `seed`, with which losses repeat.
    has_netem_seed: bool


def probe_kernel() -> Abilities:
    """Tries each qdisc on the loopback interface of a temporary network namespace, and logs the result.

    Raises MachineFault without root, without tc, or if a trial fails in an unknown way.
    """
    with fresh_network_namespace():
        has_prio = _accepts(["handle", "1:", "prio"])
        has_fq = _accepts(["handle", "3:", "fq"])
        has_netem_seed = _accepts(["handle", "2:", "netem", "loss", "1%", "seed", "1"]) and _shows_seed()
    abilities = Abilities(has_prio, has_fq, _has_generic_netlink_family("ovs_datapath"), has_netem_seed)
    LOG.info("kernel abilities: %s", asdict(abilities))
    return abilities


def require_red() -> None:
    """Makes sure that queues can mark packets. Raises MachineFault with what to do if they cannot."""
    trial = ["red", "limit", "100000", "min", "30000", "max", "30000", "avpkt", "1500", "burst", "20", "ecn", "nodrop"]
    with fresh_network_namespace():
        if not _accepts(["handle", "2:", *trial]):
            raise MachineFault(
                "fabric.ecn: this kernel, or its tc, has no sch_red that marks (Linux 5.7 and iproute2 5.7 have): load it with "
                "`modprobe sch_red`, or use the virtual clock"
            )


def _accepts(qdisc: list[str]) -> bool:
    command = ["tc", "qdisc", "replace", "dev", "lo", "root", *qdisc]
    result = attempt(command)
    if result.returncode == 0:
        return True
    # The kernel's message for a missing qdisc, and tc's for an unknown option.
    if "kind is unknown" in result.stderr or "What is" in result.stderr:
        return False
    raise MachineFault(f"`{' '.join(command)}` failed in an unknown way: {result.stderr.strip()}")


def _shows_seed() -> bool:
    """Whether netem has kept its seed: kernels before 6.6 accept the option silently and ignore it."""
    qdiscs = json.loads(run(["tc", "-j", "qdisc", "show", "dev", "lo"]))
    return any("seed" in qdisc.get("options", {}) for qdisc in qdiscs)


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
