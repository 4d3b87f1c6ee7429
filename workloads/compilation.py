"""From a point to the fabric that it needs and the plans that it replays."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gradwire.faults import InputFault
from gradwire.topo.fabric import Fabric
from gradwire.workloads.job import Cluster, Costs, Job
from gradwire.workloads.models import model
from gradwire.workloads.models.devices import ComputeTime, compute_time, with_modules_of
from gradwire.workloads.models.made_up import made_up, made_up_times
from gradwire.workloads.models.profile import Profile
from gradwire.workloads.models.synthetic import base_name
from gradwire.workloads.plan import Plan
from gradwire.workloads.scenario.explanations import reason
from gradwire.workloads.scenario.schema import ClusterSection, CostsSection, PointSection
from gradwire.workloads.stand_in import StandIn
from gradwire.workloads.strategies import strategy
from gradwire.workloads.strategies.strategy import Options, Strategy


@dataclass(frozen=True)
class Compiled:
    """A point ready to run. plans: candidates by label; more than one: the run keeps the fastest."""

    fabric: Fabric
    job: Job
    plans: Mapping[str, Plan]


def compile_point(section: PointSection) -> Compiled:
    """Compiles a point. Raises InputFault, with the key, for what does not exist or fit together."""
    chosen = _strategy(section)
    fabric = fabric_of(section)
    fabric.ports_named(section.run.capture)  # refuses what is none
    job = replace(job_of(section, chosen), fabric=fabric)
    try:
        return Compiled(fabric, job, chosen.compile(job, _options(chosen, section)))
    except OverflowError as error:
        raise InputFault(
            "an op takes longer, or is larger, than 64 bits count in nanoseconds and bytes: look for what is too large or too small in "
            "model.batch, model.speedup, the model's times and costs"
        ) from error


def fabric_of(section: PointSection) -> Fabric:
    """The fabric that a point needs. Raises InputFault, with the key, for what does not exist or fit together."""
    chosen = _strategy(section)
    classes = chosen.classes(_options(chosen, section))
    fabric = _fabric(section, job_of(section, chosen), classes)
    return replace(fabric, aggregators=chosen.aggregators)


@contextmanager
def _blamed(key: str) -> Iterator[None]:
    """Names the key whose value is at fault, for what is looked up by it."""
    try:
        yield
    except InputFault as fault:
        raise InputFault(f"{key}: {fault}") from fault


def _strategy(section: PointSection) -> Strategy:
    with _blamed("strategy.name"):
        return strategy(section.strategy.name)


def _model(name: str) -> Profile:
    with _blamed("model.name"):
        return model(name)


def job_of(section: PointSection, chosen: Strategy) -> Job:
    """What the strategy compiles; for a cluster that stands for a larger one, with its costs and rate scaled."""
    chosen_model = made_up(section.model) if section.model.layers else _model(section.model.name)
    profile = chosen_model.fused(section.model.fused_parameters)
    batch = section.model.batch or profile.batch
    workers = section.cluster.workers
    servers = section.cluster.servers or workers
    job = Job(
        profile=profile,
        compute=made_up_times(section.model) if section.model.layers else _compute(section, batch),
        cluster=Cluster(
            workers,
            servers if chosen.needs_servers else 0,
            section.cluster.colocated,
            section.cluster.workers_per_host,
        ),
        batch=batch,
        seed=section.run.seed,
        costs=_costs(section.costs),
        rate_bps=section.fabric.rate,
        relative_times=_drawn_times(section),
    )
    meant = _stands_for(section.cluster)
    if meant is not None and job.relative_times:
        raise InputFault(
            "costs.compute_variation: a cluster that stands for a larger one shows no difference between workers; leave out it or "
            "cluster.stands_for"
        )
    return job if meant is None else _standing_in(job, meant, chosen, _options(chosen, section))


def _drawn_times(section: PointSection) -> tuple[float, ...]:
    """Each worker's factor on its compute times: a draw of its own, the same with every model, strategy and network."""
    variation = section.costs.compute_variation
    if variation is None or not variation.value:
        return ()
    spread = math.sqrt(math.log1p(variation.value**2))
    draws = (random.Random(f"{section.run.seed}/compute/{worker}") for worker in range(section.cluster.workers))
    return tuple(draw.lognormvariate(-(spread**2) / 2, spread) for draw in draws)


def _stands_for(section: ClusterSection) -> Cluster | None:
    if section.stands_for is None:
        return None
    if section.stands_for < section.workers or section.stands_for % section.stands_for_per_host:
        raise InputFault(
            f"cluster.stands_for = {section.stands_for}: must be at least cluster.workers = {section.workers}, and a multiple of "
            f"cluster.stands_for_per_host = {section.stands_for_per_host}"
        )
    return Cluster(section.stands_for, workers_per_host=section.stands_for_per_host)


def _standing_in(job: Job, meant: Cluster, chosen: Strategy, options: Options) -> Job:
    if chosen.load is None:
        raise InputFault(
            f"cluster.stands_for: not known how strategy '{chosen.name}' grows with workers; allreduces by one algorithm are"
        )
    scaling = StandIn(chosen.load(job.cluster, options), chosen.load(meant, options))
    rate_bps = None if job.rate_bps is None else scaling.rate_bps(job.rate_bps)
    return replace(job, costs=scaling.costs(job.costs), rate_bps=rate_bps, stands_for=meant)


def _costs(section: CostsSection) -> Costs:
    free = float("inf")
    return Costs(
        aggregation_bytes_per_s=section.aggregation_rate.value if section.aggregation_rate else free,
        message_latency_s=section.message_latency.value if section.message_latency else 0.0,
        local_bytes_per_s=section.local_rate.value if section.local_rate else free,
        copy_bytes_per_s=section.copy_rate.value if section.copy_rate else free,
        merge_s=section.slice_merge.value if section.slice_merge else 0.0,
    )


def _compute(section: PointSection, batch: int) -> ComputeTime:
    chosen = section.model
    assert chosen.device is not None  # the schema wants either a device or layers
    times = partial(
        compute_time,
        batch=batch,
        iteration_s=chosen.iteration_time,
        forward_s=chosen.forward_time,
        speedup=chosen.speedup,
    )
    grown = _model(chosen.name)
    with _blamed("model.device"):
        base = model(base_name(chosen.name)) if chosen.modules_device else grown
        computed = times(base, chosen.device)
    if chosen.modules_device:
        with _blamed("model.modules_device"):
            computed = with_modules_of(computed, grown, times(grown, chosen.modules_device))
    if chosen.iteration_time is not None and chosen.iteration_time_source:
        return replace(computed, source=chosen.iteration_time_source)
    if chosen.forward_time is not None:
        own = chosen.forward_time_source or "given by the scenario"
        text = f"forward pass of {chosen.forward_time:g} s: {own}; backward pass: {computed.source}"
        return replace(computed, source=text)
    return computed


def _options(chosen: Strategy, section: PointSection) -> Options:
    try:
        return chosen.options.model_validate(section.strategy.options)
    except ValidationError as error:
        known = ", ".join(chosen.options.model_fields) or "none"
        defects = "; ".join(": ".join([*map(str, d["loc"]), _defect(d)]) for d in error.errors())
        raise InputFault(f"strategy.options of '{chosen.name}': {defects} (options: {known})") from error


def _defect(defect: ErrorDetails) -> str:
    return "unknown option" if defect["type"] == "extra_forbidden" else reason(defect)


def _fabric(section: PointSection, job: Job, needed_classes: int) -> Fabric:
    wanted = section.fabric
    if wanted.classes is not None and wanted.classes < needed_classes:
        raise InputFault(
            f"fabric.classes = {wanted.classes}: strategy '{section.strategy.name}' needs at least {needed_classes}"
        )
    return Fabric(
        hosts=job.cluster.hosts,
        rate_bps=job.rate_bps or wanted.rate,
        topology=wanted.topology,
        leaves=wanted.leaves,
        spines=wanted.spines,
        oversubscription=wanted.oversubscription,
        classes=wanted.classes or needed_classes,
        mtu_bytes=wanted.mtu_bytes,
        gso_bytes=wanted.gso,
        loss=wanted.loss,
        fair_queues=wanted.fair_queues,
        seed=section.run.seed,
    )
