"""Every strategy side by side on one network: the options with which each takes part, and the scenario that runs them
all.

Options are those that suit any model and network: a strategy that searches for its own setting does so, whole tensors
are cut evenly over servers if the strategy leaves that open, and everything else stays at its default. Adding
gradients, copying and software cost nothing unless their costs are set, so that the comparison is about the network.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gradwire.documents import Document, DocumentTable, DocumentValue, list_of, table_at
from gradwire.faults import InputFault
from gradwire.nearest_names import question
from gradwire.scenario.limits import MOST_POINTS
from gradwire.scenario.loading import resolve
from gradwire.scenario.overrides import flattened
from gradwire.scenario.schema import PointSection
from gradwire.workloads.engines.collective_routes import ONLY, option_of
from gradwire.workloads.engines.collectives.choice import ALGORITHMS, AUTO
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.strategy_registry import strategy, strategy_names
from gradwire.workloads.trace_replay.replay_strategy import NAME, ReplayOptions
from gradwire.workloads.trace_replay.replay_strategy import NAME as REPLAY
from gradwire.workloads.traces.workload import Kind, Workload

ORIGIN = "gradwire compare"
DECIDED = ("strategy", "chart", "left_out")
"""Keys of a scenario that say what is ranked and how; the line-up alone sets them, but for the strategies' options."""
OPTIONS = "strategy.options."
"""Beginning of the keys of strategies' options."""
PARAMETER_SERVER, ALLREDUCE, SWITCHES, PLUG_IN = "parameter server", "allreduce", "support by switches", "plug-in"
WARMUP, ITERATIONS = "steady", 2
"""Warm-up and number of iterations for comparisons of large models and recorded jobs. All others have the defaults of a
scenario, so that `run` gives the same number."""
LEAVES = SPINES = 2
ZERO_LIKE_DDP: DocumentTable = {"parameters": "fp32", "gradients": "fp32", "bucket_parameters": 25 * 2**20 // 4}
"""The formats that the others have, and buckets as large as DDP's: DeepSpeed's have room for most models whole."""


@dataclass(frozen=True)
class Contender:
    """A strategy with the options with which it takes part in a comparison."""

    strategy: str
    family: str
    options: DocumentTable = field(default_factory=dict)
    #: Whether its plan has a random order, so that one seed says little.
    random: bool = False
    #: Whether it does not send all gradients of every step, and so trains something else than the others.
    partial: bool = False
    #: Options that tell it from others of the same strategy.
    told_by: tuple[str, ...] = ()


CONTENDERS = (
    Contender("vanilla", PARAMETER_SERVER, random=True),
    Contender("partition-slicing", PARAMETER_SERVER, random=True),
    Contender("geryon", PARAMETER_SERVER, {"rule": "search"}, random=True),
    Contender("kvstore", PARAMETER_SERVER),
    Contender("p3-slicing", PARAMETER_SERVER),
    Contender("p3", PARAMETER_SERVER),
    Contender("tictac", PARAMETER_SERVER),
    Contender("tictac-slicing", PARAMETER_SERVER),
    Contender("netops-ps", PARAMETER_SERVER, {"placement": "split"}),
    Contender("ring", ALLREDUCE),
    Contender("hierarchical-ring", ALLREDUCE, {"inside": "scatter-gather"}),
    Contender("butterfly", ALLREDUCE),
    Contender("halving-doubling", ALLREDUCE),
    Contender("double-tree", ALLREDUCE),
    Contender("butterfly-mixing", ALLREDUCE),
    Contender("layer-allreduce", ALLREDUCE),
    Contender("horovod", ALLREDUCE),
    Contender("lazy-allreduce", ALLREDUCE),
    Contender("ddp", ALLREDUCE),
    Contender("megatron", ALLREDUCE),
    Contender("fsdp", ALLREDUCE, {"parameters": "fp32"}),
    Contender("zero1", ALLREDUCE, ZERO_LIKE_DDP),
    Contender("zero2", ALLREDUCE, ZERO_LIKE_DDP),
    Contender("csc", ALLREDUCE, random=True, partial=True),
    Contender("diloco", ALLREDUCE, partial=True),
    Contender("multicast-ps", SWITCHES, {"placement": "split"}),
    Contender("aggregation-ps", SWITCHES, {"placement": "split"}),
    Contender("multicast-aggregation-ps", SWITCHES, {"placement": "split"}),
    Contender("ring-multicast", SWITCHES),
)
RECORDED, SERVE = "recorded job", "serve"
FAMILIES = {contender.strategy: contender.family for contender in CONTENDERS} | {REPLAY: RECORDED}
RANDOM = {contender.strategy: contender.random for contender in CONTENDERS} | {REPLAY: False}
PARTIAL = tuple(contender.strategy for contender in CONTENDERS if contender.partial)


def contenders(names: Sequence[str] = ()) -> list[Contender]:
    """The named ones, or all that train, plug-ins with their default options included. Raises InputFault for a name that does not
    exist, or does not train."""
    for name in names:
        if not strategy(name).trains:
            raise InputFault(
                f"strategy '{name}' does not train, so that its iterations cannot be ranked beside those of others"
            )
    known = {contender.strategy: contender for contender in CONTENDERS}
    installed = [*known, *(name for name in strategy_names() if name not in known and strategy(name).trains)]
    # As in `is_random`, a plug-in is taken to draw from the seed.
    return [known.get(name, Contender(name, PLUG_IN, random=True)) for name in dict.fromkeys(names or installed)]


def shared_section(base: DocumentTable) -> PointSection:
    """Validates the settings that all strategies share. Raises InputFault for faults that do not depend on the
    strategy, and for keys that `base` may not have."""
    swept = [key for key in table_at(base, "sweep") if not key.startswith(OPTIONS)]
    if swept:
        raise InputFault(
            f"--set {', '.join(swept)}: strategies are ranked at one setting; a list is swept by `gradwire run`"
        )
    decided = [
        key for key in flattened({key: base[key] for key in DECIDED if key in base}) if not key.startswith(OPTIONS)
    ]
    if decided:
        raise InputFault(
            f"--set {', '.join(decided)}: `gradwire compare` decides this itself; --strategy chooses strategies, "
            f"--set {OPTIONS}... sets an option of those that have it, and `gradwire run` runs a scenario of your own"
        )
    document = {"title": ORIGIN, **_without_options(base), "strategy": {"name": CONTENDERS[0].strategy}}
    return resolve(document, ORIGIN, ORIGIN).points[0].section


def _without_options(base: DocumentTable) -> Document:
    return copy.deepcopy({key: value for key, value in base.items() if key not in ("strategy", "sweep")})


def asked_options(base: DocumentTable) -> dict[str, list[DocumentValue]]:
    """The strategies' options that `base` sets or sweeps, each with its values."""
    asked = {key: [value] for key, value in table_at(base, "strategy", "options").items()}
    swept = table_at(base, "sweep")
    return asked | {key.removeprefix(OPTIONS): list_of(values) for key, values in swept.items()}


def check_options(chosen: Sequence[Contender], asked: Mapping[str, list[DocumentValue]]) -> None:
    """Rejects an option that none of the contenders has, and one without values. Raises InputFault."""
    known = {option for contender in chosen for option in strategy(contender.strategy).options.model_fields}
    for option, values in asked.items():
        if not values:
            raise InputFault(f"--set {OPTIONS}{option}: the list of values is empty")
        if option not in known:
            hint = question(option, sorted(known)) or f"there are {', '.join(sorted(known)) or 'none'}"
            raise InputFault(f"--set {OPTIONS}{option}: no strategy that takes part has this option; {hint}")


def variants(contender: Contender, asked: Mapping[str, list[DocumentValue]]) -> list[Contender]:
    """The contender with each combination of the asked values of options that it has; itself if it has none of them."""
    had = [option for option in asked if option in strategy(contender.strategy).options.model_fields]
    combinations = itertools.product(*(asked[option] for option in had))
    settings = [dict(zip(had, values, strict=True)) for values in combinations]
    return [replace(contender, options={**contender.options, **chosen}) for chosen in settings]


def lacking(contender: Contender, asked: Mapping[str, list[DocumentValue]]) -> dict[str, str]:
    """Options that are asked of a contender and that it does not have, in words, with what happens instead."""
    had = strategy(contender.strategy).options.model_fields
    return {
        f"{contender.strategy} with {option}": f"no option '{option}': takes part as it is"
        for option in asked
        if option not in had
    }


def is_random(section: PointSection) -> bool:
    """Returns whether the seed decides a point's time: by a random order, the choice of spines, or workers'
    times.

    Whether an option makes an order random is not known from here: it is known from points that ran with several seeds.
    """
    # Whether a plug-in draws from the seed cannot be known from here, so it is taken to.
    if section.strategy.name == SERVE:
        return _draws_arrivals(section) or _random_setting(section)
    return RANDOM.get(section.strategy.name, True) or _random_setting(section)


def _draws_arrivals(section: PointSection) -> bool:
    options = section.strategy.options
    return options.get("rate") is not None and options.get("arrivals", "poisson") == "poisson"


def _random_setting(shared: PointSection) -> bool:
    """Returns whether seeds decide times for any strategy."""
    variation = shared.costs.compute_variation
    return max(shared.fabric.spines, shared.fabric.cores) > 1 or (variation is not None and variation.value > 0)


def lineup(base: DocumentTable, chosen: Sequence[Contender], seeds: int) -> Document:
    """The scenario document in which the contenders run on the cluster, network and model of `base`.

    Those with a random order run with so many seeds, from the one of `base` on. All do where several spines share the traffic, for
    the seed decides which spine a pair of hosts uses, and where workers' times are drawn. The options that `base` asks for are already the
    contenders' (`variants`). Raises InputFault.
    """
    if seeds > MOST_POINTS:  # before there is a list of them
        raise InputFault(f"seeds: {seeds:,} would be as many points of each strategy; must be at most {MOST_POINTS:,}")
    shared = shared_section(base)
    document = _without_options(base)
    first = shared.run.seed
    cases: dict[bool, dict[str, list[DocumentValue]]] = {}
    for contender in chosen:
        random = contender.random or _random_setting(shared)
        case = cases.setdefault(random, {"strategy": []})
        case["strategy"].append({"name": contender.strategy, "options": _options(contender, shared)})
        case["run.seed"] = list(range(first, first + seeds)) if random else [first]
    document["strategy"] = {"name": chosen[0].strategy}
    document["cases"] = list(cases.values())
    document["chart"] = "ranking"
    return document


def _options(contender: Contender, shared: PointSection) -> Document:
    """Its options; a hierarchical ring's groups are machines or, where a machine has one worker, leaves."""
    options = dict(contender.options)
    cluster, fabric = shared.cluster, shared.fabric
    nested = fabric.topology.structure.has_several_switches
    if contender.strategy == "hierarchical-ring" and cluster.workers_per_host == 1 and nested:
        options["group"] = max(1, cluster.workers // (fabric.pods * fabric.leaves))
    return options


def refusal(contender: Contender, shared: PointSection) -> str | None:
    """Why a contender would say nothing here although it can run, or None."""
    nested = shared.cluster.workers_per_host > 1 or shared.fabric.topology.structure.has_several_switches
    if contender.strategy == "hierarchical-ring" and not nested:
        return "one worker per machine and one switch: no workers are nearer to one another than to the rest; give --leaf-spine"
    return None


def replays(trace: Workload, names: Sequence[str] = ()) -> list[Contender]:
    """The replay as it is by default; with each other algorithm of each kind of collective that the trace has, one at a time; and with
    priorities, by need and as recorded where they are.
    """
    if others := [name for name in names if name != NAME]:
        raise InputFault(f"--strategy {', '.join(others)}: a trace goes by '{NAME}'; its options say how")
    defaults = ReplayOptions()
    present = set(np.unique(trace.tasks.kind).tolist())
    tried: list[Document] = [{}]
    for kind in Collective:
        option = option_of(kind)
        if kind not in ONLY and int(Kind[kind.name]) in present:
            others_of_kind: list[Document] = [
                {option: name} for name in (*ALGORITHMS[kind], AUTO) if name != getattr(defaults, option)
            ]
            tried += [options for options in others_of_kind if options not in tried]
    if len(np.unique(trace.tasks.call[trace.tasks.call >= 0])) > 1:
        tried.append({"priorities": "needed-first"})
    if len(np.unique(trace.tasks.priority)) > 1:
        tried.append({"priorities": "recorded"})
    return [Contender(NAME, RECORDED, options, told_by=tuple(options)) for options in tried]
