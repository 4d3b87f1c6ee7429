"""The schema of scenario files. Validation rejects unknown keys, wrong units and wrong values, and names the key of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from gradwire.topo.fabric import MAX_BANDS, MAX_GSO_BYTES, Topology
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.scenario import units
from gradwire.workloads.scenario.expectations import Because


def _quantity(kind: units.Quantity, convert: Callable[[float], float] = float) -> BeforeValidator:
    """Parses strings only. A number has no unit, so it is turned into a string and fails as one without a unit."""
    return BeforeValidator(lambda value: convert(kind.parse(value if isinstance(value, str) else f"{value}")))


def _names(value: Any) -> Any:
    """Splits a string at its commas. That is how --set gives several names, since a list there would be a sweep."""
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return tuple(value) if isinstance(value, list) else value


LOWEST_RATE_BPS, HIGHEST_RATE_BPS = 10e6, 10e12
"""Line rates that are accepted: from the first Ethernet's to six times that of the fastest (1.6 Tbit/s, IEEE P802.3dj). At 3 Mbit/s a
burst of 64 KiB takes so long that the probe of the rates is 8 % off; at both ends of the range it is within the verdict's limit."""
LARGEST_LOSS = 0.1
"""TCP waits for a timer that doubles with each loss. Two workers that exchange 320 KiB at 1 Gbit/s took 1.5 % more than without losses at a
loss of 0.01, three hundred times as long at 0.1, and 1,044 s at 0.2; at 0.3 the connections broke."""
LONGEST_S = 1e7
"""The longest duration accepted, four months: ops are timed in nanoseconds, in 64 bits."""
LARGEST_SOCKET_BYTES = 2**31 - 1
"""The largest socket buffer accepted: the kernel takes these sizes as ints."""
LARGEST_TENSOR_BYTES = 2**40
LARGEST_CLUSTER = 10**6
"""Workers of a cluster that a smaller one stands for."""
MOST_ITERATIONS = 10**6
MOST_SAMPLES = 10**9
MOST_MEMORY_MB = 2**20
LARGEST_SEED = 2**63 - 1
LARGEST_RATIO = 1e6
"""The largest factor between two speeds, and its inverse the smallest."""
OF_ETHERNET = Because("from the slowest Ethernet to beyond the fastest")
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
RateBps = Annotated[
    float, _quantity(units.RATE), units.RATE, Field(ge=LOWEST_RATE_BPS, le=HIGHEST_RATE_BPS), OF_ETHERNET
]
SizeBytes = Annotated[int, _quantity(units.SIZE, round), units.SIZE]
BytesPerS = Annotated[float, _quantity(units.BYTE_RATE), units.BYTE_RATE]
DurationS = Annotated[float, _quantity(units.DURATION), units.DURATION, Field(le=LONGEST_S)]
MOST_WORKERS = 1024
"""Workers of a cluster, and servers beside them. A network of 1,024 hosts was built in the kernel's default memory, half a minute after its
boot; 2,000 workers in a ring take gigabytes and minutes to compile."""
BY_STAND_IN = Because("for more, let a few stand for all: cluster.stands_for")
Workers = Annotated[int, Field(ge=1, le=MOST_WORKERS), BY_STAND_IN]


class Section(BaseModel):
    """Base of all sections. Rejects unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ClusterSection(Section):
    """The workers and servers, and the hosts that they run on."""

    workers: Workers
    #: Parameter servers; as many as workers by default.
    servers: Workers | None = None
    #: Whether servers share the workers' hosts.
    colocated: bool = True
    #: GPUs of one machine.
    workers_per_host: Workers = 1
    #: Workers of a larger cluster that this one stands for (workloads/stand_in.py). Costs and rates are those of the larger cluster.
    stands_for: int | None = Field(None, ge=2, le=LARGEST_CLUSTER)
    #: GPUs of one machine of that larger cluster.
    stands_for_per_host: int = Field(1, ge=1, le=LARGEST_CLUSTER)


LEAF_SPINE_KEYS = ("leaves", "spines", "oversubscription")


class FabricSection(Section):
    """The network; see gradwire.topo.fabric.Fabric."""

    rate: RateBps
    topology: Topology = Topology.SINGLE_SWITCH
    leaves: int = Field(1, ge=1, le=MOST_WORKERS)
    spines: int = Field(0, ge=0, le=MOST_WORKERS)
    oversubscription: float = Field(1.0, ge=1 / LARGEST_RATIO, le=LARGEST_RATIO)
    #: Traffic classes; at least as many as the strategy needs.
    classes: int | None = Field(None, ge=1, le=MAX_BANDS - 1)
    mtu_bytes: int = Field(1500, ge=576, le=9000)
    gso: SizeBytes = Field(65536, ge=576, le=MAX_GSO_BYTES)
    #: Share of frames that switches drop; up to LARGEST_LOSS, beyond which TCP makes no progress.
    loss: Annotated[float, Because("beyond that TCP waits for its timers for minutes, or gives up")] = Field(
        0.0, ge=0, le=LARGEST_LOSS
    )
    fair_queues: bool = True

    @model_validator(mode="after")
    def _nothing_without_effect(self) -> Self:
        values = {key: getattr(self, key) for key in LEAF_SPINE_KEYS if self.topology is Topology.SINGLE_SWITCH}
        idle = {key: value for key, value in values.items() if value != FabricSection.model_fields[key].default}
        if idle:
            needed = f"needs fabric.topology = '{Topology.LEAF_SPINE}'"
            raise ValueError("\n".join(f"{key} = {value:g}: {needed}" for key, value in idle.items()))
        return self


class LayerSection(Section):
    """A layer of a made-up model."""

    name: str = Field(min_length=1)
    kind: LayerKind = LayerKind.OTHER
    #: Bytes of the layer's gradients, one size per tensor.
    size: list[Annotated[SizeBytes, Field(ge=0, le=LARGEST_TENSOR_BYTES)]] = Field(default_factory=list)
    forward: DurationS = Field(ge=0)
    backward: DurationS = Field(ge=0)
    #: Names of the layers that it reads; by default, the layer before it.
    inputs: list[str] | None = None


class ModelSection(Section):
    """The model that is trained, and how long one worker computes."""

    name: str
    #: The GPU whose printed times are used.
    device: str | None = None
    #: The device that times the modules added by `name`, if it is not `device`.
    modules_device: str | None = None
    #: Layers of a made-up model, such as a paper's toy, in place of a built-in model. They have times of their own and need no device.
    layers: list[LayerSection] = Field(default_factory=list)
    batch: int | None = Field(None, ge=1, le=MOST_SAMPLES)
    #: Time of an iteration of one worker alone, in place of the device's.
    iteration_time: DurationS | None = Field(None, gt=0)
    #: Where `iteration_time` comes from.
    iteration_time_source: str | None = None
    #: Time of the whole forward pass, in place of the device's, which then decides the backward pass alone.
    forward_time: DurationS | None = Field(None, gt=0)
    #: Where `forward_time` comes from.
    forward_time_source: str | None = None
    #: How many times faster than on the device layers compute, by kind of layer.
    speedup: dict[LayerKind, Annotated[float, Field(ge=1 / LARGEST_RATIO, le=LARGEST_RATIO)]] = Field(
        default_factory=dict
    )
    #: Consecutive tensors travel as one until they have this many parameters (Profile.fused). With 0, each travels by itself.
    fused_parameters: int = Field(0, ge=0, le=LARGEST_TENSOR_BYTES)

    @model_validator(mode="after")
    def _one_source_of_times(self) -> Self:
        if not self.layers and self.device is None:
            raise ValueError("device: missing")
        if self.layers and (self.device or self.iteration_time or self.forward_time or self.speedup):
            raise ValueError(
                "layers have times of their own: leave out device, iteration_time, forward_time and speedup"
            )
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
    #: The strategy's own options.
    options: dict[str, Any] = Field(default_factory=dict)


class SourcedRate(Section):
    """A rate of bytes and where it comes from."""

    value: BytesPerS = Field(ge=1)
    source: str = Field(min_length=1)


class SourcedDuration(Section):
    """A duration and where it comes from."""

    value: DurationS = Field(ge=0)
    source: str = Field(min_length=1)


class SourcedVariation(Section):
    """A coefficient of variation, standard deviation over mean, and where it comes from."""

    value: float = Field(ge=0, le=10)
    source: str = Field(min_length=1)


class CostsSection(Section):
    """Costs other than those of network and GPU. Each needs its source.

    A cost that is left out is free; without `compute_variation`, all workers take equally long.
    """

    aggregation_rate: SourcedRate | None = None
    message_latency: SourcedDuration | None = None
    local_rate: SourcedRate | None = None
    copy_rate: SourcedRate | None = None
    #: For Geryon's strategies that slice, and for NetOps' messages.
    slice_merge: SourcedDuration | None = None
    #: Of workers' compute times. Each worker draws its own factor, seeded by run.seed, from a log-normal distribution with mean 1.
    compute_variation: SourcedVariation | None = None


class TransportSection(Section):
    """TCP, which stands in for RDMA."""

    #: Socket buffer of each connection and direction.
    buffer: SizeBytes = Field(4 << 20, ge=65536, le=LARGEST_SOCKET_BYTES)
    #: How much may wait unsent in a socket.
    unsent: SizeBytes = Field(1 << 20, ge=16384, le=LARGEST_SOCKET_BYTES)
    #: "one" process for all hosts (faster on one core), or one "per-host".
    agents: Literal["one", "per-host"] = "one"


class RunSection(Section):
    """The length of a run, its limits, and what it captures."""

    #: Iterations at the beginning that are dropped.
    warmup: int = Field(1, ge=0, le=MOST_ITERATIONS)
    #: Measured iterations, after the warm-up.
    iterations: int = Field(3, ge=1, le=MOST_ITERATIONS)
    #: Iterations of each candidate plan.
    search_iterations: int = Field(1, ge=1, le=MOST_ITERATIONS)
    seed: int = Field(1, ge=-LARGEST_SEED, le=LARGEST_SEED)
    #: Wall time that one point may take.
    time_limit: DurationS = Field(1800.0, gt=0)
    #: Memory of the virtual-time kernel.
    memory_mb: int = Field(3072, ge=512, le=MOST_MEMORY_MB)
    #: Workers, switches or ports whose packets are written to files: "h1", "s1-eth2", or "all" for every host's port.
    capture: Names = ()
    #: Bytes kept of each packet; framing headers are always kept.
    capture_snaplen: int = Field(160, ge=128, le=262144)


class PointSection(Section):
    """One point: everything that decides its result."""

    cluster: ClusterSection
    fabric: FabricSection
    model: ModelSection
    strategy: StrategySection
    costs: CostsSection = CostsSection()
    transport: TransportSection = TransportSection()
    run: RunSection = RunSection()


class PrintedSection(Section):
    """A value that a paper prints for a point, to be shown beside the measured one."""

    where: dict[str, str | int | float]
    metric: Literal["scaling_efficiency", "throughput_per_s", "iteration_time_s", "speedup"]
    value: float
    source: str
    fitted: bool = False
    note: str = ""
    baseline: dict[str, str | int | float] = Field(default_factory=dict)


class FileSection(Section):
    """The keys of a scenario file beside those of its points."""

    title: str
    about: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    printed: list[PrintedSection] = Field(default_factory=list)
    #: Printed values by their names in analysis/papers: a whole table ("geryon-table2"), or one of its claims after a slash.
    printed_claims: list[str] = Field(default_factory=list)
    sweep: dict[str, list[Any]] = Field(default_factory=dict)
    #: Further sweeps, each on top of `sweep`. The points are those of all cases, or of `sweep` alone where there are none.
    cases: list[dict[str, list[Any]]] = Field(default_factory=list)
    #: "ranking" draws one bar per strategy, the fastest first.
    chart: Literal["auto", "ranking"] = "auto"
    #: Sentences for the end of the report.
    notes: list[str] = Field(default_factory=list)
    #: Strategies that cannot run here, and why.
    left_out: dict[str, str] = Field(default_factory=dict)
