"""What a scenario file may say about one point, validated: wrong keys, units and values are rejected with their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from gradwire.topo.fabric import Topology
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.scenario import units


def _quantity(parse: Callable[[str], float]) -> BeforeValidator:
    """Only texts are taken, for a number has no unit; it then fails like a text without one."""
    return BeforeValidator(lambda value: parse(value if isinstance(value, str) else f"{value}"))


def _names(value: Any) -> Any:
    """One text may name several, with commas between: a list given by --set would be a sweep."""
    return tuple(name.strip() for name in value.split(",") if name.strip()) if isinstance(value, str) else value


LONGEST_S = 1e7
"""Four months: ops are timed in nanoseconds, in 64 bits."""
LARGEST_SOCKET_BYTES = 2**31 - 1
"""The kernel takes sizes of sockets as ints."""
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
RateBps = Annotated[float, _quantity(units.rate_bps)]
SizeBytes = Annotated[int, _quantity(units.size_bytes)]
BytesPerS = Annotated[float, _quantity(units.bytes_per_s)]
DurationS = Annotated[float, _quantity(units.duration_s), Field(le=LONGEST_S)]


class Section(BaseModel):
    """Base of all sections. Rejects unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ClusterSection(Section):
    """Who runs where. servers: as many as workers unless said otherwise. colocated: servers share the workers' hosts.

    workers_per_host: GPUs of one machine. stands_for: workers of a larger cluster that this one stands for (workloads/stand_in.py), on
    machines of stands_for_per_host; costs and rates are given as they are there.
    """

    workers: int = Field(ge=1)
    servers: int | None = Field(None, ge=1)
    colocated: bool = True
    workers_per_host: int = Field(1, ge=1)
    stands_for: int | None = Field(None, ge=2)
    stands_for_per_host: int = Field(1, ge=1)


LEAF_SPINE_KEYS = ("leaves", "spines", "oversubscription")


class FabricSection(Section):
    """The network; see gradwire.topo.fabric.Fabric. classes: at least as many as the strategy needs."""

    rate: RateBps = Field(gt=0)
    topology: Topology = Topology.SINGLE_SWITCH
    leaves: int = Field(1, ge=1)
    spines: int = Field(0, ge=0)
    oversubscription: float = Field(1.0, gt=0, allow_inf_nan=False)
    classes: int | None = Field(None, ge=1)
    mtu_bytes: int = Field(1500, ge=576, le=9000)
    gso: SizeBytes = Field(65536, ge=576)
    loss: float = Field(0.0, ge=0, lt=1, allow_inf_nan=False)
    fair_queues: bool = True

    @model_validator(mode="after")
    def _nothing_without_effect(self) -> Self:
        for key in LEAF_SPINE_KEYS:
            value = getattr(self, key)
            if self.topology is Topology.SINGLE_SWITCH and value != FabricSection.model_fields[key].default:
                raise ValueError(f"{key} = {value:g}: needs fabric.topology = '{Topology.LEAF_SPINE}'")
        return self


class LayerSection(Section):
    """A layer of a made-up model. size: its gradients in bytes, as many tensors as sizes. inputs: names of the layers that it reads.

    Without inputs it reads the layer before it.
    """

    name: str = Field(min_length=1)
    kind: LayerKind = LayerKind.OTHER
    size: list[SizeBytes] = Field(default_factory=list)
    forward: DurationS = Field(ge=0)
    backward: DurationS = Field(ge=0)
    inputs: list[str] | None = None


class ModelSection(Section):
    """What is trained. iteration_time: of one worker alone, instead of the device's; iteration_time_source: where it comes from.

    forward_time: of the whole forward pass, instead of the device's, which decides the backward pass alone; forward_time_source: likewise.
    speedup: by kind of layer, how much faster than the device.
    modules_device: of which modules that the name adds take their times, if not of `device`.
    layers: of a made-up model, such as a paper's toy, instead of one that `name` knows; its times are its own, without a device.
    fused_parameters: consecutive tensors travel as one until they have so many parameters (Profile.fused); 0: each by itself.
    """

    name: str
    device: str | None = None
    modules_device: str | None = None
    layers: list[LayerSection] = Field(default_factory=list)
    batch: int | None = Field(None, ge=1)
    iteration_time: DurationS | None = Field(None, gt=0)
    iteration_time_source: str | None = None
    forward_time: DurationS | None = Field(None, gt=0)
    forward_time_source: str | None = None
    speedup: dict[LayerKind, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(default_factory=dict)
    fused_parameters: int = Field(0, ge=0)

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
    """How gradients travel. options: the strategy's own."""

    name: str
    options: dict[str, Any] = Field(default_factory=dict)


class SourcedRate(Section):
    """A rate of bytes and where it comes from."""

    value: BytesPerS = Field(gt=0)
    source: str = Field(min_length=1)


class SourcedDuration(Section):
    """A duration and where it comes from."""

    value: DurationS = Field(ge=0)
    source: str = Field(min_length=1)


class SourcedVariation(Section):
    """A coefficient of variation, standard deviation over mean, and where it comes from."""

    value: float = Field(ge=0, le=10, allow_inf_nan=False)
    source: str = Field(min_length=1)


class CostsSection(Section):
    """Constants beside network and GPU; each needs its source. Left out: free, and all workers take equally long.

    slice_merge: for the strategies of Geryon that slice, and for NetOps' messages.
    compute_variation: of workers' compute times. Each draws its own factor by run.seed, from a log-normal distribution with mean 1.
    """

    aggregation_rate: SourcedRate | None = None
    message_latency: SourcedDuration | None = None
    local_rate: SourcedRate | None = None
    copy_rate: SourcedRate | None = None
    slice_merge: SourcedDuration | None = None
    compute_variation: SourcedVariation | None = None


class TransportSection(Section):
    """TCP as it stands in for RDMA. buffer: of each connection and direction. unsent: what may wait unsent in a socket.

    agents: 'one' process for all hosts (faster on one core), or 'per-host'.
    """

    buffer: SizeBytes = Field(4 << 20, ge=65536, le=LARGEST_SOCKET_BYTES)
    unsent: SizeBytes = Field(1 << 20, ge=16384, le=LARGEST_SOCKET_BYTES)
    agents: Literal["one", "per-host"] = "one"


class RunSection(Section):
    """How long and how often. iterations: measured ones, after `warmup` that are dropped. search_iterations: of each candidate plan.

    time_limit: wall time of a point. memory_mb: of the virtual-time kernel.
    capture: hosts, switches or ports whose packets are written to files ("h1", "s1-eth2", "all" for every host's port).
    capture_snaplen: bytes of each packet that are kept; framing headers are kept in any case.
    """

    warmup: int = Field(1, ge=0)
    iterations: int = Field(3, ge=1)
    search_iterations: int = Field(1, ge=1)
    seed: int = 1
    time_limit: DurationS = Field(1800.0, gt=0)
    memory_mb: int = Field(3072, ge=512)
    capture: Names = ()
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
    """What a scenario file says beside its points.

    printed_claims: printed values by their names in analysis/papers, a whole table ("geryon-table2") or one claim of it after a slash.
    cases: sweeps of their own, each on top of `sweep`; the points are those of all of them (none: of `sweep` alone).
    chart: "auto", or "ranking": one bar a strategy, the fastest first. left_out: strategies that cannot run here, and why.
    """

    title: str
    about: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    printed: list[PrintedSection] = Field(default_factory=list)
    printed_claims: list[str] = Field(default_factory=list)
    sweep: dict[str, list[Any]] = Field(default_factory=dict)
    cases: list[dict[str, list[Any]]] = Field(default_factory=list)
    chart: Literal["auto", "ranking"] = "auto"
    left_out: dict[str, str] = Field(default_factory=dict)
