"""Traffic control of a port as argument lists: a line rate over strict-priority bands over deep, fair queues. Pure.

Every port is shaped by HTB to its line's rate (`Shaper`). Below the shaper, band 0 (control and pure ACKs) is always
served first, then band 1, and so on. The queues are so deep that the traffic sees a lossless fabric (PFC), unless the
fabric has finite buffers or marks: then switches' ports have queues that drop what does not fit, and mark what waits
behind too much.

Each packet carries the tc class of its band, 1:(band + 1), as its priority: a host's socket sets it by SO_PRIORITY, a
switch by OpenFlow's set_queue. The userspace datapath of Open vSwitch ignores set_queue, so there u32 filters derive
the band from the DSCP. A kernel with sch_prio keeps the bands in a `prio` qdisc with handle 1:, one without keeps them
in HTB classes below handle 1:.

Bursts that leave a host's port get their ways in turn (network/sprayed_ways.py): a filter in front of the port's
queues looks at some bits of the IP identification and writes the source's MAC address, which changes no checksum. It
sees a burst as a whole, before segmentation, so all its frames take one way.

Where buffers are finite, every band of a switch's port has its own queue, and so its own buffer, first come, first
served: a switch whose memory is divided among its ports and traffic classes by fixed limits. Hosts keep their deep
queues, for there what waits is in the memory of the sender, and TCP holds it back.

Marks are those of DCTCP (Alizadeh et al., SIGCOMM 2010, section 3.2): a packet that arrives at a queue longer than K is
marked, and no other. The paper makes them as here, by RED whose two thresholds are K and whose average is the queue as
it is (section 3.1).

Packets of programs, which do not know of traffic classes, are marked at their host's port. The kernel gives packets of
a program's sockets the priority of its cgroup (net_prio), which leads them to the band of their class at the host's own
port. Before they get there, a filter writes the band's DSCP into them, by which switches know it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from gradwire.faults import InputFault, MachineFault
from gradwire.network.fabric import (
    BANDS_MAJOR,
    MAX_BANDS,
    NO_LIMIT_BYTES,
    Fabric,
    dscp_of_band,
    socket_priority,
)
from gradwire.network.flowlets import mark_of_way
from gradwire.network.frame_sizes import LEAST_FRAME_BYTES, PREAMBLE_FCS_GAP_BYTES
from gradwire.network.sprayed_ways import chunk_bits, turns_of, way_mac, way_of_turn, ways_of

PRIO_HANDLE = f"{BANDS_MAJOR}:"
SHAPER_HANDLE = "5:"
NETEM_MAJOR = 0x100
"""Major number of the qdiscs that lose and delay what band 0 has, and the first of those of the further bands."""
HTB_LINE_CLASS = f"{PRIO_HANDLE}ff"
"""Parent of the bands' classes where HTB keeps the bands; its number is above that of any band."""
HTB_PRIORITIES = 8
"""TC_HTB_NUMPRIO: the number of priorities in HTB."""
NO_FAST_PATH = "34gbit"
"""About the highest rate of a flow that sch_fq has a number for."""
IMPAIRED_PACKETS = 10_000_000
"""Length of the queues of a port that may delay packets. Those under way are in them too, and no longer count as their
socket's, so TCP hands over all that its window holds: of 300 MB in single frames, 3,328 did not fit into 100,000
places, and windows shrank."""
TRICKLE_BPS = 8000
TRICKLE_BURST_BYTES = 1600
QUANTUM_BYTES = 65536
UNLIMITED_BPS = 10**12
"""Stands for "no limit" where HTB keeps the bands and needs a number; links on the wall clock are slower by orders of
magnitude."""
FRAME_CHARGE = ("overhead", str(PREAMBLE_FCS_GAP_BYTES), "mpu", str(LEAST_FRAME_BYTES))
"""tc's words for what each frame is charged besides its own bytes, and at least."""
IDENTIFICATION_AT = 4
"""Offset of the identification in the IPv4 header, in bytes."""
MOST_AVERAGED = 1000
"""Largest number of packets that a threshold is divided into. A multiple of their size is then still as close to the
threshold as tc requires."""
MOST_RED_BPS = 34 * 10**9
"""The highest rate at which tc lets RED's queues empty (it counts bytes per second in 32 bits). RED only uses it to
forget its average while a queue is empty, which takes no time here: half of the weight is the newest arrival's."""
PROTOCOLS = {"ip": "ip", "ip6": "ipv6"}
"""Names of IPv4 and IPv6 in filters, by tc's words for their headers."""
KINDS = tuple(PROTOCOLS)


@dataclass(frozen=True)
class Shaper:
    """How a kernel's HTB keeps a port to its line's rate."""

    #: Whether the clock is virtual; see Fabric.burst_bytes.
    exact_timers: bool
    #: Whether HTB charges each frame of a burst what it occupies on the line, with preamble, FCS and gap, and at least
    #: the 84 bytes of the smallest frame of Ethernet (vm/patches/6.12/lines.patch). Any other kernel adds `overhead`
    #: once for each burst: there the rate is that at which full frames leave at line rate, and smaller ones leave
    #: faster.
    charges_frames: bool

    def rate_words(self, fabric: Fabric, rate_bps: float) -> list[str]:
        """Returns tc's words for the rate of a line. An infinite rate is not limited."""
        if math.isinf(rate_bps):
            return ["rate", f"{UNLIMITED_BPS}bit"]
        if not self.charges_frames:
            return ["rate", f"{round(fabric.shaped_rate_bps(rate_bps))}bit"]
        return ["rate", f"{round(rate_bps)}bit", *FRAME_CHARGE]

    def line(self, fabric: Fabric, rate_bps: float) -> list[str]:
        """Returns the arguments of `class add` and `class change` for the shaper of a port at this line rate, where
        sch_prio has the bands."""
        burst = str(fabric.burst_bytes(rate_bps, exact_timers=self.exact_timers))
        limits = [*self.rate_words(fabric, rate_bps), "burst", burst, "cburst", burst, "quantum", str(QUANTUM_BYTES)]
        return ["parent", SHAPER_HANDLE, "classid", f"{SHAPER_HANDLE}1", "htb", *limits]


class Classify(StrEnum):
    """The field of a packet by which its band is chosen."""

    SKB_PRIORITY = "skb-priority"
    DSCP = "dscp"


def class_of_band(band: int) -> str:
    """The tc class of a band, below which its queue is: "1:1" for band 0. Both layouts of this module have it."""
    return f"{PRIO_HANDLE}{band + 1:x}"


def port_commands(
    interface: str,
    rate_bps: float,
    fabric: Fabric,
    *,
    has_prio: bool,
    classify: Classify,
    has_fq: bool,
    shaper: Shaper,
    loss: float = 0.0,
    netem_seed: int | None = None,
    impaired: bool = False,
    bounded: bool = False,
    queue_bytes: tuple[int, int] | None = None,
    flow_rate_bps: float = 0.0,
) -> list[list[str]]:
    """tc commands, without "tc", that shape `interface` to line rate `rate_bps`; an infinite rate is not shaped.

    The interface must not have been shaped before.

    has_fq: whether the kernel has sch_fq. Without it, or if `fabric.fair_queues` is off, a band is one FIFO.
    has_prio: whether the kernel has sch_prio. Without it, HTB class priorities give the same order, except that a
    lower class keeps a trickle of 8 kbit/s and there are at most 8 bands.
    loss: share of packets that are dropped at random on arrival in any band. netem replaces the FIFO below the shaper,
    so the rate stays exact. A GSO packet is lost as a whole, so frames are lost independently only if gso_bytes <=
    mtu_bytes.
    netem_seed: makes the losses repeatable; None if the kernel or tc does not know netem's `seed`.
    impaired: whether faults will lose or delay packets here (`band_options`). netem then stands in front of the queue,
    which stays fair.
    bounded: whether the port has a buffer and marks, which are those of switches.
    queue_bytes: this buffer, and the length from which it marks (0 for neither); by default the fabric's.
    flow_rate_bps: what the line carries of one socket at most; 0 for no limit. Raises MachineFault without sch_fq,
    which does it.

    Raises InputFault for more bands than the kernel can order.
    """
    if not has_prio:
        bands = _htb_bands(interface, fabric, rate_bps, shaper)
    elif math.isinf(rate_bps):
        bands = [_prio(interface, ["root"], fabric.bands)]
    else:
        bands = _prio_bands(interface, fabric.bands, shaper.line(fabric, rate_bps))
    sizes = queue_bytes or (fabric.buffer_bytes, fabric.ecn_bytes)
    red = (fabric.ecn_most_bytes, fabric.ecn_share)
    queue = switch_queue(*sizes, fabric.gso_bytes, rate_bps, red) if bounded and any(sizes) else None
    if flow_rate_bps:
        if not has_fq:
            raise MachineFault("fabric.flow_rate: this kernel has no sch_fq, which limits flows; use the virtual clock")
        queue = limited_queue(fabric, flow_rate_bps)
    impaired = impaired or (queue is not None and loss > 0)
    leaves = [
        command
        for band in range(fabric.bands)
        for command in _leaves(interface, band, fabric, has_fq, loss, netem_seed, impaired, queue)
    ]
    filters = [_dscp_filter(interface, band) for band in range(fabric.bands)] if classify is Classify.DSCP else []
    return bands + leaves + filters + ([] if bounded else spraying_commands(interface, fabric))


def _prio_bands(interface: str, bands: int, line: list[str]) -> list[list[str]]:
    return [
        ["qdisc", "add", "dev", interface, "root", "handle", SHAPER_HANDLE, "htb", "default", "1"],
        ["class", "add", "dev", interface, *line],
        _prio(interface, ["parent", "5:1"], bands),
    ]


def _prio(interface: str, place: list[str], bands: int) -> list[str]:
    # Unmarked packets (a ping, a tool of the user's) are small and travel with control.
    priomap = ["priomap", *["0"] * 16]
    return ["qdisc", "add", "dev", interface, *place, "handle", PRIO_HANDLE, "prio", "bands", str(bands), *priomap]


def _htb_bands(interface: str, fabric: Fabric, rate_bps: float, shaper: Shaper) -> list[list[str]]:
    """Commands that keep the bands in HTB classes. HTB first serves classes below their own rate, whatever their
    priority, so that rate is a trickle and the rest is borrowed."""
    bands = fabric.bands
    if bands > HTB_PRIORITIES:
        raise InputFault(
            f"fabric.classes = {bands - 1}: this kernel has no sch_prio, and HTB orders at most {HTB_PRIORITIES - 1} "
            f"classes besides control; use at most {HTB_PRIORITIES - 1} classes or the virtual clock"
        )
    quantum = ["quantum", str(QUANTUM_BYTES)]
    _, rate, *charge = shaper.rate_words(fabric, rate_bps)
    burst = str(fabric.burst_bytes(rate_bps, exact_timers=shaper.exact_timers))
    line = ["rate", rate, "ceil", rate, *charge, "burst", burst, "cburst", burst, *quantum]
    low = ["rate", f"{TRICKLE_BPS}bit", "ceil", rate, *charge]
    trickle = [*low, "burst", str(TRICKLE_BURST_BYTES), "cburst", burst, *quantum]
    leaves = [
        [
            "class",
            "add",
            "dev",
            interface,
            "parent",
            HTB_LINE_CLASS,
            "classid",
            class_of_band(band),
            "htb",
            *trickle,
            "prio",
            str(band),
        ]
        for band in range(bands)
    ]
    return [
        ["qdisc", "add", "dev", interface, "root", "handle", PRIO_HANDLE, "htb", "default", "1"],
        ["class", "add", "dev", interface, "parent", PRIO_HANDLE, "classid", HTB_LINE_CLASS, "htb", *line],
        *leaves,
    ]


def _leaves(
    interface: str,
    band: int,
    fabric: Fabric,
    has_fq: bool,
    loss: float,
    netem_seed: int | None,
    impaired: bool,
    queue: list[str] | None,
) -> list[list[str]]:
    """The commands that make the queue of a band. queue: stands in for the deep one."""
    add = ["qdisc", "add", "dev", interface]
    if not impaired:
        return [[*add, "parent", class_of_band(band), *(queue or _leaf(fabric, has_fq, loss, netem_seed))]]
    fabric = replace(fabric, queue_packets=max(fabric.queue_packets, IMPAIRED_PACKETS))
    return [
        [*add, *band_options(fabric, band, loss, 0.0, netem_seed)],
        [*add, "parent", class_below_netem(band), *(queue or _leaf(fabric, has_fq, 0.0, None))],
    ]


def class_below_netem(band: int) -> str:
    """The class below which an impaired port has the queue of a band; netem itself is below the band's class."""
    return f"{_netem_handle(band)}1"


def _netem_handle(band: int) -> str:
    return f"{NETEM_MAJOR + band:x}:"


def band_options(fabric: Fabric, band: int, loss: float, delay_s: float, netem_seed: int | None) -> list[str]:
    """Arguments of `qdisc add` and `qdisc change` that make a band of an impaired port lose a share of its packets, and
    delay all others.

    netem hands a packet on to the queue below it when its delay is over, so a band without either is served as if
    netem were not there.
    """
    limit = str(max(fabric.queue_packets, IMPAIRED_PACKETS))
    place = ["parent", class_of_band(band), "handle", _netem_handle(band), "netem", "limit", limit]
    losses = ["loss", f"{loss * 100:.6f}%"] if loss else []
    seed = [] if netem_seed is None else ["seed", str(netem_seed + band)]
    return [*place, *(["delay", f"{round(delay_s * 1e6)}us"] if delay_s else []), *losses, *seed]


def _leaf(fabric: Fabric, has_fq: bool, loss: float, netem_seed: int | None) -> list[str]:
    """The queue of a band.

    Fair queues serve one burst of each flow in turn, as an RDMA NIC serves its queue pairs and a lossless switch its
    input ports. In a single FIFO, TCP flows share a port by the accident of their windows: of seven equal flows out of
    one port, the first ended after 0.61 s and the last after 0.99 s (AlexNet's largest tensor, 10 Gbit/s), and
    iteration times of the same plan differed by 9 %.
    """
    limit = str(fabric.queue_packets)
    if loss > 0:
        seed = [] if netem_seed is None else ["seed", str(netem_seed)]
        return ["netem", "limit", limit, "loss", f"{loss * 100:.6f}%", *seed]
    if not (has_fq and fabric.fair_queues):
        return ["pfifo", "limit", limit]
    quantum = str(max(QUANTUM_BYTES, fabric.gso_bytes))
    # nopacing: sch_fq would pace flows that ask for a rate, but shaping is HTB's part. maxrate, which is not applied
    # then either, keeps it from its fast path, a FIFO while fewer than 8 packets wait (fq_fastpath_check, since 6.7):
    # the first eight bursts into an idle band went to whichever flow came first, 0.5 MB, and workers got out of step.
    # Of 40 random points beside the fluid engine (benchmarks/fluid_agreement.py) the worst came from 6.0 % too fast to
    # 2.5 %, a parameter server of 8 workers from 1.8 % to 0.1 %.
    turns = ["quantum", quantum, "initial_quantum", quantum]
    return ["fq", "limit", limit, "flow_limit", limit, "nopacing", "maxrate", NO_FAST_PATH, *turns]


def limited_queue(fabric: Fabric, flow_rate_bps: float) -> list[str]:
    """The queue of a band in which each socket's packets leave at this rate of the line at most."""
    limit, quantum = str(fabric.queue_packets), str(max(QUANTUM_BYTES, fabric.gso_bytes))
    rate = f"{round(fabric.shaped_rate_bps(flow_rate_bps))}bit"
    turns = ["quantum", quantum, "initial_quantum", quantum]
    return ["fq", "limit", limit, "flow_limit", limit, "pacing", "maxrate", rate, *turns]


def _dscp_filter(interface: str, band: int) -> list[str]:
    match = ["match", "ip", "dsfield", f"{dscp_of_band(band) << 2:#04x}", "0xfc"]
    place = ["filter", "add", "dev", interface, "parent", PRIO_HANDLE, "protocol", "ip", "prio", "1"]
    return [*place, "u32", *match, "flowid", class_of_band(band)]


def batch_text(commands: list[list[str]]) -> str:
    """Standard input for `tc -batch -` or `ip -batch -`, which run all commands of a network namespace in one process.

    Raises ValueError for an argument that would not survive as one word of a line.
    """
    for word in (word for command in commands for word in command):
        if not word or any(letter.isspace() or letter in "#\\\"'" for letter in word):
            raise ValueError(f"argument {word!r} cannot stand in a batch file")
    return "".join(" ".join(command) + "\n" for command in commands)


def spraying_commands(interface: str, fabric: Fabric) -> list[list[str]]:
    """tc commands, without "tc", for the port of a host of a fabric whose bursts take all ways in turn; none for
    others. If agents choose by flowlets, marked packets take the way of their mark, and all others take their turns.
    The port must have no `clsact` yet."""
    if not fabric.routing.policy.writes_ways:
        return []
    turns, shift = turns_of(fabric), chunk_bits(fabric)
    mask = f"{turns - 1 << shift:#06x}"
    add = ["filter", "add", "dev", interface, "egress", "protocol", "ip", "prio"]
    place, writes = [*add, "2", "u32"], ["action", "pedit", "ex", "munge", "eth", "src", "set"]
    marked = range(ways_of(fabric)) if fabric.routing.policy.chooses_for_flowlets else range(0)
    return [
        ["qdisc", "add", "dev", interface, "clsact"],
        *([*add, "1", "handle", str(mark_of_way(way)), "fw", *writes, way_mac(way)] for way in marked),
        *(
            [
                *place,
                *("match", "u16", f"{turn << shift:#06x}", mask, "at", str(IDENTIFICATION_AT)),
                *(*writes, way_mac(way_of_turn(fabric, turn))),
            ]
            for turn in range(turns)
        ),
    ]


def switch_queue(
    buffer_bytes: int, ecn_bytes: int, burst_bytes: int, rate_bps: float, red: tuple[int, float] = (0, 1.0)
) -> list[str]:
    """The queue of a band at a switch's port of line rate `rate_bps` that has a buffer or marks; either may be 0.

    tc counts bytes as it sees frames, without preamble, FCS and gap. RED has the order not to drop what cannot be
    marked, such as datagrams: the buffer alone drops.

    red: the length from which on it marks all, and the share just below it; a length of 0 is that from which on it marks.
    Linux's RED spaces its marks: equally likely numbers of packets pass between two of them, from 1 to the inverse of the
    probability. With `nodrop`, the virtual clock's kernel marks each packet by chance instead, as DCQCN's paper does
    (vm/patches/6.12/dcqcn.patch).
    """
    limit, threshold = str(buffer_bytes or NO_LIMIT_BYTES), str(ecn_bytes)
    if not ecn_bytes:
        return ["bfifo", "limit", limit]
    most, share = (red[0], red[1]) if red[0] else (ecn_bytes, 1.0)
    packets, packet_bytes = averaged_packets(ecn_bytes, burst_bytes)
    rate = f"{round(min(rate_bps, MOST_RED_BPS))}bit"
    average = ["avpkt", str(packet_bytes), "burst", str(packets), "bandwidth", rate]
    marks = ["min", threshold, "max", str(most), *average, "probability", f"{share:g}"]
    return ["red", "limit", limit, *marks, "ecn", "nodrop"]


def averaged_packets(threshold_bytes: int, burst_bytes: int) -> tuple[int, int]:
    """RED's `burst` and `avpkt` for which tc takes the shortest memory that it can: half of the weight is the newest
    arrival's.

    tc derives the weight w from them (tc_red_eval_ewma of iproute2): the largest power of 1/2, from 1/2 on, for which
    burst + 1 - min / avpkt <= (1 - (1 - w)^burst) / w. The left side has to be 1 at least, and is about 1 where min is
    a multiple of avpkt.
    """
    packets = min(max(1, threshold_bytes // burst_bytes), MOST_AVERAGED)
    return packets, math.ceil(threshold_bytes / packets)


def marking_commands(interface: str, bands: Iterable[int]) -> list[list[str]]:
    """tc commands, without "tc", for a port without any `clsact`: they mark packets with the priorities of these
    bands."""
    filters = (_filter(interface, band, kind) for band in bands for kind in KINDS)
    return [["qdisc", "add", "dev", interface, "clsact"], *filters]


def _filter(interface: str, band: int, kind: str) -> list[str]:
    """One for packets of a kind. Filters of one priority are for one protocol, so each kind has separate priorities."""
    order = str(KINDS.index(kind) * MAX_BANDS + band + 1)
    place = ["filter", "add", "dev", interface, "egress", "protocol", PROTOCOLS[kind], "prio", order]
    match = ["basic", "match", "meta(priority", "eq", f"{socket_priority(band)})"]
    return [*place, *match, "action", "pedit", "ex", "munge", *_marks(dscp_of_band(band), kind)]


def _marks(dscp: int, kind: str) -> list[str]:
    """Arguments of a filter's action that writes a DSCP. The lowest two bits of the field are for congestion
    notification and stay as they are."""
    if kind == "ip6":
        # Bits 4 to 9 of the header, which has no checksum. Tools before iproute2 6.4 have no word for them.
        return ["offset", "0", "u16", "set", f"{dscp << 6:#06x}", "retain", "0x0fc0"]
    return ["ip", "dsfield", "set", f"{dscp << 2:#04x}", "retain", "0xfc", "pipe", "action", "csum", "ip4h"]


def priority_line(interface: str, band: int) -> str:
    """The line to write to a cgroup of net_prio (ifpriomap), so that its packets go to a band of a port."""
    return f"{interface} {socket_priority(band)}"
