"""The table [fabric] of scenarios: the network, and in [fabric.host."NAME"] the settings of single hosts'
kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from gradwire.datatypes.host_settings import CONGESTION_KEY, HostSetting, HostTcp, RdmaDevice
from gradwire.network.fabric import ETHERNET_HEADER_BYTES, MAX_BANDS, MAX_GSO_BYTES, Routing, Topology
from gradwire.network.flowlets import FLOWLET_GAP_S
from gradwire.network.links import LinkSetting
from gradwire.network.lossless import GSO_BYTES, Lossless
from gradwire.network.routing import POLICIES
from gradwire.network.sprayed_ways import SPRAYED_GSO_BYTES
from gradwire.network.topology import STRUCTURES
from gradwire.scenario.sections.lossless import LosslessSection, RedSection
from gradwire.workloads.fields import (
    LARGEST_RATIO,
    MOST_WORKERS,
    Because,
    DurationS,
    InWords,
    RateBps,
    Section,
    SizeBytes,
)

KEY = re.compile(r"net(\.[A-Za-z0-9_-]+){2,}")
"""A parameter of the network: a path below /proc/sys/net, in which no step leads out of it."""
LONGEST_VALUE = 1024
"""Characters: more than any list of algorithms or sizes has, and less than the page that the kernel takes at most."""
MOST_PARAMETERS = 256
LARGEST_LOSS = 0.1
"""TCP waits for a timer that doubles with each loss. Two workers that exchange 320 KiB at 1 Gbit/s took 1.5 % more than without losses at a
loss of 0.01, three hundred times as long at 0.1, and 1,044 s at 0.2; at 0.3 the connections broke."""
LEAST_BUFFER_BYTES, LARGEST_BUFFER_BYTES = 2**11, 2**30
"""Finite buffers and thresholds, from a frame upwards: 2^30 is more than any switch has for all of its ports."""
LARGEST_MTU_BYTES = 9216
"""Largest MTU, which data centre switches are commonly set to for jumbo frames: 9,000 bytes of a host with room for
headers of tunnels."""
LONGEST_DELAY_S = 1.0
"""A round trip over two links of a second each outlasts TCP's timers (RFC 6298: at first one second)."""
LONG_DELAYS = "TCP's first timer is a second long"
MOST_DIMENSIONS = 8
TOPOLOGIES_OF_KEYS: Mapping[str, tuple[str, ...]] = {
    key: tuple(structure.name for structure in STRUCTURES.values() if key in structure.keys)
    for key in dict.fromkeys(key for structure in STRUCTURES.values() for key in structure.keys)
}
"""Keys that are for some values of `topology` alone, with these values."""
POLICIES_OF_KEYS: Mapping[str, tuple[str, ...]] = {
    key: tuple(policy.name for policy in POLICIES.values() if key in policy.keys)
    for key in dict.fromkeys(key for policy in POLICIES.values() for key in policy.keys)
}
"""Keys that are for some values of `routing` alone, with these values."""


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        name = prefix + str(key).replace("/", ".")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        else:
            yield name, value


def _parameters(value: object) -> object:
    """Keys with dots, also where TOML has read them as tables in tables; numbers, and lists of numbers, as text."""
    if not isinstance(value, Mapping):
        return value
    return {key: _text(each) for key, each in _flat(value)}


def _text(value: object) -> object:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list | tuple) and all(isinstance(each, int | str) for each in value):
        return " ".join(str(each) for each in value)
    return value


Sysctls = Annotated[
    dict[str, Annotated[str, Field(min_length=1, max_length=LONGEST_VALUE)]],
    Field(max_length=MOST_PARAMETERS),
    BeforeValidator(_parameters, json_schema_input_type=dict[str, str | int | bool | list[int]]),
    InWords('parameters with their values, such as {"net.ipv4.tcp_congestion_control" = "bbr"}'),
]


class HostSection(Section):
    """What the hosts are like whose names match the table's: "h1", a pattern such as "h[1-4]", or "all". Where several tables match, the
    later one counts."""

    sysctl: Sysctls
    """Parameters of the kernel in the host's network namespace, which begin with `net.`: they are written before the first byte, after
    gradwire's own, and read back then and at the end."""

    @model_validator(mode="after")
    def _of_the_network(self) -> Self:
        lines = []
        for key, value in self.sysctl.items():
            if not KEY.fullmatch(key):
                lines.append(
                    f"sysctl.'{key}': is not a parameter of a host's network; write one that begins with net., such as "
                    "net.ipv4.tcp_congestion_control"
                )
            if not value.isprintable() and "\t" not in value:
                lines.append(f"sysctl.'{key}': its value must be one line of printable characters")
        if not self.sysctl:
            lines.append("sysctl: says nothing: give a parameter, or leave the table out")
        if lines:
            raise ValueError("\n".join(lines))
        return self

    def setting(self, pattern: str) -> HostSetting:
        """The table in the form that a fabric takes."""
        return HostSetting(pattern, tuple(self.sysctl.items()))


def _dimensions(value: object) -> object:
    """A text such as "4x4" has one number per dimension."""
    if isinstance(value, str):
        return tuple(int(word) if word.isdecimal() else word for word in value.split("x")) if value else ()
    return tuple(value) if isinstance(value, list) else value


Dimensions = Annotated[
    tuple[Annotated[int, Field(ge=1, le=MOST_WORKERS)], ...],
    Field(max_length=MOST_DIMENSIONS),
    BeforeValidator(_dimensions, json_schema_input_type=str | list[int]),
    InWords('the switches along each dimension, such as [4, 4] or "4x4"'),
]


class LinkSection(Section):
    """Permanent properties of all links whose name matches the table's: "h1-s1" or "s1-s3" (in either order), "h1" for the link of a host,
    "leaf1-spine2", a port such as "s1-eth4", or a pattern such as "s1-*". Where several tables match, the later one counts."""

    rate: RateBps | None = None
    """Line rate of each direction."""
    delay: Annotated[DurationS, Because(LONG_DELAYS)] | None = Field(None, ge=0, le=LONGEST_DELAY_S)
    """How long packets of each direction are under way, in addition to their time on the line: 5 us is a kilometre of fibre."""
    jitter: Annotated[DurationS, Because(LONG_DELAYS)] | None = Field(None, ge=0, le=LONGEST_DELAY_S)
    """How much longer than `delay` a packet may be under way, at random and evenly; packets do not overtake one another."""
    loss: Annotated[float, Because("beyond that TCP waits for its timers for minutes, or gives up")] | None = Field(
        None, ge=0, le=LARGEST_LOSS
    )
    """Share of frames of each direction that are lost at random."""
    buffer: SizeBytes | None = Field(None, ge=LEAST_BUFFER_BYTES, le=LARGEST_BUFFER_BYTES)
    """`fabric.buffer` of the switches' ports at these links."""
    ecn: SizeBytes | None = Field(None, ge=LEAST_BUFFER_BYTES, le=LARGEST_BUFFER_BYTES)
    """`fabric.ecn` of the switches' ports at these links."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("says nothing: give rate, delay, jitter, loss, buffer or ecn")
        return self

    def setting(self, pattern: str) -> LinkSetting:
        """The table in the form that a fabric takes."""
        return LinkSetting(pattern, self.rate, self.delay, self.jitter, self.loss, self.buffer, self.ecn)


class FabricSection(Section):
    """The network."""

    rate: RateBps
    """Line rate of each host's link. It counts what a line carries, preamble and gaps included: at an MTU of 1500, TCP's payload gets
    1448/1538 of it. It may be left out with a `file` that has hosts and the rates of all links: then it is the fastest host's."""
    topology: Topology = Topology.SINGLE_SWITCH
    """One switch for all hosts; leaves and spines; or a fat tree of three tiers, whose pods of leaves and spines are joined by cores. The
    k-ary fat tree of Al-Fares et al. (SIGCOMM 2008) has `pods` = k, `leaves` = `spines` = k/2, `cores` = (k/2)² and k³/4 hosts."""
    leaves: int = Field(1, ge=1, le=MOST_WORKERS)
    """Leaf switches, over which hosts are spread evenly; in a fat tree, of each pod."""
    spines: int = Field(0, ge=0, le=MOST_WORKERS)
    """Spine switches, each joined to every leaf; in a fat tree, of each pod."""
    oversubscription: float = Field(1.0, ge=1 / LARGEST_RATIO, le=LARGEST_RATIO)
    """Rate of all hosts below a leaf over the rate of its uplinks together."""
    pods: int = Field(1, ge=1, le=MOST_WORKERS)
    """Pods of a fat tree."""
    cores: int = Field(0, ge=0, le=MOST_WORKERS)
    """Core switches of a fat tree: a multiple of `spines`. Each is joined to one spine of every pod."""
    core_oversubscription: float = Field(1.0, ge=1 / LARGEST_RATIO, le=LARGEST_RATIO)
    """Rate of all leaves' uplinks in a pod over the rate of its spines' uplinks together."""
    switches: int = Field(0, ge=0, le=MOST_WORKERS)
    """Switches of a "ring", a "linear" network, a "full-mesh" or a "hypercube", over which hosts are spread evenly."""
    dimensions: Dimensions = ()
    """Switches of a "torus" along each dimension: [4, 4], or "4x4"."""
    groups: int = Field(0, ge=0, le=MOST_WORKERS)
    """Groups of a "dragonfly"."""
    routers: int = Field(0, ge=0, le=MOST_WORKERS)
    """Switches of each group of a dragonfly, all joined to one another."""
    global_links: int = Field(1, ge=1, le=MOST_WORKERS)
    """Links between any two groups of a dragonfly, at their switches in turn."""
    file: str | None = None
    """A network of your own: a file of one of the forms in docs/networks.md, or a class of Mininet's Topo, such as "lab.py:Campus". Its
    topology is "custom"."""
    rails: bool = False
    """Whether NIC k of every host is at a leaf of rail k (rail-optimised), for `cluster.nics_per_host` of 2 and more. Otherwise all NICs of
    a host are at the same leaf."""
    routing: Routing = Routing.BALANCED
    """How packets choose among equally short ways: "balanced" spreads the pairs of hosts evenly; with "ecmp", every switch hashes the
    five-tuple of each connection, as real switches do, and which connections meet is luck that `run.seed` decides; with "spray", the bursts
    of every connection take all shortest ways in turn; with "flowlet", one that had nothing to send for `flowlet_gap` takes another way
    by chance, and with "adaptive" the one on whose first link the fewest bytes wait; with "static", the table in `routes` says all ways;
    "controller" is what it is where `controller` says all ways."""
    routes: str | None = None
    """For `routing` = "static": a .toml or .csv file with a table of routes, whose rows say to which neighbour a switch sends packets for a
    host."""
    controller: str | None = None
    """An application of os-ken or Ryu of your own (a .py file), which says all ways in place of `routing`. Its flows are read back before
    the first byte."""
    classes: int | None = Field(None, ge=1, le=MAX_BANDS - 1)
    """Traffic classes; at least as many as the strategy needs."""
    mtu_bytes: int = Field(1500, ge=576, le=LARGEST_MTU_BYTES)
    """Largest IP packet."""
    gso: SizeBytes | None = Field(None, ge=576, le=MAX_GSO_BYTES)
    """The largest burst that a host hands to its port at once (segmentation offload). Unset: 64 KiB, or, where an iteration
    is so short that those could move it by more than 5 %, 12 KiB or one frame, as estimated before a run; with `lossless`
    16 KiB; with `routing` = "spray" 12 KiB, so that a message of 64 KiB has bursts for several ways; with `buffer` or `ecn`
    one frame, for there a burst would be dropped or marked as a whole."""
    buffer: Literal["deep"] | Annotated[SizeBytes, Field(ge=LEAST_BUFFER_BYTES, le=LARGEST_BUFFER_BYTES)] = "deep"
    """What a switch's port holds of each traffic class, as bytes of frames, before it drops what comes next; or "deep", as with priority
    flow control, so that nothing is dropped."""
    ecn: Literal["off"] | Annotated[SizeBytes, Field(ge=LEAST_BUFFER_BYTES, le=LARGEST_BUFFER_BYTES)] | RedSection = (
        "off"
    )
    """Length of such a queue from which on it marks packets (ECN): DCTCP's K. All connections then ask for ECN."""
    lossless: LosslessSection | None = None
    """Priority flow control: what would overflow a switch's memory waits at the far end instead. Unset: queues without end."""
    loss: Annotated[float, Because("beyond that TCP waits for its timers for minutes, or gives up")] = Field(
        0.0, ge=0, le=LARGEST_LOSS
    )
    """Share of frames that switches drop. Beyond the range TCP makes no progress."""
    delay: Annotated[DurationS, Because(LONG_DELAYS)] = Field(0.0, ge=0, le=LONGEST_DELAY_S)
    """How long packets of each direction are under way on every link, in addition to their time on the line."""
    delay_from_coordinates: bool = False
    """Whether links in `file` without a delay have that of light in fibre between the coordinates of their ends. Links whose ends have no
    coordinates have `delay`."""
    flow_rate: RateBps | None = None
    """Most that one connection gets of its host's port, counted as `rate` is: clouds limit flows so. Unset: all of it."""
    flowlet_gap: DurationS | None = Field(None, gt=0, le=LONGEST_DELAY_S)
    """For `routing` = "flowlet" or "adaptive": after how long without anything to send a connection's next message may take another way.
    Unset: 500 us, the default of CONGA (SIGCOMM 2014)."""
    link: dict[str, LinkSection] = Field(default_factory=dict)
    """What single links are like for good."""
    host: dict[str, HostSection] = Field(default_factory=dict)
    """What single hosts are like."""
    hosts: HostTcp = HostTcp.TUNED
    """How hosts have set up their TCP. "tuned": to stand in for RDMA, with large buffers from the start. "stock": as Linux comes, with
    buffers that it grows, and a new start after a pause. "stock-before-6.6": the same, with receive windows of half their buffers."""
    rdma: RdmaDevice = RdmaDevice.NONE
    """The RDMA device of every host, for programs: "rxe" is RoCEv2, and "siw" iWARP over TCP. It has the kind's name and a zero: rxe0."""
    fair_queues: bool | None = None
    """Whether the flows of a band are served in turn; otherwise first come, first served. Unset: in turn, unless messages are divided
    over several connections (`transport.connections`)."""

    def __hash__(self) -> int:
        """Two sections are equal if their values are, and a table of tables cannot be hashed."""
        return hash(self.model_dump_json())

    @property
    def link_settings(self) -> tuple[LinkSetting, ...]:
        """`link` in the form that a fabric takes."""
        return tuple(table.setting(pattern) for pattern, table in self.link.items())

    @property
    def host_settings(self) -> tuple[HostSetting, ...]:
        """`host` in the form that a fabric takes."""
        return tuple(table.setting(pattern) for pattern, table in self.host.items())

    @property
    def flow_control(self) -> Lossless | None:
        """`lossless` in the form that a fabric takes."""
        return None if self.lossless is None else self.lossless.resolved()

    @property
    def sets_congestion(self) -> bool:
        """Whether the congestion control of any host's kernel is set."""
        return any(CONGESTION_KEY in table.sysctl for table in self.host.values())

    @property
    def delay_of_all_s(self) -> float:
        """`delay` for a fabric; 0 for a network that a file describes, each of whose links has the delay in its file,
        or else `delay`."""
        return 0.0 if self.file is not None else self.delay

    @property
    def drops_or_marks(self) -> bool:
        """Whether the queue of any switch's port drops or marks packets."""
        return bool(self.buffer_bytes or self.ecn_bytes or any(each.buffer or each.ecn for each in self.link.values()))

    @property
    def buffer_bytes(self) -> int:
        """`buffer`; 0 where it is deep."""
        return 0 if self.buffer == "deep" else self.buffer

    @property
    def ecn_bytes(self) -> int:
        """`ecn`; 0 where nothing is marked."""
        if isinstance(self.ecn, RedSection):
            return self.ecn.kmin
        return 0 if self.ecn == "off" else self.ecn

    @property
    def ecn_most_bytes(self) -> int:
        """Length from which on RED marks all; 0 where marks are not by RED."""
        return self.ecn.kmax if isinstance(self.ecn, RedSection) else 0

    @property
    def ecn_share(self) -> float:
        """Share of packets that RED marks just below that length."""
        return self.ecn.pmax if isinstance(self.ecn, RedSection) else 1.0

    @property
    def gso_bytes(self) -> int:
        """`gso`, or its default."""
        if self.gso is not None:
            return self.gso
        frame_bytes = self.mtu_bytes + ETHERNET_HEADER_BYTES
        if self.drops_or_marks:
            return frame_bytes
        sprayed_bytes = SPRAYED_GSO_BYTES if self.routing_in_effect.policy.splits_messages else MAX_GSO_BYTES
        return max(frame_bytes, min(sprayed_bytes, GSO_BYTES if self.lossless is not None else MAX_GSO_BYTES))

    @model_validator(mode="after")
    def _what_graphs_need(self) -> Self:
        structure = self.topology.structure
        lines = [
            f"{key}: missing; fabric.topology = '{self.topology}' needs it"
            for key in structure.wanted_keys
            if not getattr(self, key)
        ]
        lines += [
            f"{key}: needs fabric.topology = {needed}"
            for key, needed in sorted(self._for_other_topologies(is_tiered=False))
            if key in self.model_fields_set
        ]
        if lines:
            raise ValueError("\n".join(lines))
        return self

    def _for_other_topologies(self, *, is_tiered: bool) -> Iterator[tuple[str, str]]:
        """Yields the keys that are not at their defaults and not for this topology, and the topologies that they are for.
        is_tiered: whether those have switches in tiers."""
        for key, topologies in TOPOLOGIES_OF_KEYS.items():
            is_set = getattr(self, key) != FabricSection.model_fields[key].default
            if is_set and self.topology not in topologies and STRUCTURES[topologies[0]].is_tiered is is_tiered:
                yield key, " or ".join(f"'{each}'" for each in topologies)

    @model_validator(mode="after")
    def _a_table_where_one_is_used(self) -> Self:
        for key, wanted in self.routing.policy.keys.items():
            if wanted and getattr(self, key) is None:
                raise ValueError(f"{key}: missing; fabric.routing = '{self.routing}' needs {wanted}")
        if self.controller is not None and self.routing not in (Routing.BALANCED, Routing.CONTROLLER):
            raise ValueError(f"routing = '{self.routing}': leave it out, for fabric.controller says all ways")
        for key, policies in POLICIES_OF_KEYS.items():
            if getattr(self, key) is not None and self.routing_in_effect not in policies:
                raise ValueError(f"{key}: needs fabric.routing = {' or '.join(map(repr, policies))}")
        return self

    @property
    def gap_of_flowlets_s(self) -> float:
        """`flowlet_gap`, or its default; 0 where ways are not chosen by flowlets."""
        return (self.flowlet_gap or FLOWLET_GAP_S) if self.routing.policy.chooses_for_flowlets else 0.0

    @property
    def routing_in_effect(self) -> Routing:
        """`routing`, or that of a controller."""
        return self.routing if self.controller is None else Routing.CONTROLLER

    @model_validator(mode="before")
    @classmethod
    def _a_file_is_custom(cls, value: object) -> object:
        if isinstance(value, dict) and value.get("file") is not None and "topology" not in value:
            return {**value, "topology": Topology.CUSTOM.value}
        return value

    @model_validator(mode="after")
    def _nothing_without_effect(self) -> Self:
        idle = dict(self._for_other_topologies(is_tiered=True))
        if self.delay_from_coordinates and self.topology is not Topology.CUSTOM:
            idle["delay_from_coordinates"] = f"'{Topology.CUSTOM}'"
        if (
            not self.topology.structure.has_several_switches
            and self.routing != FabricSection.model_fields["routing"].default
        ):
            idle["routing"] = f"'{Topology.LEAF_SPINE}' or any other but '{self.topology}'"
        if "rails" in idle:
            idle["rails"] += ", a leaf for each of a host's cluster.nics_per_host (fabric.leaves), and fabric.spines"
        if idle:
            raise ValueError(
                "\n".join(
                    f"{key} = {_written(getattr(self, key))}: needs fabric.topology = {needed}"
                    for key, needed in idle.items()
                )
            )
        return self


def _written(value: float | bool | Routing) -> str:
    if isinstance(value, Routing):
        return f"'{value}'"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"
