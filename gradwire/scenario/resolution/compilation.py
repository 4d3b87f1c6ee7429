"""Makes the fabric of a scenario's point, and the plans that it replays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeVar

import numpy as np

from gradwire.datatypes.plan import Plan, Role
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.reading_budget import reading_budget
from gradwire.scenario.definitions.conversion import catalogue_of, made_up, made_up_times
from gradwire.scenario.explanations import validated_options
from gradwire.scenario.resolution.costs import cost_defects, costs_of, drawn_times, gpu_of
from gradwire.scenario.resolution.job_placement import hosts_needed, placed, refuse_thousands
from gradwire.scenario.resolution.network_fit import network_defects
from gradwire.scenario.resolution.networks import fabric_of, refuse_rdma, refuse_sprayed
from gradwire.scenario.resolution.part_place import part_defects
from gradwire.scenario.resolution.transport_fit import buffer_bytes, congestion_defects
from gradwire.scenario.schema import ClusterSection, ModelSection, PointSection
from gradwire.scenario.sections.fault import hosts_named as hosts_of_tenants
from gradwire.scenario.sections.fault import may_lose
from gradwire.scenario.sections.program import class_beside
from gradwire.scenario.sections.program import hosts_named as hosts_of_programs
from gradwire.workloads.called_strategy import classes_of_strategy, has_aggregators, plans_of_strategy
from gradwire.workloads.divided_messages import divided
from gradwire.workloads.engines.nccl.options import connections_of
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.models.catalogue import Catalogue
from gradwire.workloads.models.compute_times import ComputeTime, compute_time, with_modules_of
from gradwire.workloads.models.profile import Profile
from gradwire.workloads.models.resized import shortened, shortened_time
from gradwire.workloads.models.synthetic import base_name
from gradwire.workloads.stand_in import StandIn
from gradwire.workloads.strategy import Options, Strategy
from gradwire.workloads.strategy_registry import strategy
from gradwire.workloads.trace_replay.recorded_job import recorded_profile, recorded_times, replaying, trace_of
from gradwire.workloads.trace_replay.replay_strategy import REPLAY, classes_of

Part = TypeVar("Part")
OF_ONE_JOB = ("model.", "strategy.", "cluster.", "costs.")
"""Beginnings of the keys that every job has."""


@dataclass(frozen=True)
class ResolvedPoint:
    """The things that a point's names stand for: its strategy with its options, the job, and the fabric.

    Each is looked up once, when it is first needed, because a report of an old run must not fail over options that it does not need. A
    scenario's point has its own (`Point.resolved`). Every attribute raises InputFault, with the key, for what is wrong.
    """

    section: PointSection

    @cached_property
    def strategy(self) -> Strategy:
        """The strategy that the point names."""
        name = self.section.strategy.name
        if self.section.model.trace is not None and name != REPLAY.name:
            raise InputFault(f"strategy.name = '{name}': a trace (model.trace) goes by strategy '{REPLAY.name}'")
        with _blamed("strategy.name"):
            return strategy(name, self.section.defined.strategies)

    @cached_property
    def catalogue(self) -> Catalogue:
        """The models and devices that the point can name."""
        return catalogue_of(self.section.defined)

    @cached_property
    def options(self) -> Options:
        """The strategy's options."""
        return validated_options(self.strategy, self.section.strategy.options)

    @cached_property
    def jobs(self) -> Mapping[str, ResolvedPoint]:
        """The point as it is for each of several jobs, by name; empty for a point of one."""
        return {name: ResolvedPoint(self.section.of_job(name)) for name in self.section.job}

    @cached_property
    def hosts_of_jobs(self) -> Mapping[str, tuple[int, ...]]:
        """Hosts of each of several jobs, by index of the network's hosts."""
        return placed(self.section.job, self._hosts_needed, self.fabric, self.section.run.seed)

    @property
    def workers_of_jobs(self) -> dict[str, int]:
        """Number of workers of each of several jobs; empty for a point of one."""
        return {name: job.job.cluster.workers for name, job in self.jobs.items()}

    @property
    def _hosts_needed(self) -> dict[str, int]:
        return {name: job.job.cluster.ports for name, job in self.jobs.items()}

    @cached_property
    def unsent_bytes(self) -> int | None:
        """Bytes of a connection that may wait unsent when a SEND ends; None if its last byte has left the host by
        then."""
        if self.jobs:
            return _of_all({name: job.unsent_bytes for name, job in self.jobs.items()})
        return self.section.transport.unsent_bytes(self.strategy.senders)

    @cached_property
    def compute(self) -> ComputeTime:
        """Time that a worker computes, with any strategy."""
        wanted = self.section.model
        profile = _profile(wanted, self.catalogue)
        compute = _compute_time(wanted, profile, self.catalogue)
        return compute if wanted.blocks is None else shortened_time(compute, profile, wanted.blocks)

    @cached_property
    def job(self) -> Job:
        """The job that the strategy compiles, without the fabric. A cluster that stands for a larger one has its costs
        and rate scaled."""
        job = _job(self.section, self.catalogue, needs_servers=self.strategy.needs_servers)
        if self.section.model.trace is not None:
            if self.section.cluster.stands_for is not None:
                raise InputFault("cluster.stands_for: a trace's ranks stand for themselves; model.grow adds ranks")
            return replaying(job, trace_of(self.section.model.trace), self.section.model.grow)
        if self.strategy is REPLAY:
            raise InputFault(
                f"strategy.name = '{REPLAY.name}': there is nothing to replay: give model.trace, or another strategy"
            )
        meant = _stands_for(self.section.cluster)
        if meant is None:
            return job
        if job.relative_times:
            raise InputFault(
                "costs.compute_variation: a cluster that stands for a larger one shows no difference between workers; leave out it or "
                "cluster.stands_for"
            )
        return _standing_in(job, meant, self.strategy, self.options)

    @cached_property
    @reading_budget("fabric")
    def fabric(self) -> Fabric:
        """The fabric that the point needs."""
        if self.jobs:
            return self._shared_fabric()
        built = _fabric(self.section, self.job.cluster.ports, self.job.rate_bps, self._classes)
        return replace(
            built, aggregators=has_aggregators(self.strategy, self.options), faulty=may_lose(self.section.fault)
        )

    @property
    def _classes(self) -> int:
        """Traffic classes that the point needs, or of several jobs this one."""
        recorded = 1 if self.job.trace is None else classes_of(self.job.trace, self.options)
        return max(classes_of_strategy(self.strategy, self.options), recorded, self._classes_beside)

    @property
    def _classes_beside(self) -> int:
        """Traffic classes that programs next to a strategy need."""
        return 1 + max(map(class_beside, self.section.program.values()), default=0)

    def _shared_fabric(self) -> Fabric:
        """The fabric of several jobs: with hosts for all, and with the classes that each needs behind its priority."""
        classes = self._classes_beside
        for name, job in self.jobs.items():
            if has_aggregators(job.strategy, job.options):
                raise InputFault(
                    f"job.{name}.strategy.name = '{job.strategy.name}': adds up on switches, which jobs that share a network do not have"
                )
            classes = max(classes, job._classes + self.section.job[name].priority)
        others = (*hosts_of_programs(self.section.program), *hosts_of_tenants(self.section.fault))
        hosts = hosts_needed(self.section.job, self._hosts_needed, others)
        built = _fabric(self.section, hosts, self.section.fabric.rate, classes)
        return replace(built, faulty=may_lose(self.section.fault))

    def _misfits_of_jobs(self) -> tuple[str, ...]:
        lines = congestion_defects(self.section) + cost_defects(self.section)
        lines += [
            f"job.{name}.{line}" if line.startswith(OF_ONE_JOB) else line
            for name, job in self.jobs.items()
            for line in job._own_misfits()
        ]
        if not lines:
            try:
                _ = self.hosts_of_jobs, self.unsent_bytes
            except InputFault as fault:
                lines += str(fault).splitlines()
            else:
                lines += network_defects(self.section, self.fabric, 0, self.workers_of_jobs)
        return tuple(dict.fromkeys(lines))

    @property
    def buffer_bytes(self) -> int:
        """Size of the buffer of each connection and direction: the one that the point asks for, or the one that its
        paths need."""
        return buffer_bytes(self.section, self.fabric)

    @cached_property
    def misfits(self) -> tuple[str, ...]:
        """Describes settings that do not exist or do not go together, one line each, for every part that can be judged
        without the others."""
        if self.jobs:
            return self._misfits_of_jobs()
        own = self._own_misfits(has_network=True)
        return tuple(dict.fromkeys((*congestion_defects(self.section), *cost_defects(self.section), *own)))

    def _own_misfits(self, *, has_network: bool = False) -> tuple[str, ...]:
        """Describes settings that do not exist or do not go together, one line each. has_network: whether the network is
        this job's; one that several jobs share is as large as all of them need."""
        lines: list[str] = []

        def attempt(part: Callable[[], Part]) -> Part | None:
            try:
                return part()
            except InputFault as fault:
                lines.extend(str(fault).splitlines())
                return None

        options = attempt(lambda: self.options)
        if options is not None:
            attempt(lambda: self.unsent_bytes)
        catalogue = self.catalogue
        profile = attempt(lambda: _profile(self.section.model, catalogue))
        if profile is not None:
            attempt(lambda: _compute_time(self.section.model, profile, catalogue))
        cluster = attempt(
            lambda: _cluster(self.section.cluster, needs_servers=options is None or self.strategy.needs_servers)
        )
        if has_network and cluster is not None:
            classes = 1 if options is None else attempt(partial(classes_of_strategy, self.strategy, options)) or 1
            attempt(lambda: _fabric(self.section, cluster.ports, None, classes))
        if has_network and (fabric := attempt(lambda: self.fabric)) is not None:
            lines += part_defects(self.section, fabric)
            lines += network_defects(self.section, fabric, self.job.cluster.workers)
        return tuple(dict.fromkeys(lines))


@dataclass(frozen=True)
class Compiled:
    """A point ready to run."""

    strategy: Strategy
    fabric: Fabric
    job: Job
    #: Candidates by label. Of several, the run keeps the fastest.
    plans: Mapping[str, Plan]
    #: Bytes of a connection that may wait unsent when a SEND ends; None: it ends when its last byte has left the host.
    unsent_bytes: int | None


def compile_point(
    section: PointSection, plans_of: Callable[[ResolvedPoint, Job], Mapping[str, Plan]] | None = None
) -> Compiled:
    """Resolves a point and compiles it, as `compile_resolved` does."""
    return compile_resolved(ResolvedPoint(section), plans_of)


def compile_resolved(
    point: ResolvedPoint, plans_of: Callable[[ResolvedPoint, Job], Mapping[str, Plan]] | None = None
) -> Compiled:
    """Compiles a point. Raises InputFault, with the key, for settings that do not exist or do not go together.

    plans_of: gives the plans of a point, whose job has its fabric; the default compiles them.
    """
    point.fabric.ports_named(point.section.run.capture)  # rejects unknown port names
    unsent_bytes = point.unsent_bytes
    job = replace(point.job, fabric=point.fabric)
    return Compiled(point.strategy, point.fabric, job, (plans_of or compile_plans)(point, job), unsent_bytes)


def compile_plans(point: ResolvedPoint, job: Job, shared: Fabric | None = None) -> Mapping[str, Plan]:
    """The candidate plans of a point, whose job has its fabric. shared: the fabric, if it is one of several jobs. Raises
    InputFault."""
    refuse_thousands(job.cluster)
    try:
        plans = plans_of_strategy(point.strategy, job, point.options, shared or point.fabric)
    except OverflowError as error:
        raise InputFault(
            "an op takes longer, or is larger, than 64 bits count in nanoseconds and bytes: look for what is too large or too small in "
            "model.batch, model.speedup, the model's times and costs"
        ) from error
    connections = connections_of(point.section.transport.connections, point.options)
    speed = round(job.costs.speed_while_communicating, 3)  # agents count in thousandths
    placed = {
        label: replace(_on_nics(plan, job.cluster), speed_while_communicating=speed) for label, plan in plans.items()
    }
    return {label: divided(plan, connections) for label, plan in placed.items()}


def _on_nics(plan: Plan, cluster: Cluster) -> Plan:
    """Places each rank at the NIC of its machine that it uses. To the strategy, a host was a machine. Ranks on switches
    stay there."""
    if cluster.nics_per_host == 1:
        return plan
    ports = plan.rank_host.copy()
    for role, port_of in ((Role.WORKER, cluster.worker_port), (Role.SERVER, cluster.server_port)):
        ranks = np.flatnonzero(plan.rank_role == role)
        ports[ranks] = [port_of(number) for number in range(len(ranks))]
    return replace(plan, rank_host=ports, nics_per_host=cluster.nics_per_host)


def _of_all(unsent_bytes: Mapping[str, int | None]) -> int | None:
    """Bytes that may wait unsent when a SEND ends, or None, for all jobs of a run. Raises InputFault if the systems of
    the jobs differ."""
    if len(set(unsent_bytes.values())) > 1:
        listed = ", ".join(f"'{name}'" for name, each in unsent_bytes.items() if each is None)
        raise InputFault(
            f"transport.send_ends: a message of {listed} is sent when it has left, and one of the other jobs when a socket has it: say for "
            'all of them "departure" or "buffered"'
        )
    return next(iter(unsent_bytes.values()))


@contextmanager
def _blamed(key: str) -> Iterator[None]:
    """Puts the key whose value is at fault in front of the fault's message."""
    try:
        yield
    except InputFault as fault:
        raise InputFault(f"{key}: {fault}") from fault


def _profile(wanted: ModelSection, catalogue: Catalogue) -> Profile:
    if wanted.trace is not None:
        with _blamed("model.trace"):
            return recorded_profile(wanted.name, trace_of(wanted.trace))
    if wanted.layers:
        return made_up(wanted)
    with _blamed("model.name"):
        return catalogue.model(wanted.name)


def _compute_time(wanted: ModelSection, profile: Profile, catalogue: Catalogue) -> ComputeTime:
    if wanted.trace is not None:
        grown = ", ".join(map(str, wanted.grow or ()))
        more = f"; on more ranks by data parallelism (model.grow = {grown})" if grown else ""
        return recorded_times(trace_of(wanted.trace), wanted.trace + more)
    return made_up_times(wanted) if wanted.layers else _compute(wanted, profile, catalogue)


def _cluster(wanted: ClusterSection, *, needs_servers: bool) -> Cluster:
    servers = (wanted.servers or wanted.workers) if needs_servers else 0
    return Cluster(wanted.workers, servers, wanted.colocated, wanted.workers_per_host, wanted.nics_per_host)


def _job(section: PointSection, catalogue: Catalogue, *, needs_servers: bool) -> Job:
    """The job as the scenario says it, before a cluster stands for a larger one."""
    wanted = section.model
    profile = _profile(wanted, catalogue)
    compute = _compute_time(wanted, profile, catalogue)
    if wanted.blocks is not None:
        profile, compute = shortened(profile, wanted.blocks), shortened_time(compute, profile, wanted.blocks)
    return Job(
        profile=profile.fused(wanted.fused_parameters),
        compute=compute,
        cluster=_cluster(section.cluster, needs_servers=needs_servers),
        batch=wanted.batch or profile.batch,
        seed=section.run.seed,
        costs=costs_of(section.costs, _link_bytes_per_s(wanted, catalogue)),
        gpu=gpu_of(wanted.device),
        memory_bytes_per_s=_memory_bytes_per_s(wanted, catalogue),
        rate_bps=section.fabric.rate,
        relative_times=drawn_times(section),
    )


def _memory_bytes_per_s(wanted: ModelSection, catalogue: Catalogue) -> float | None:
    if wanted.device is None or wanted.device not in catalogue.devices:
        return None
    return catalogue.device(wanted.device).memory_bytes_per_s


def _link_bytes_per_s(wanted: ModelSection, catalogue: Catalogue) -> float | None:
    if wanted.device is None or wanted.device not in catalogue.devices:
        return None
    return catalogue.device(wanted.device).link_bytes_per_s


def _stands_for(section: ClusterSection) -> Cluster | None:
    if section.stands_for is None:
        return None
    if section.nics_per_host > 1:
        raise InputFault(
            f"cluster.stands_for: leave out cluster.nics_per_host = {section.nics_per_host}: it is known what an allreduce sends by "
            "a machine's only port, and not what it would send by each of several"
        )
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


def _compute(wanted: ModelSection, profile: Profile, catalogue: Catalogue) -> ComputeTime:
    assert wanted.device is not None  # the schema wants either a device or layers
    times = partial(
        compute_time,
        batch=wanted.batch or profile.batch,
        iteration_s=wanted.iteration_time,
        forward_s=wanted.forward_time,
        speedup=wanted.speedup,
        catalogue=catalogue,
    )
    with _blamed("model.device"):
        base = catalogue.model(base_name(wanted.name)) if wanted.modules_device else profile
        computed = times(base, wanted.device)
    if wanted.modules_device:
        with _blamed("model.modules_device"):
            computed = with_modules_of(computed, profile, times(profile, wanted.modules_device))
    if wanted.iteration_time is not None and wanted.iteration_time_source:
        return replace(computed, source=wanted.iteration_time_source)
    if wanted.forward_time is not None:
        own = f"{wanted.forward_time:g} s: {wanted.forward_time_source or 'given by the scenario'}"
        return replace(computed, source=f"forward pass of {own}; backward pass: {computed.source}")
    return computed


def _fabric(section: PointSection, hosts: int, rate_bps: float | None, needed_classes: int) -> Fabric:
    wanted = section.fabric
    if wanted.classes is not None and wanted.classes < needed_classes:
        raise InputFault(
            f"fabric.classes = {wanted.classes}: strategy '{section.strategy.name}' needs at least {needed_classes}"
        )
    refuse_rdma(wanted)
    refuse_sprayed(wanted, programs=bool(section.program))
    built = fabric_of(
        wanted,
        hosts,
        section.defined,
        classes=needed_classes,
        seed=section.run.seed,
        nics_per_host=section.cluster.nics_per_host,
    )
    if section.transport.connections > 1 and wanted.fair_queues is None:
        # In fair queues, the last burst of a message takes turns with the first ones of the next one: 16 connections cost a ring of
        # 8 hosts at one switch up to 30 % of its time, and 0.2 % first come, first served.
        built = replace(built, fair_queues=False)
    if rate_bps in (None, wanted.rate):
        return built
    return replace(built.with_rates_times(rate_bps / wanted.rate), rate_bps=rate_bps)
