"""A plan in a few lines, with the port at which its bytes take longest: a host's, the uplinks of a leaf or a pod, or a
line of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import CONTROL_CLASS, Int64, OpKind, Plan, Role
from gradwire.network.fabric import Fabric
from gradwire.network.routes import line_titles, lines_of
from gradwire.network.tiers import Tier
from gradwire.network.wire.ways import MessageWays


@dataclass(frozen=True)
class BusyPort:
    """One direction of a host's port, or of all uplinks of a leaf or a pod together."""

    name: str
    size_bytes: int
    #: Time that the bytes take at line rate.
    seconds: float
    #: The line rate, formatted.
    rate: str

    def __str__(self) -> str:
        """The port's line in a plan's summary."""
        return f"{self.name}, {self.size_bytes / 1e6:,.1f} MB, {self.seconds:.4f} s at {self.rate}"


def busiest_port(plan: Plan, fabric: Fabric) -> BusyPort:
    """Returns the port where an iteration's bytes take longest at line rate, however they are spread over a leaf's
    uplinks."""
    uplinks = [port for tier in fabric.tree.tiers for port in _uplinks(plan, fabric, tier)]
    lines = [] if fabric.is_tiered else _lines(plan, fabric)
    return max((*_host_ports(plan, fabric), *uplinks, *lines), key=lambda port: port.seconds)


@dataclass(frozen=True)
class _HostArrivals:
    """Messages that cross the network, one row per host at which a message arrives."""

    #: Number of the SEND.
    send: Int64
    #: Endpoint that sends.
    source: Int64
    #: Endpoint that receives.
    target: Int64

    @staticmethod
    def of(plan: Plan) -> _HostArrivals:
        """Finds the arrivals of an iteration. A multicast message for several ranks of a host arrives there once."""
        ops = plan.ops
        received = ops.message[ops.kind == OpKind.RECV]
        target = plan.rank_host[ops.rank[ops.kind == OpKind.RECV]]
        source = plan.rank_host[ops.rank[received]]
        rows = np.flatnonzero(plan.is_remote()[received] & (source != target))
        rows = rows[_first_of_each(received[rows], target[rows])]
        return _HostArrivals(received[rows], source[rows].astype(np.int64), target[rows].astype(np.int64))


def _host_ports(plan: Plan, fabric: Fabric) -> Iterator[BusyPort]:
    """Yields the busiest host port of each direction.

    Aggregators' ports are left out, because they have no line rate.
    """
    arrivals = _HostArrivals.of(plan)
    leaving = _first_of_each(arrivals.send)
    for direction, send, host in (
        ("out", arrivals.send[leaving], arrivals.source[leaving]),
        ("in", arrivals.send, arrivals.target),
    ):
        at_host = host < fabric.hosts
        index, size_bytes, seconds = _busiest(plan, fabric, send[at_host], host[at_host], fabric.host_bps)
        rate = f"{fabric.host_bps[index] / 1e9:g} Gbit/s"
        yield BusyPort(f"h{index + 1} {direction}", size_bytes, seconds, rate)


def _uplinks(plan: Plan, fabric: Fabric, tier: Tier) -> Iterator[BusyPort]:
    """Yields the busiest leaf's, or pod's, uplinks of each direction.

    A multicast message goes up from its leaf once, and down to each other leaf once.
    """
    arrivals = _HostArrivals.of(plan)
    source, target = (_parts_of(fabric, tier, endpoints) for endpoints in (arrivals.source, arrivals.target))
    crossing = source != target
    for direction, part, keys in (
        ("up", source, (arrivals.send,)),
        ("down", target, (arrivals.send, target)),
    ):
        rows = np.flatnonzero(crossing & (part >= 0))
        rows = rows[_first_of_each(*(key[rows] for key in keys))]
        index, size_bytes, seconds = _busiest(plan, fabric, arrivals.send[rows], part[rows], tier.part_bps)
        yield BusyPort(f"uplinks of {tier.word} {index + 1} {direction}", size_bytes, seconds, _rates(tier, index))


def _lines(plan: Plan, fabric: Fabric) -> Iterator[BusyPort]:
    """Yields the busiest line between switches, where they are not in tiers.

    A multicast message passes each line once.
    """
    ops, remote = plan.ops, np.flatnonzero(plan.is_remote())
    keys = np.stack([ops.lane[remote], ops.peer[remote], ops.traffic_class[remote], ops.group[remote]])
    _, first, flow = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    share = np.where(ops.group[remote] == 1, fabric.multicast_goodput_share(), fabric.goodput_share())
    size = np.bincount(flow.reshape(-1), ops.size_bytes[remote], len(first))
    on_line = np.bincount(flow.reshape(-1), ops.size_bytes[remote] / share, len(first))
    ways, lines, titles = MessageWays(plan, fabric), lines_of(fabric), line_titles(fabric)
    #: Payload and bytes on the line, by line.
    passing: dict[int, tuple[float, float]] = {}
    for number, send in enumerate(remote[first].tolist()):
        for line, passed in ways.shares(send):
            if line >= 2 * fabric.hosts:
                payload, frames = passing.get(line, (0.0, 0.0))
                passing[line] = payload + passed * float(size[number]), frames + passed * float(on_line[number])
    if passing:
        took_s = {line: frames * 8 / lines[line].rate_bps for line, (_, frames) in passing.items()}
        busiest = max(took_s, key=lambda line: took_s[line])
        name, rate_bps = titles[busiest], lines[busiest].rate_bps
        yield BusyPort(name, round(passing[busiest][0]), took_s[busiest], f"{rate_bps / 1e9:g} Gbit/s")


def _parts_of(fabric: Fabric, tier: Tier, endpoints: Int64) -> Int64:
    """Returns the index of the leaf, or pod, that each endpoint is in; -1 for those above."""
    parts = [tier.part_of_switch[fabric.switch_of(endpoint)] for endpoint in range(fabric.endpoints)]
    of_endpoint: Int64 = np.array(parts, np.int64)[endpoints]
    return of_endpoint


def _rates(tier: Tier, part: int) -> str:
    """The line rates of a part's uplinks, formatted."""
    rates = tier.rates_bps[part]
    if min(rates) == max(rates):
        return f"{len(rates)} x {rates[0] / 1e9:g} Gbit/s"
    return f"{' + '.join(f'{rate_bps / 1e9:g}' for rate_bps in rates)} Gbit/s"


def _busiest(
    plan: Plan, fabric: Fabric, send: Int64, place: Int64, rates_bps: Sequence[float]
) -> tuple[int, int, float]:
    """Returns the place whose bytes take longest on the line with the overhead of full frames, its payload, and how
    long that is."""
    size = plan.ops.size_bytes[send]
    multicast = plan.ops.group[send] == 1
    line = np.bincount(
        place,
        size / np.where(multicast, fabric.multicast_goodput_share(), fabric.goodput_share()),
        minlength=len(rates_bps),
    )
    seconds = line * 8 / np.array(rates_bps)
    index = int(seconds.argmax())
    return index, int(size[place == index].sum()), float(seconds[index])


def _first_of_each(*keys: npt.NDArray[np.int32] | Int64) -> Int64:
    """Returns the rows that are the first with their combination of keys."""
    combined = keys[0].astype(np.int64)
    for key in keys[1:]:
        combined = combined * (int(key.max(initial=0)) + 1) + key
    first: Int64 = np.unique(combined, return_index=True)[1].astype(np.int64)
    return first


def summary_lines(plan: Plan, fabric: Fabric) -> list[str]:
    """Summarises an iteration of the plan: ranks, network, ops, messages, bytes by traffic class, busiest port, and
    the plan's notes."""
    ops = plan.ops
    remote = plan.is_remote()
    roles = {role.name.lower(): int((plan.rank_role == role).sum()) for role in Role}
    ranks = ", ".join(f"{count} {name}{'s' if count > 1 else ''}" for name, count in roles.items() if count)
    kinds = ", ".join(f"{int((ops.kind == kind).sum()):,} {kind.name.lower()}" for kind in OpKind)
    sent = int(ops.size_bytes[remote].sum())
    lines = [
        f"{ranks} on {_hosts(plan)} hosts; {len(plan.chunk_bytes):,} chunks of {len(plan.tensors)} tensors, "
        f"{plan.chunk_bytes.sum() / 1e6:,.1f} MB",
        f"network: {_network(fabric)}",
        f"{len(ops):,} ops: {kinds}; {len(plan.dep_op):,} dependencies",
        f"{int(remote.sum()):,} messages and {sent / 1e9:,.3f} GB cross the network",
    ]
    for traffic_class in sorted(set(ops.traffic_class[remote].tolist())):
        in_class = remote & (ops.traffic_class == traffic_class)
        name = "control" if traffic_class == CONTROL_CLASS else f"class {traffic_class}"
        lines.append(f"  {name}: {int(in_class.sum()):,} messages, {ops.size_bytes[in_class].sum() / 1e6:,.1f} MB")
    lines.append(f"busiest port: {busiest_port(plan, fabric)}")
    lines += [f"note: {note}" for note in plan.notes]
    return lines


def _hosts(plan: Plan) -> int:
    """Counts the machines, without the aggregators' places on switches."""
    return len(np.unique(plan.rank_host[plan.rank_role != Role.AGGREGATOR] // plan.nics_per_host))


def _network(fabric: Fabric) -> str:
    machines, nics = fabric.hosts // fabric.nics_per_host, fabric.nics_per_host
    per_host = f"with {nics} NICs each " if nics > 1 else ""
    hosts = f"{machines} host{'s' if machines > 1 else ''} {per_host}at {fabric.rate_bps / 1e9:g} Gbit/s"
    return f"{hosts} {fabric.topology.structure.words(fabric)}"
