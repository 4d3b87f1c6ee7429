"""Every strategy side by side on one network: which options stand for each, and the scenario that runs them all.

Options are those that suit any model and network: a strategy that searches for its own setting does so, whole tensors are cut
evenly over servers where the strategy leaves that open, everything else stays at its default. What adding gradients, copying and
software cost is left free unless it is set, so that what is compared is what the network does.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradwire.faults import InputFault
from gradwire.topo.fabric import Topology
from gradwire.workloads.registry import strategy, strategy_names
from gradwire.workloads.scenario.loading import resolve
from gradwire.workloads.scenario.schema import PointSection
from gradwire.workloads.scenario.settings import flattened

ORIGIN = "gradwire compare"
DECIDED = ("strategy", "chart", "left_out")
"""Keys of a scenario that say what is ranked and how; the line-up alone sets them."""
PARAMETER_SERVER, ALLREDUCE, SWITCHES, PLUG_IN = "parameter server", "allreduce", "support by switches", "plug-in"
WARMUP, ITERATIONS = 1, 2
LEAVES = SPINES = 2
P3_UNSENT = "256KB"
"""About one slice of 50,000 parameters may wait in a socket, as P3's blocking sends have it (workloads/strategies/p3.py)."""


@dataclass(frozen=True)
class Contender:
    """How a strategy takes part."""

    strategy: str
    family: str
    options: Mapping[str, Any] = field(default_factory=dict)
    #: Whether its plan has a random order, so that one seed says little.
    random: bool = False
    #: Scenario keys beside its options.
    settings: Mapping[str, Any] = field(default_factory=dict)
    #: Whether it sends only a part of the gradients, and so trains something else than the others.
    partial: bool = False


CONTENDERS = (
    Contender("vanilla", PARAMETER_SERVER, random=True),
    Contender("partition-slicing", PARAMETER_SERVER, random=True),
    Contender("geryon", PARAMETER_SERVER, {"rule": "search"}, random=True),
    Contender("kvstore", PARAMETER_SERVER),
    Contender("p3-slicing", PARAMETER_SERVER, settings={"transport.unsent": P3_UNSENT}),
    Contender("p3", PARAMETER_SERVER, settings={"transport.unsent": P3_UNSENT}),
    Contender("tictac", PARAMETER_SERVER),
    Contender("tictac-slicing", PARAMETER_SERVER),
    Contender("netops-ps", PARAMETER_SERVER, {"placement": "split"}),
    Contender("ring", ALLREDUCE),
    Contender("hierarchical-ring", ALLREDUCE, {"inside": "scatter-gather"}),
    Contender("butterfly", ALLREDUCE),
    Contender("halving-doubling", ALLREDUCE),
    Contender("butterfly-mixing", ALLREDUCE),
    Contender("layer-allreduce", ALLREDUCE),
    Contender("horovod", ALLREDUCE),
    Contender("lazy-allreduce", ALLREDUCE),
    Contender("csc", ALLREDUCE, random=True, partial=True),
    Contender("multicast-ps", SWITCHES, {"placement": "split"}),
    Contender("aggregation-ps", SWITCHES, {"placement": "split"}),
    Contender("multicast-aggregation-ps", SWITCHES, {"placement": "split"}),
    Contender("ring-multicast", SWITCHES),
)
FAMILIES = {contender.strategy: contender.family for contender in CONTENDERS}
PARTIAL = tuple(contender.strategy for contender in CONTENDERS if contender.partial)


def contenders(names: Sequence[str] = ()) -> list[Contender]:
    """The named ones, or all, plug-ins with their default options included. Raises InputFault for a name that does not exist."""
    for name in names:
        strategy(name)
    known = {contender.strategy: contender for contender in CONTENDERS}
    installed = [*known, *(name for name in strategy_names() if name not in known)]
    # Whether a plug-in draws from the seed cannot be known from here, so it is taken to.
    return [known.get(name, Contender(name, PLUG_IN, random=True)) for name in dict.fromkeys(names or installed)]


def shared_section(base: Mapping[str, Any]) -> PointSection:
    """What all strategies share, validated. Raises InputFault for what is wrong whatever the strategy, and for what `base` may not say."""
    if base.get("sweep"):
        keys = ", ".join(base["sweep"])
        raise InputFault(f"--set {keys}: strategies are ranked at one setting; a list is swept by `gradwire run`")
    decided = flattened({key: base[key] for key in DECIDED if key in base})
    if decided:
        raise InputFault(
            f"--set {', '.join(decided)}: `gradwire compare` decides this itself (workloads/lineup.py); --strategy chooses strategies, "
            "and `gradwire run` runs a scenario with options of your own"
        )
    document = {"title": ORIGIN, **base, "strategy": {"name": CONTENDERS[0].strategy}}
    return resolve(document, ORIGIN, ORIGIN).points[0].section


def lineup(base: Mapping[str, Any], chosen: Sequence[Contender], seeds: int) -> dict[str, Any]:
    """The scenario document in which the contenders run on the cluster, network and model of `base`.

    Those with a random order run with so many seeds, from the one of `base` on; where several spines share the traffic, all do, for
    the seed decides which spine a pair of hosts uses. What `base` says goes before a contender's own settings. Raises InputFault.
    """
    shared = shared_section(base)
    document = copy.deepcopy(dict(base))
    first = shared.run.seed
    cases: dict[tuple[bool, str], dict[str, list[Any]]] = {}
    for contender in chosen:
        random = contender.random or shared.fabric.spines > 1
        settings = {key: value for key, value in contender.settings.items() if not _says(base, key)}
        case = cases.setdefault((random, repr(settings)), {"strategy": []})
        case["strategy"].append({"name": contender.strategy, "options": _options(contender, shared)})
        case.update({key: [value] for key, value in settings.items()})
        case["run.seed"] = list(range(first, first + seeds)) if random else [first]
    document["strategy"] = {"name": chosen[0].strategy}
    document["cases"] = list(cases.values())
    document["chart"] = "ranking"
    return document


def _says(document: Mapping[str, Any], key: str) -> bool:
    """Whether a document has a dotted key."""
    section, _, name = key.rpartition(".")
    return name in document.get(section, {})


def _options(contender: Contender, shared: PointSection) -> dict[str, Any]:
    """Its options; a hierarchical ring's groups are machines or, where a machine has one worker, leaves."""
    options = dict(contender.options)
    cluster, fabric = shared.cluster, shared.fabric
    nested = fabric.topology is Topology.LEAF_SPINE
    if contender.strategy == "hierarchical-ring" and cluster.workers_per_host == 1 and nested:
        options["group"] = max(1, cluster.workers // fabric.leaves)
    return options


def refusal(contender: Contender, shared: PointSection) -> str | None:
    """Why a contender would say nothing here although it can run, or None."""
    nested = shared.cluster.workers_per_host > 1 or shared.fabric.topology is Topology.LEAF_SPINE
    if contender.strategy == "hierarchical-ring" and not nested:
        return "one worker per machine and one switch: no workers are nearer to one another than to the rest; give --leaf-spine"
    return None
