"""Settings that may shorten an iteration, chosen by what its critical path waits for. Pure: runs/advice.py estimates them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gradwire.analysis.timeline.critical_path import WORTH_SAYING, CriticalPath
from gradwire.analysis.timeline.limits import WaitedLine
from gradwire.analysis.timeline.walk import TimeKind
from gradwire.network.fabric import Fabric, Link
from gradwire.network.routes import lines_of
from gradwire.scenario.contenders import ALLREDUCE, FAMILIES, PARAMETER_SERVER
from gradwire.scenario.schema import PointSection
from gradwire.workloads.strategy_registry import strategy
from gradwire.workloads.units import ETHERNET_BPS, rate_text

SEVERAL_CONNECTIONS = 4
LARGER_BUCKETS = 4
"""How many connections, and how many times larger buckets, are tried."""
IN_ORDER_OF_NEED = "p3"
"""A strategy with parameter servers that sends what is needed first, first."""
ORDERED = ("p3", "p3-slicing", "tictac", "tictac-slicing", "geryon")
"""Strategies with parameter servers that do so."""
ROUND_A_RING = ("ring", "hierarchical-ring", "ring-multicast")
BUCKETS = ("bucket_cap", "bucket_parameters", "threshold_bytes")
"""Strategies' options that say how large fused gradients become."""
PLAIN = re.compile(r"[A-Za-z0-9_#-]+")
"""Names that need no quotes as a part of a key."""


@dataclass(frozen=True)
class Remedy:
    """A change of a scenario that may shorten its iterations."""

    #: As `--set` takes it.
    setting: str
    #: Whether it takes other hardware, so that whatever does not is tried first.
    is_hardware: bool = False


@dataclass(frozen=True)
class Held:
    """What held an iteration up, as far as remedies depend on it."""

    #: Share of each part of the iteration's time, by the names of PARTS.
    shares: Mapping[str, float]
    #: Share of its time in which messages waited behind others of their send queue.
    queued: float
    #: The line that was waited for longest.
    waited: WaitedLine | None

    @staticmethod
    def of(path: CriticalPath) -> Held:
        """What held the iteration of a critical path up."""
        queued = path.kinds_ns[TimeKind.QUEUEING] / max(path.duration_ns, 1)
        return Held(path.shares, queued, path.waited)


def remedies(held: Held, section: PointSection, fabric: Fabric) -> list[Remedy]:
    """The changes to be tried, by the largest part of the time that is not computation. None where a fault is what is waited for, and
    where computation is nearly all there is."""
    shares = {part: held.shares.get(part, 0.0) for part in ("network", "latency", "aggregation")}
    part = max(shares, key=lambda each: shares[each])
    if shares[part] < WORTH_SAYING:
        return []
    if part == "aggregation":
        return list(_more_servers(section))
    if part == "latency" or held.waited is None:
        return list(_fewer_messages(section))
    return list(_of_network(held, held.waited, section, fabric))


def _of_network(held: Held, waited: WaitedLine, section: PointSection, fabric: Fabric) -> Iterator[Remedy]:
    if waited.use.faults:
        return
    if not waited.is_full:
        yield from _of_idle_lines(section, fabric)
    elif waited.is_trunk:
        yield from _of_trunk(waited, section, fabric)
    else:
        yield from _of_host(held, waited, section, fabric)


def _of_trunk(waited: WaitedLine, section: PointSection, fabric: Fabric) -> Iterator[Remedy]:
    """Changes where a line between switches is full."""
    if waited.use.is_free:
        yield from _other_routing(section)
    link = lines_of(fabric)[waited.use.line]
    if (best_bps := _best_beside(link, fabric)) > link.rate_bps:
        yield Remedy(_link_rate(fabric, link, best_bps), is_hardware=True)
        return
    yield from _other_allreduce(section, fabric)
    if section.fabric.oversubscription > 1:
        yield Remedy(f"fabric.oversubscription={max(1.0, section.fabric.oversubscription / 2):g}", is_hardware=True)
    elif section.fabric.core_oversubscription > 1:
        halved = max(1.0, section.fabric.core_oversubscription / 2)
        yield Remedy(f"fabric.core_oversubscription={halved:g}", is_hardware=True)
    elif not fabric.is_tiered:
        yield Remedy(_link_rate(fabric, link, faster_bps(link.rate_bps)), is_hardware=True)
    yield Remedy(_rate(fabric), is_hardware=True)


def _of_host(held: Held, waited: WaitedLine, section: PointSection, fabric: Fabric) -> Iterator[Remedy]:
    """Changes where the link of a host is full."""
    link = lines_of(fabric)[waited.use.line]
    if (best_bps := max(fabric.host_bps)) > link.rate_bps:
        yield Remedy(_link_rate(fabric, link, best_bps), is_hardware=True)
        return
    if not section.job and FAMILIES.get(section.strategy.name) == PARAMETER_SERVER:
        yield from _more_servers(section)
        if held.queued and section.strategy.name not in ORDERED:
            yield _strategy(IN_ORDER_OF_NEED)
        yield _strategy("ring")
    yield from _other_allreduce(section, fabric)
    yield Remedy(_rate(fabric), is_hardware=True)


def _of_idle_lines(section: PointSection, fabric: Fabric) -> Iterator[Remedy]:
    """Changes where no line on the way is full: connections may take no more, or messages are short and ways long."""
    if section.transport.buffer is not None:
        yield Remedy("transport.buffer=")  # unset, so that it follows the delays of links
    if section.transport.connections < SEVERAL_CONNECTIONS:
        yield Remedy(f"transport.connections={SEVERAL_CONNECTIONS}")
    yield from _fewer_messages(section)
    yield from _other_allreduce(section, fabric)


def _other_routing(section: PointSection) -> Iterator[Remedy]:
    for routing in ("spray", "balanced"):
        if section.fabric.routing_in_effect != routing and section.fabric.controller is None:
            yield Remedy(f'fabric.routing="{routing}"')


def _other_allreduce(section: PointSection, fabric: Fabric) -> Iterator[Remedy]:
    """Other algorithms of an allreduce: a ring loads each link least, and one of groups crosses fewer links between switches."""
    if section.job or FAMILIES.get(section.strategy.name) != ALLREDUCE:
        return
    name, workers = section.strategy.name, section.cluster.workers
    if name not in ROUND_A_RING:
        yield _strategy("ring")
    group = workers // max(1, len(fabric.leaf_names()))
    if name != "hierarchical-ring" and fabric.is_tiered and fabric.summits and 1 < group < workers:
        yield _strategy("hierarchical-ring", {"inside": '"scatter-gather"', "group": str(group)})


def _more_servers(section: PointSection) -> Iterator[Remedy]:
    if section.job or section.cluster.servers is None:
        return
    if section.cluster.servers < section.cluster.workers:
        yield Remedy(f"cluster.servers={section.cluster.workers}", is_hardware=not section.cluster.colocated)


def _fewer_messages(section: PointSection) -> Iterator[Remedy]:
    """Larger buckets, for the strategies that have them."""
    if section.job:
        return
    known = strategy(section.strategy.name).options.model_fields
    for option in BUCKETS:
        if option in known:
            now = section.strategy.options.get(option, known[option].default)
            if isinstance(now, int) and now:
                yield Remedy(f"strategy.options.{option}={now * LARGER_BUCKETS}")


def _strategy(name: str, options: Mapping[str, str] | None = None) -> Remedy:
    written = ", ".join(f"{key} = {value}" for key, value in (options or {}).items())
    return Remedy(f'strategy={{name = "{name}"{f", options = {{{written}}}" if written else ""}}}')


def _rate(fabric: Fabric) -> str:
    return f'fabric.rate="{rate_text(faster_bps(fabric.rate_bps))}"'


def _link_rate(fabric: Fabric, link: Link, rate_bps: float) -> str:
    title = fabric.link_title(link)
    return f'fabric.link.{title if PLAIN.fullmatch(title) else link.name}.rate="{rate_text(rate_bps)}"'


def _best_beside(link: Link, fabric: Fabric) -> float:
    """The highest rate of the links between switches that begin where this one does."""
    return max(other.rate_bps for other in fabric.trunk_links() if other.a.device == link.a.device)


def faster_bps(rate_bps: float) -> float:
    """The next rate of Ethernet above this one; twice as much beyond the last."""
    return next((each for each in ETHERNET_BPS if each > rate_bps * 1.001), 2 * rate_bps)
