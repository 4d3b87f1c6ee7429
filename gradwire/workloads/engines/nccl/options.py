"""Options of strategies whose collectives go as NCCL chooses (`algorithm = "nccl"`), and what follows from them: the
machines and the environment that NCCL sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gradwire.faults import InputFault
from gradwire.workloads.engines.collectives.choice import Layout
from gradwire.workloads.engines.nccl.chooser import Communicator
from gradwire.workloads.engines.nccl.devices import DEFAULT_FOR_BLACKWELL, DEVICES, GpuName, default_version
from gradwire.workloads.engines.nccl.environment import Environment, environment_of
from gradwire.workloads.engines.nccl.search import MAX_GPUS, GpuMachine
from gradwire.workloads.engines.nccl.tables import Gpu, Version, version_of
from gradwire.workloads.fields import InWords, RateBps
from gradwire.workloads.job import Job
from gradwire.workloads.strategy import Options

NCCL = "nccl"
"""The algorithm that leaves the choice to NCCL."""
MOST_MESSAGES = 20_000
"""The most messages of a call in a plan: with three or four ops for each, a hundred calls fit into a plan."""


def _as_text(value: object) -> object:
    """A version that was written as a number, of which 2.2 is 2.20."""
    return f"{value:.2f}" if isinstance(value, float) else value


def _known(version: str) -> str:
    try:
        version_of(version)
    except InputFault as fault:
        raise ValueError(str(fault)) from None
    return version


VersionText = Annotated[
    str, BeforeValidator(_as_text), AfterValidator(_known), InWords("a version of NCCL, such as 2.22")
]


class NcclOptions(Options):
    """The machines as NCCL sees them, besides their numbers of GPUs and NICs."""

    version: VersionText | None = None
    """Version of NCCL, 2.18 to 2.30. Unset: 2.22, and 2.27 for GPUs of Blackwell, which older ones do not know."""
    gpu: GpuName | None = None
    """Its tables and NVLink are of this GPU. Unset: the model's device, and h100 for one that NCCL's tables do not have."""
    transport: Literal["tcp", "rdma"] = "rdma"
    """"tcp": sockets, to which GPUs' data are copied; "rdma": NICs read the memory of GPUs (GPUDirect). The messages go by TCP in both."""
    nic: RateBps | None = None
    """Line rate of a NIC, as its driver reports it to NCCL. Unset: `fabric.rate`."""
    nvlink: int | None = Field(None, ge=0, le=64)
    """Links of NVLink of a GPU, 0 for none. Unset: the GPU's."""
    nvswitch: bool = True
    """Whether GPUs of a machine are joined by NVSwitch, which NVLS needs."""
    amd: bool = False
    """Whether machines have AMD's processors, not Intel's."""
    most_messages: int = Field(MOST_MESSAGES, ge=1, le=1_000_000)
    """Messages of a call at most: where there would be more, channels that share a NIC are joined, then chunks that follow one another."""
    env: dict[str, str | int] = Field(default_factory=dict)
    """NCCL's variables by their names: NCCL_ALGO, NCCL_PROTO, NCCL_NCHANNELS (also NCCL_MIN_ and NCCL_MAX_NCHANNELS), NCCL_BUFFSIZE,
    NCCL_NVLS_ENABLE, NCCL_SOCKET_NTHREADS and NCCL_NSOCKS_PERTHREAD."""

    @model_validator(mode="after")
    def _understood(self) -> Self:
        try:
            self.environment()
        except InputFault as fault:
            raise ValueError(str(fault)) from None
        return self

    def environment(self) -> Environment:
        """Returns the settings of the environment variables. Raises InputFault."""
        known = self.version or (default_version(self.gpu) if self.gpu else DEFAULT_FOR_BLACKWELL)
        return self.environment_in(version_of(known))

    def environment_in(self, version: Version) -> Environment:
        """Returns the settings of the environment variables for a version. Raises InputFault."""
        return environment_of({name: str(value) for name, value in self.env.items()}, version)

    def gpu_for(self, device: str | None) -> GpuName:
        """Returns the GPU whose tables are taken for a job's device."""
        return self.gpu or (GpuName(device) if device in list(GpuName) else GpuName.H100)

    def version_for(self, gpu: GpuName) -> str:
        """Returns the version that is taken for a GPU."""
        return self.version or default_version(gpu)


class NcclKeys(Options):
    """The table of a strategy that may go by NCCL."""

    nccl: NcclOptions = NcclOptions()
    """With the algorithm "nccl": the version, the machines and the variables by which it chooses (docs/ccl.md)."""

    @property
    def goes_by_nccl(self) -> bool:
        """Returns whether NCCL chooses for any collective."""
        return getattr(self, "algorithm", None) == NCCL

    @property
    def sockets(self) -> int:
        """Connections that each message is divided among."""
        return self.nccl.environment().sockets if self.goes_by_nccl else 1


def connections_of(asked: int, options: Options) -> int:
    """Connections that a message is divided over: as the scenario asks (`transport.connections`), or as NCCL's variables say. Raises
    InputFault for both."""
    sockets = options.sockets if isinstance(options, NcclKeys) else 1
    if min(asked, sockets) > 1:
        raise InputFault(
            f"transport.connections = {asked}: NCCL_SOCKET_NTHREADS and NCCL_NSOCKS_PERTHREAD divide messages over {sockets} sockets; "
            "leave out one of both"
        )
    return max(asked, sockets)


@dataclass(frozen=True)
class Setup:
    """All that decides how NCCL carries out the calls of a job. Rates are in bytes per second."""

    version: Version
    environment: Environment
    gpu: Gpu
    gpu_direct: bool
    links: int
    nvswitch: bool
    amd: bool
    nic_bytes_per_s: float
    #: GPUs of a machine of the cluster, and its NICs.
    gpus: int
    nics: int
    most_messages: int = MOST_MESSAGES
    #: The scenario's values for hosts: the latency between machines on top of NCCL's table, and the rate inside.
    message_latency_s: float = 0.0
    local_bytes_per_s: float = float("inf")

    def communicator(self, layout: Layout) -> Communicator:
        """The group, as NCCL sees it. Raises InputFault where machines have different numbers of members."""
        machines = max(layout.machines) + 1
        if not layout.is_even or layout.members // machines > MAX_GPUS:
            raise InputFault(
                f"strategy.options: '{NCCL}' is for groups with as many members on every machine, {MAX_GPUS} at most"
            )
        gpus = layout.members // machines
        machine = GpuMachine(
            gpus=gpus,
            gpu=self.gpu,
            # Of a machine's NICs, those of the members.
            nics=max(1, self.nics * gpus // self.gpus),
            nic_bytes_per_s=self.nic_bytes_per_s,
            gpu_direct=self.gpu_direct,
            links=self.links,
            nvswitch=self.nvswitch and self.links > 0,
            amd=self.amd,
        )
        return Communicator(self.version, machine, machines, self.environment)


def setup_of(job: Job, options: NcclOptions) -> Setup:
    """The set-up of a job's calls. Raises InputFault where the rate of a NIC is unknown."""
    rate_bps = options.nic or job.rate_bps
    if rate_bps is None:
        raise InputFault("strategy.options.nccl.nic: NCCL chooses by the rate of a NIC, which the job does not have")
    gpu, costs = options.gpu_for(job.gpu), job.costs
    device, version = DEVICES[gpu], version_of(options.version_for(gpu))
    return Setup(
        version=version,
        environment=options.environment_in(version),
        gpu=device.gpu,
        gpu_direct=options.transport == "rdma",
        links=device.links if options.nvlink is None else options.nvlink,
        nvswitch=options.nvswitch,
        amd=options.amd,
        nic_bytes_per_s=rate_bps / 8,
        gpus=job.cluster.workers_per_host,
        nics=job.cluster.nics_per_host,
        most_messages=options.most_messages,
        message_latency_s=costs.message_latency_s,
        local_bytes_per_s=costs.local_bytes_per_s,
    )
