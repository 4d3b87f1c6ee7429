"""Queues of ports by rtnetlink (linux/pkt_sched.h, linux/gen_stats.h): reads their counters, and copies a port's queues
to another port."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from gradwire.netlink_messages import (
    NLM_F_CREATE,
    NLM_F_EXCL,
    Kernel,
    NetlinkRequest,
    attribute,
    attributes,
    request,
)

RTM_NEWQDISC, RTM_DELQDISC, RTM_GETQDISC = 36, 37, 38
RTM_NEWTCLASS, RTM_DELTCLASS, RTM_GETTCLASS = 40, 41, 42
TCA_KIND, TCA_OPTIONS, TCA_STATS2 = 1, 2, 7
TCA_STATS_BASIC, TCA_STATS_QUEUE, TCA_STATS_APP, TCA_STATS_PKT64 = 1, 3, 4, 8
TCA_HTB_INIT = 2
TC_H_ROOT, TC_H_CLSACT = 0xFFFFFFFF, 0xFFFFFFF1
FIRST_FREE_HANDLE = 0x8000 << 16
"""First handle of the range from which the kernel chooses for qdiscs that were given none."""
TC_MESSAGE = struct.Struct("=BxxxiIII")
BASIC = struct.Struct("=QI")
QUEUE = struct.Struct("=IIIII")
"""struct gnet_stats_queue: qlen, backlog, drops, requeues, overlimits."""
FIFO_LIMIT = struct.Struct("=I")
"""The beginning of struct tc_fifo_qopt."""
TCA_RED_PARMS = 1
RED_BOUNDS = struct.Struct("=III")
"""The beginning of struct tc_red_qopt: limit, qth_min, qth_max."""
RED = b"red\0"
"""TCA_KIND of queues that mark."""
RED_MARKED = 12
"""Offset of `marked` in struct tc_red_xstats."""
COPIED = frozenset({"htb", "prio", "fq", "pfifo"})
"""Qdiscs that the kernel describes in the form, or nearly, in which it wants to be asked for them."""


class QdiscEntry(NamedTuple):
    """A qdisc or a class of a port, as the kernel describes it."""

    kind: str
    handle: int
    parent: int
    options: bytes
    stats: bytes


def parts(kernel: Kernel, index: int, *, classes: bool = False) -> list[QdiscEntry]:
    """The qdiscs, or the classes, of the interface of this index."""
    return [part for at, part in _dumped(kernel, index, RTM_GETTCLASS if classes else RTM_GETQDISC) if at == index]


def _dumped(kernel: Kernel, index: int, question: int) -> list[tuple[int, QdiscEntry]]:
    told = []
    for message in kernel.dump(question, TC_MESSAGE.pack(0, index, 0, 0, 0)):
        _, at, handle, parent, _ = TC_MESSAGE.unpack_from(message)
        found = attributes(message[TC_MESSAGE.size :])
        kind = found[TCA_KIND].rstrip(b"\0").decode()
        told.append((at, QdiscEntry(kind, handle, parent, found.get(TCA_OPTIONS, b""), found.get(TCA_STATS2, b""))))
    return told


def can_be_copied(qdiscs: Sequence[QdiscEntry]) -> bool:
    """Returns whether all qdiscs are of kinds that the kernel accepts in the form in which it describes them."""
    return {part.kind for part in qdiscs} <= COPIED


def copying(qdiscs: Sequence[QdiscEntry], classes: Iterable[QdiscEntry], index: int, name: str) -> list[NetlinkRequest]:
    """Requests that make the same qdiscs and classes at another interface, which has none yet. Parents come before
    their children.

    Raises ValueError for qdiscs that cannot be copied.
    """
    if not can_be_copied(qdiscs):
        raise ValueError(f"cannot copy {', '.join(part.kind for part in qdiscs)}")
    waiting, made = [*qdiscs], {TC_H_ROOT >> 16}
    of_htb = [part for part in classes if part.kind == "htb"]
    requests: list[NetlinkRequest] = []
    while waiting:
        ready = [part for part in waiting if part.parent >> 16 in made]
        if not ready:
            raise ValueError(f"below no qdisc of the port: {', '.join(part.kind for part in waiting)}")
        for part in ready:
            requests.append(_make("qdisc", part, index, name))
            if part.handle < FIRST_FREE_HANDLE:
                made.add(part.handle >> 16)
                requests += [
                    _make("class", below, index, name) for below in of_htb if below.handle >> 16 == part.handle >> 16
                ]
        waiting = [part for part in waiting if part not in ready]
    return requests


def _make(what: str, part: QdiscEntry, index: int, name: str) -> NetlinkRequest:
    handle = part.handle if part.handle < FIRST_FREE_HANDLE else 0
    body = TC_MESSAGE.pack(0, index, handle, part.parent, 0)
    options = _as_asked(part) if what == "qdisc" else part.options
    body += attribute(TCA_KIND, part.kind.encode() + b"\0") + attribute(TCA_OPTIONS, options)
    below = "root" if part.parent == TC_H_ROOT else f"parent {part.parent >> 16:x}:{part.parent & 0xFFFF:x}"
    itself = f" classid {part.handle >> 16:x}:{part.handle & 0xFFFF:x}" if what == "class" else ""
    words = f"tc {what} add dev {name} {below}{itself} {part.kind}"
    return request(words, RTM_NEWQDISC if what == "qdisc" else RTM_NEWTCLASS, NLM_F_CREATE | NLM_F_EXCL, body)


def _as_asked(qdisc: QdiscEntry) -> bytes:
    """The options with which to ask for a qdisc. HTB tells its version in full and wants to be asked for the major one
    (HTB_VER)."""
    if qdisc.kind != "htb":
        return qdisc.options
    told = attributes(qdisc.options)
    (version,) = struct.unpack_from("=I", told[TCA_HTB_INIT])
    told[TCA_HTB_INIT] = struct.pack("=I", version >> 16) + told[TCA_HTB_INIT][4:]
    return b"".join(attribute(kind, payload) for kind, payload in told.items())


def shown(kernel: Kernel, names: dict[int, str]) -> list[dict[str, Any]]:
    """Counters of the qdiscs of interfaces, in the format of `tc -s -j qdisc show`. names: of interfaces, by
    index."""
    return [entry(part, names[at]) for at, part in _dumped(kernel, 0, RTM_GETQDISC) if at in names]


def entry(part: QdiscEntry, name: str) -> dict[str, Any]:
    """Counters of one qdisc, as an entry of `tc -s -j qdisc show`."""
    stats = attributes(part.stats)
    size_bytes, packets = BASIC.unpack_from(stats[TCA_STATS_BASIC])
    if TCA_STATS_PKT64 in stats:
        (packets,) = struct.unpack_from("=Q", stats[TCA_STATS_PKT64])
    queued, backlog, drops, requeues, overlimits = QUEUE.unpack_from(stats[TCA_STATS_QUEUE])
    counted = {"bytes": size_bytes, "packets": packets, "drops": drops, "overlimits": overlimits, "requeues": requeues}
    bounds = _bounds(part)
    if part.kind == "red":
        (counted["marked"],) = struct.unpack_from("=I", stats[TCA_STATS_APP], RED_MARKED)
    place = (
        {"root": True} if part.parent == TC_H_ROOT else {"parent": f"{part.parent >> 16:x}:{part.parent & 0xFFFF:x}"}
    )
    named = {"kind": part.kind, "dev": name, **place, **({"options": bounds} if bounds else {})}
    return {**named, **counted, "backlog": backlog, "qlen": queued}


def _bounds(part: QdiscEntry) -> dict[str, int]:
    """Limit of a queue that drops or marks, and the lengths from which it marks (topo/tc.py); empty for other
    qdiscs."""
    if part.kind == "bfifo":
        return {"limit": FIFO_LIMIT.unpack_from(part.options)[0]}
    if part.kind == "red":
        told = RED_BOUNDS.unpack_from(attributes(part.options)[TCA_RED_PARMS])
        return dict(zip(("limit", "min", "max"), told, strict=True))
    return {}
