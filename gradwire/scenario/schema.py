"""The schema of scenario files. Validation rejects unknown keys, wrong units and wrong values, and names the key of each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from gradwire.datatypes.machine_size import DEFAULT_MEMORY_MB
from gradwire.documents import DocumentTable
from gradwire.faults import InputFault
from gradwire.scenario.sections.costs import CostsSection
from gradwire.scenario.sections.defined import DefinedSection
from gradwire.scenario.sections.fabric import FabricSection
from gradwire.scenario.sections.fault import FaultSection
from gradwire.scenario.sections.job import JobPlace
from gradwire.scenario.sections.part import PartSection
from gradwire.scenario.sections.program import ProgramSection
from gradwire.workloads.divided_messages import MOST_CONNECTIONS
from gradwire.workloads.fields import (
    LARGEST_RATIO,
    LARGEST_TENSOR_BYTES,
    MOST_ESTIMATED_WORKERS,
    MOST_SAMPLES,
    MOST_WORKERS,
    Because,
    DurationS,
    Groups,
    Names,
    Section,
    Share,
    SizeBytes,
)
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.strategy import UNSENT_BYTES, Senders

JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
LARGEST_SOCKET_BYTES = 2**31 - 1
"""The largest socket buffer accepted: the kernel takes these sizes as ints."""
LARGEST_CLUSTER = 10**6
"""Workers of a cluster that a smaller one stands for."""
MOST_ITERATIONS = 10**6
SHORTEST_SAMPLE_S = 1e-6
MOST_MEMORY_MB = 2**20
LARGEST_SEED = 2**63 - 1
BY_STAND_IN = Because("for more, let a few stand for all: cluster.stands_for")
Workers = Annotated[int, Field(ge=1, le=MOST_WORKERS), BY_STAND_IN]


class ClusterSection(Section):
    """The workers and servers, and the hosts that they run on."""

    workers: Annotated[int, Field(ge=1, le=MOST_ESTIMATED_WORKERS)]
    """Workers, each a GPU with a replica of the model. More than 1,024 are only estimated (docs/thousands.md)."""
    servers: Workers | None = None
    """Parameter servers; as many as workers by default."""
    colocated: bool = True
    """Whether servers share the workers' hosts."""
    workers_per_host: Workers = 1
    """GPUs of one host. They exchange data inside it, at `costs.local_rate` and `costs.local_latency`, and not over the network.
    `gpus_per_host` is another name of this key."""
    nics_per_host: Workers = 1
    """Network interfaces (NICs) of one host, each with `fabric.rate`: a divisor of `workers_per_host`, whose GPUs are divided among them in
    order; parameter servers take them in turn. What two GPUs of different hosts exchange goes from the NIC of the one to the NIC of the
    other. In plans, captures and reports each NIC counts as a host of the network: with 4 of them, the first host's are h1 to h4."""
    stands_for: int | None = Field(None, ge=2, le=LARGEST_CLUSTER)
    """Workers of a larger cluster that this one stands for. Costs and rates are given as those of the larger cluster."""
    stands_for_per_host: int = Field(1, ge=1, le=LARGEST_CLUSTER)
    """GPUs of one machine of that larger cluster."""


class LayerSection(Section):
    """A layer of a made-up model."""

    name: str = Field(min_length=1)
    """Name in plans and reports."""
    kind: LayerKind = LayerKind.OTHER
    """What it computes; some strategies treat fully connected layers in their own way."""
    size: list[Annotated[SizeBytes, Field(ge=0, le=LARGEST_TENSOR_BYTES)]] = Field(default_factory=list)
    """Bytes of the layer's gradients, one size per tensor."""
    forward: DurationS = Field(ge=0)
    """Time of the forward pass."""
    backward: DurationS = Field(ge=0)
    """Time of the backward pass."""
    inputs: list[str] | None = None
    """Names of the layers that it reads; by default, the layer before it."""


class ModelSection(Section):
    """The model that is trained, and how long one worker computes."""

    name: str
    """A model of `gradwire models`, with added modules if wanted (`inception-v3+25compute`); a model file of your own
    (`./my-model.toml`); or any name for a model with `layers` or a `trace`. A file's path is relative to the scenario, or
    to the current folder where the command line gives it."""
    device: str | None = None
    """The GPU whose times are used: one of `gradwire devices`, or a device file of your own (`./my-gpu.toml`)."""
    modules_device: str | None = None
    """The device that times the modules added by `name`, if it is not `device`."""
    layers: list[LayerSection] = Field(default_factory=list)
    """Layers of a made-up model, such as a paper's toy, in place of a built-in model. They have times and need no device."""
    batch: int | None = Field(None, ge=1, le=MOST_SAMPLES)
    """Samples that a worker processes in an iteration; by default as in the model's paper."""
    iteration_time: DurationS | None = Field(None, gt=0)
    """Time of an iteration of one worker alone, in place of the device's."""
    iteration_time_source: str | None = None
    """Where `iteration_time` comes from."""
    forward_time: DurationS | None = Field(None, gt=0)
    """Time of the whole forward pass, in place of the device's, which then decides the backward pass alone."""
    forward_time_source: str | None = None
    """Where `forward_time` comes from."""
    speedup: dict[LayerKind, Annotated[float, Field(ge=1 / LARGEST_RATIO, le=LARGEST_RATIO)]] = Field(
        default_factory=dict
    )
    """How many times faster than on the device layers compute, by kind of layer."""
    fused_parameters: int = Field(0, ge=0, le=LARGEST_TENSOR_BYTES)
    """Consecutive tensors travel as one until they have this many parameters. With 0, each travels by itself."""
    blocks: int | None = Field(None, ge=1, le=10_000)
    """Keeps so many of a transformer's blocks, evenly spaced. Each keeps the time and the tensors that it has in the whole model, so that a
    short run shows what a block does. Unset: all."""
    trace: str | None = None
    """A recorded workload in place of a model, as `gradwire import` makes it: its folder or its file. For the strategy `replay`."""
    grow: Groups | None = None
    """For a trace on a multiple of its ranks, by data parallelism: which groups of ranks then have those of all copies. "all-ranks" are
    those that have all recorded ranks; others are named by their numbers, as `gradwire import` lists them: `[2, 3]`."""

    @model_validator(mode="after")
    def _a_trace_alone(self) -> Self:
        given = self.model_fields_set - {"name", "trace", "batch", "grow"}
        if self.trace is not None and given:
            raise ValueError(f"trace: has times and sizes: leave out {', '.join(sorted(given))}")
        if self.grow is not None and self.trace is None:
            raise ValueError("grow: is for a trace (model.trace); leave it out")
        if self.grow == ():
            raise ValueError("grow: name at least one group of ranks; without any, the copies would be separate jobs")
        return self

    @model_validator(mode="after")
    def _one_source_of_times(self) -> Self:
        if self.trace is not None:
            return self
        if not self.layers and self.device is None:
            raise ValueError("device: missing")
        if self.layers and (self.device or self.iteration_time or self.forward_time or self.speedup):
            raise ValueError("layers have times: leave out device, iteration_time, forward_time and speedup")
        if self.modules_device and (self.layers or self.iteration_time or "+" not in self.name):
            raise ValueError(
                "modules_device: is for a name that adds modules, such as inception-v3-netops+25compute, on a device"
            )
        if self.iteration_time and self.forward_time:
            raise ValueError("forward_time: an iteration_time is of both passes; leave out one of them")
        return self


class StrategySection(Section):
    """How gradients travel."""

    name: str
    """A strategy of `gradwire strategies`, or a file of your own that lists it in STRATEGIES (`./my_strategy.py`, or
    `./my_strategies.py:NAME` for one of several). Its code is run to compile the scenario, and not to read a run folder."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The strategy's own options."""


class TransportSection(Section):
    """TCP, which stands in for RDMA."""

    buffer: SizeBytes | None = Field(None, ge=65536, le=LARGEST_SOCKET_BYTES)
    """Socket buffer of each connection and direction. Unset: 4 MiB; where links have a delay, three times what the longest round trip holds
    at the line rate if that is more, so that windows are not the limit."""
    send_ends: Literal["departure", "buffered"] | None = None
    """When a message is sent, so that its queue continues: at the "departure" of its last byte from the host; or, as in systems that
    buffer, as soon as a socket has taken it. Unset: as the strategy's system does it (`gradwire strategies`)."""
    unsent: SizeBytes | None = Field(None, ge=16384, le=LARGEST_SOCKET_BYTES)
    """Where messages are buffered: how much may wait unsent in a socket, of TCP or of a multicast flow. Unset: as in the strategy's
    system, or 1 MiB where that buffers nothing."""
    congestion: Literal["cubic", "dctcp", "bbr", "reno", "dcqcn", "swift", "nscc"] | None = None
    """TCP's congestion control. Unset: the kernel's default, which is cubic on the virtual clock; with `fabric.buffer` or `fabric.ecn`,
    cubic."""
    agents: Literal["one", "per-host"] = "one"
    """"one" process for all hosts (faster on one core), or one "per-host"."""
    connections: int = Field(1, ge=1, le=MOST_CONNECTIONS)
    """Connections of each pair of ranks and queue, over which its messages are divided, in parts of 64 KiB and more (NCCL's sockets)."""
    agent_code: Literal["compiled", "python"] = "compiled"
    """What replays plans: agents that are "compiled", a third to a quarter of the CPU time, or in "python". Both do the same. On the wall
    clock, with multicast, with faults and on stock hosts, agents are in Python."""

    @model_validator(mode="after")
    def _nothing_without_effect(self) -> Self:
        if self.send_ends == "departure" and self.unsent is not None:
            raise ValueError(f"unsent = {self.unsent}B: needs send_ends = 'buffered'")
        return self

    def unsent_bytes(self, senders: Senders) -> int | None:
        """Bytes that may wait unsent in a socket; None if messages are sent when they have left. senders: the
        strategy's.

        Raises InputFault for `unsent` where nothing is buffered.
        """
        if self.send_ends == "departure":
            return None
        if self.send_ends is None and senders.unsent_bytes is None:
            if self.unsent is not None:
                raise InputFault(
                    f"transport.unsent = {self.unsent}B: needs transport.send_ends = 'buffered', for by default a message of this strategy "
                    "is sent when it has left"
                )
            return None
        return self.unsent or senders.unsent_bytes or UNSENT_BYTES


class RunSection(Section):
    """The length of a run, its limits, and what it captures."""

    warmup: Literal["steady"] | Annotated[int, Field(ge=0, le=MOST_ITERATIONS)] = "steady"
    """Iterations at the beginning that are dropped: a number, or as many, 1 at least, as an ideal network needs to come within 1 % of its
    "steady" state. A run that was not steady after them is repeated with a longer warm-up and more iterations, up to 40 in all. With 0,
    the first iteration is measured from its cold start."""
    iterations: int = Field(3, ge=1, le=MOST_ITERATIONS)
    """Measured iterations, after the warm-up. With warmup = "steady" it may be some more, if a schedule repeats only after several."""
    search_iterations: int = Field(1, ge=1, le=MOST_ITERATIONS)
    """Iterations of each candidate plan."""
    fidelity: Share | None = Field(None, gt=0, le=0.1)
    """How far a quicker run may be off, as a share of the iteration time. Bytes and rates are divided by the same number, the largest
    power of 2 at which bursts move the iteration on the ideal network by no more. Unset: nothing is divided."""
    seed: int = Field(1, ge=-LARGEST_SEED, le=LARGEST_SEED)
    """Decides every random draw: orders of transfers, spines of flows, compute times that vary, losses."""
    time_limit: DurationS = Field(1800.0, gt=0)
    """Wall time that one point may take."""
    stall_limit: DurationS = Field(600.0, gt=0)
    """With faults: virtual time without any progress after which a point ends, and says what was waited for. Ten minutes are how long
    PyTorch waits for a collective of NCCL's by default."""
    memory_mb: int = Field(DEFAULT_MEMORY_MB, ge=512, le=MOST_MEMORY_MB)
    """Memory of the virtual-time kernel."""
    queue_sample: DurationS | None = Field(None, ge=SHORTEST_SAMPLE_S)
    """How often the queues of all switches' ports are read, into the point's `queues.npz`; the report then tells their lengths. Unset:
    never."""
    capture: Names = ()
    """Workers, switches or ports whose packets are written to files: "h1", "s1-eth2", or "all" for every host's port."""
    capture_snaplen: int = Field(160, ge=128, le=262144)
    """Bytes kept of each packet; framing headers are always kept."""


class PrintedSection(Section):
    """A value that a paper prints for a point, to be shown next to the measured one."""

    where: dict[str, str | int | float]
    """Parameters of the point, by their names in points.csv."""
    metric: Literal["scaling_efficiency", "throughput_per_s", "iteration_time_s", "speedup"]
    """What is printed."""
    value: float
    """The printed value: an efficiency as a share, a speed-up as a ratio, all else in SI units."""
    source: str
    """Paper and place."""
    fitted: bool = False
    """Whether a constant of the scenario was chosen to meet it, so that it is not a prediction."""
    note: str = ""
    """What a reader should know about the value."""
    baseline: dict[str, str | int | float] = Field(default_factory=dict)
    """For a speed-up: the parameters in which the point that it is relative to differs from `where`."""


class AboutSection(Section):
    """What a scenario file says of itself, and the values that it sweeps."""

    title: str
    """Title of the report."""
    about: str = ""
    """What the scenario shows, and what it assumes; for readers of the file and of the report."""
    labels: dict[str, str] = Field(default_factory=dict)
    """What tables and charts write for a parameter's name or value, e.g. `geryon = "P. + S. + Geryon"`."""
    sweep: dict[str, list[Any]] = Field(default_factory=dict)
    """Lists of values for dotted keys, e.g. `"cluster.workers" = [2, 4]`. The points are their product. A list of tables sweeps several
    keys together."""
    cases: list[dict[str, list[Any]]] = Field(default_factory=list)
    """Further sweeps, each on top of `sweep`. The points are those of all cases, or of `sweep` alone where there are none."""
    notes: list[str] = Field(default_factory=list)
    """Sentences for the end of the report."""


class FileSection(AboutSection):
    """The keys of a scenario file that are not those of its points."""

    printed: list[PrintedSection] = Field(default_factory=list)
    """Values that a paper prints, to be shown next to the measured ones."""
    printed_claims: list[str] = Field(default_factory=list)
    """Printed values by their names in gradwire/analysis/printed_values: a table ("geryon-table2"), or one of its values after a slash."""
    chart: Literal["auto", "ranking"] = "auto"
    """"ranking" draws one bar per strategy, the fastest first."""
    left_out: dict[str, str] = Field(default_factory=dict)
    """Strategies that are left out here, and why."""


class PointTables(Section):
    """Base of a point's tables: any key in them may be swept."""

    file_keys: ClassVar[type[AboutSection]]
    """The keys of the file that are in none of these tables."""

    @classmethod
    def completed(cls, document: DocumentTable) -> DocumentTable:
        """A point's document with the tables that follow from the rest of it."""
        return document


class JobSection(JobPlace):
    """One of several jobs that share the network, each on separate hosts."""

    cluster: ClusterSection
    """Its workers and servers."""
    model: ModelSection
    """What it trains."""
    strategy: StrategySection
    """How its gradients travel."""
    costs: CostsSection | None = None
    """Its own costs; without any, those of the scenario."""


OF_JOBS = ("cluster", "model", "strategy")
"""Tables that each job has, where there are several."""


class PointSection(PointTables):
    """One point: everything that decides its result."""

    file_keys = FileSection

    cluster: ClusterSection
    """The workers and servers."""
    fabric: FabricSection
    """The network."""
    model: ModelSection
    """What is trained."""
    strategy: StrategySection
    """How gradients travel."""
    costs: CostsSection = CostsSection()
    """Costs other than those of network and GPU, each with its source."""
    transport: TransportSection = TransportSection()
    """TCP's buffers, and when a message is sent."""
    run: RunSection = RunSection()
    """Length, limits, captures."""
    program: dict[str, ProgramSection] = Field(default_factory=dict)
    """Programs that run at the same time as the strategy, from the first iteration to the last."""
    fault: dict[str, FaultSection] = Field(default_factory=dict)
    """Faults during the replay, by names of your own. `[[fault]]` names them by their numbers."""
    job: dict[str, JobSection] = Field(default_factory=dict)
    """Several jobs, by names of your own, that share the network and iterate independently, in place of one model, strategy and cluster."""
    part: PartSection | None = None
    """The hosts of a larger job that run by packets. Unset: all."""
    defined: DefinedSection = DefinedSection()
    """Models, devices and strategies of your own."""

    @classmethod
    def completed(cls, document: DocumentTable) -> DocumentTable:
        """Returns the document with the model, strategy and cluster of the first of several jobs, for code that asks
        for the point's."""
        jobs = document.get("job")
        first = next(iter(jobs.values()), None) if isinstance(jobs, Mapping) else None
        return (
            {**{key: first[key] for key in OF_JOBS if key in first}, **document}
            if isinstance(first, Mapping)
            else document
        )

    @model_validator(mode="after")
    def _jobs_that_share(self) -> Self:
        first = next(iter(self.job.values()), None)
        lines = [
            f"{table}: each [job.NAME] has a separate one: leave out [{table}], or write [job.NAME.{table}]"
            for table in OF_JOBS
            if first and getattr(self, table) != getattr(first, table)
        ]
        for name, job in self.job.items():
            if not JOB_NAME.fullmatch(name):
                lines.append(f"job.{name}: a job's name has letters, digits, - and _")
            if job.cluster.stands_for is not None:
                lines.append(f"job.{name}.cluster.stands_for: one of several jobs stands for itself; leave it out")
            if job.cluster.nics_per_host > 1:
                lines.append(
                    f"job.{name}.cluster.nics_per_host: hosts that jobs share a network of have one NIC; leave it out"
                )
        if lines:
            raise ValueError("\n".join(lines))
        return self

    def of_job(self, name: str) -> PointSection:
        """The point as it is for one of its jobs, which has the network for itself: without programs and faults."""
        job = self.job[name]
        own = {table: getattr(job, table) for table in OF_JOBS}
        shared: dict[str, object] = {"job": {}, "program": {}, "fault": {}}
        return self.model_copy(update={**own, "costs": job.costs or self.costs, **shared})

    @property
    def congestion(self) -> str:
        """TCP's congestion control; "" for the kernel's default, where the network neither drops nor marks, or where it is set there."""
        by_default = "cubic" if self.drops_or_marks and not self.fabric.sets_congestion else ""
        return self.transport.congestion or by_default

    @property
    def drops_or_marks(self) -> bool:
        """Whether the queue of any switch's port drops or marks packets."""
        network = self.defined.networks.get(self.fabric.file or "")
        return self.fabric.drops_or_marks or (network is not None and network.drops_or_marks)
