"""The machines and the network of `gradwire ccl`: its options, and what they mean to NCCL."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.scenario.sections.fabric import LONGEST_DELAY_S
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.chooser import Communicator
from gradwire.workloads.engines.nccl.devices import DEVICES, GpuName, counts_as_hopper, default_version
from gradwire.workloads.engines.nccl.duration import SOCKETS_S, MachineNetwork
from gradwire.workloads.engines.nccl.efa_plugin import LEAST_MACHINES, Plugin, plugin_of
from gradwire.workloads.engines.nccl.environment import NET_PEER, TUNER, Environment, environment_of
from gradwire.workloads.engines.nccl.grouped import GroupedCall, channels_of_a_peer, channels_of_all
from gradwire.workloads.engines.nccl.search import MAX_GPUS, MAX_MACHINES, MAX_NICS, GpuMachine
from gradwire.workloads.engines.nccl.tables import TAGS, Gpu, Version, name_of, version_of
from gradwire.workloads.units import BYTE_RATE, DURATION, RATE, Quantity

TestedCall = Collective | GroupedCall
"""A call that a program of nccl-tests measures."""
TYPES = {"float": 4, "double": 8, "half": 2, "bfloat16": 2, "int32": 4, "int8": 1}
"""Types of nccl-tests, and their bytes. NCCL treats 8-bit floats in another way."""


@dataclass(frozen=True)
class Transport:
    """The way in which NCCL reaches the network."""

    #: Whether NICs read the memory of GPUs.
    gpu_direct: bool
    #: Time of a message between machines on top of NCCL's own table, which was measured on InfiniBand, and, by sockets,
    #: on top of the time that these take themselves (`duration.SOCKETS_S`). Of EFA, its plugin has it.
    crossing_s: float
    source: str
    #: MTU of its networks by default.
    mtu_bytes: int
    #: Time that a host takes for each burst of up to 64 KiB that leaves by a NIC, one after the other.
    burst_s: float = 0.0
    burst_source: str = ""


TRANSPORTS = {
    "tcp": Transport(
        False,
        63.1e-6,
        "fitted: an 8-byte all-reduce on 2 machines of 8 H100 took 175 us (gke_a3, TCP)",
        9000,
        5.18e-6,
        "fitted: 23.7 GB/s at 1 GiB on 2 machines of 8 H100 (gke_a3, TCP)",
    ),
    "rdma": Transport(True, 5.1e-6, "fitted: 16 bytes on 2 DGX H100 took 39.1 us (ccl_logs)", 4096),
    "efa": Transport(True, 0.0, "fitted to public logs (docs/ccl.md)", 9000),
}


@dataclass(frozen=True)
class Wires:
    """The network between machines."""

    #: Line rate of a NIC, in bit/s.
    nic_bps: float
    mtu_bytes: int
    #: Time of a message between machines on top of NCCL's own table: software of the hosts, and the way.
    crossing_s: float
    #: Largest rate of a machine each way, in bytes per second, with any NICs.
    machine_bytes_per_s: float = inf
    #: Time that a host takes for each burst that leaves by a NIC (`MachineNetwork`).
    burst_s: float = 0.0
    #: Time that the word of an empty slot takes to the sender (`MachineNetwork`).
    back_s: float | None = None

    def fabric(self, machines: int, nic_payload: float | None = None, delay_s: float = 0.0) -> Fabric:
        """One switch with a port for each machine; of another rate, where a NIC carries less than its line."""
        fabric = Fabric(hosts=max(2, machines), rate_bps=self.nic_bps, mtu_bytes=self.mtu_bytes, delay_s=delay_s / 2)
        if nic_payload is None:
            return fabric
        rate_bps = nic_payload * 8 / fabric.goodput_share()
        return Fabric(hosts=fabric.hosts, rate_bps=rate_bps, mtu_bytes=self.mtu_bytes, delay_s=delay_s / 2)

    @property
    def network(self) -> MachineNetwork:
        """The network between machines with its rates in bytes of payload."""
        return MachineNetwork(
            nic_bytes_per_s=self.nic_bps / 8 * self.fabric(2).goodput_share(),
            crossing_s=self.crossing_s,
            machine_bytes_per_s=self.machine_bytes_per_s,
            burst_s=self.burst_s,
            back_s=self.back_s,
        )


@dataclass(frozen=True)
class CclOptions:
    """Options as they were written."""

    machines: int
    gpus: int
    gpu: str
    nic: str
    nics: int
    transport: str
    links: int | None
    nvswitch: bool
    amd: bool
    dtype: str
    #: None: that which is taken for the GPU.
    version: str | None
    variables: tuple[str, ...]
    latency: str | None
    delay: str
    machine_rate: str | None
    burst_cost: str | None
    #: None: the transport's.
    mtu_bytes: int | None
    #: Release of EFA's plugin; None: that of the version.
    plugin: str | None = None
    #: What NCCL counts for the slot of a GPU, as a topology file has it; None: that of its generation.
    slot_gb_per_s: float | None = None

    @property
    def nccl(self) -> str:
        """Returns the version of NCCL. Raises InputFault for a GPU that is not known."""
        return self.version or default_version(gpu_named(self.gpu))


MI300X = "mi300x"
"""A GPU with RCCL, of which machines are in `ccl_calls`."""


def gpu_named(name: str) -> GpuName:
    """Returns the GPU of this name, for which NCCL is. Raises InputFault for others."""
    if name not in DEVICES:
        raise InputFault(f"--gpu {name}: must be one of {', '.join((*DEVICES, MI300X))}")
    return GpuName(name)


def set_up(given: CclOptions, kind: TestedCall = Collective.ALL_REDUCE) -> tuple[Communicator, Wires, list[str]]:
    """The machines, the network, and notes for the reader of a table of a kind of calls. Raises InputFault for options that are wrong or
    impossible."""
    gpu = gpu_named(given.gpu)
    for option, value, known in (
        ("--transport", given.transport, TRANSPORTS),
        ("--dtype", given.dtype, TYPES),
    ):
        if value not in known:
            raise InputFault(f"{option} {value}: must be one of {', '.join(known)}")
    for option, count, most in (
        ("--machines", given.machines, MAX_MACHINES),
        ("--gpus", given.gpus, MAX_GPUS),
        ("--nics", given.nics, MAX_NICS),
    ):
        if not 1 <= count <= most:
            raise InputFault(f"{option} {count}: must be 1 to {most}")
    if given.machines * given.gpus == 1:
        raise InputFault("--machines 1 --gpus 1: a collective needs two GPUs or more")
    version, device, transport = version_of(given.nccl), DEVICES[gpu], TRANSPORTS[given.transport]
    nic_bps = _parsed("--nic", given.nic, RATE)
    environment = environment_of(_variables(given.variables), version)
    plugin = _plugin(given, version, device.gpu, environment)
    nics = plugin.groups(given.nics, given.gpus) if plugin else given.nics
    nic_bps *= given.nics / nics
    machine = GpuMachine(
        gpus=given.gpus,
        gpu=device.gpu,
        nics=nics,
        nic_bytes_per_s=nic_bps / 8,
        gpu_direct=transport.gpu_direct,
        links=device.links if given.links is None else given.links,
        nvswitch=given.nvswitch and given.links != 0,
        amd=given.amd,
        slot_gb_per_s=given.slot_gb_per_s,
    )
    comm = Communicator(version, machine, given.machines, environment, plugin)
    own_s = plugin.crossing_s if plugin else transport.crossing_s
    software_s = own_s if given.latency is None else _delay_s("--latency", given.latency)
    delay_s = _delay_s("--delay", given.delay)
    wires = Wires(
        nic_bps=nic_bps,
        mtu_bytes=given.mtu_bytes or transport.mtu_bytes,
        crossing_s=software_s + delay_s,
        # The word of an empty slot is short: it takes no longer than a message, nor than the plugin reports for one.
        # Sockets have further buffers.
        back_s=None
        if given.transport == "tcp"
        else delay_s + min(software_s, plugin.latency_us / 1e6 if plugin else 0.0),
        machine_bytes_per_s=(
            float("inf") if given.machine_rate is None else _parsed("--machine-rate", given.machine_rate, BYTE_RATE)
        ),
        burst_s=transport.burst_s if given.burst_cost is None else _delay_s("--burst-cost", given.burst_cost),
    )
    if wires.machine_bytes_per_s < 1e6:
        raise InputFault(f"--machine-rate {given.machine_rate}: must be at least 1MB/s")
    return comm, wires, _notes(given, comm, kind)


def _plugin(given: CclOptions, version: Version, gpu: Gpu, environment: Environment) -> Plugin | None:
    if given.transport != "efa":
        if given.plugin is not None:
            raise InputFault(f"--plugin {given.plugin}: is for --transport efa, which NCCL has by a plugin alone")
        return None
    return plugin_of(given.plugin, version, gpu, environment.tuner)


def _parsed(option: str, text: str, kind: Quantity) -> float:
    try:
        return kind.parse(text)
    except ValueError as error:
        raise InputFault(f"{option} {text}: {error}") from None


def _delay_s(option: str, text: str) -> float:
    delay_s = _parsed(option, text, DURATION)
    if not 0 <= delay_s <= LONGEST_DELAY_S:
        raise InputFault(f"{option} {text}: must be 0s to {LONGEST_DELAY_S:g}s")
    return delay_s


def _variables(texts: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputFault(f"--env {text}: must be NAME=VALUE, such as NCCL_ALGO=Ring")
        found[name.strip()] = value
    return found


def _notes(given: CclOptions, comm: Communicator, kind: TestedCall) -> list[str]:
    transport = TRANSPORTS[given.transport]
    notes = [
        f"NCCL {name_of(comm.version)} ({TAGS[comm.version]}), {comm.machines} x {comm.gpus} {given.gpu}, "
        f"{given.nics} x {given.nic} per machine, {given.transport}"
        if comm.machines > 1
        else f"NCCL {name_of(comm.version)} ({TAGS[comm.version]}), {comm.gpus} {given.gpu}; all times are NCCL's own",
        _channels_of(comm, kind),
    ]
    if comm.machine.links and not comm.machine.nvswitch and comm.gpus > 2:
        notes.append(
            "without NVSwitch: all links of a GPU are counted for rings, of which a mesh with few may leave some idle"
        )
    if counts_as_hopper(gpu_named(given.gpu), comm.version):
        notes.append(
            f"NCCL {name_of(comm.version)} does not know {given.gpu}, and counts its links as those of h100 (--nccl 2.25 does)"
        )
    if comm.machines > 1:
        own_s = comm.plugin.crossing_s if comm.plugin else transport.crossing_s
        latency = f"{own_s * 1e6:g} us, {transport.source}" if given.latency is None else "as given"
        notes.append(f"latency of a message on top of NCCL's table: {latency}")
        if comm.machine.nics != given.nics:
            notes.append(f"the plugin shows NCCL {comm.machine.nics} NICs, one for each GPU, in place of {given.nics}")
        if not transport.gpu_direct:
            taken = ", ".join(f"{took_s * 1e6:g} us by {protocol.value}" for protocol, took_s in SOCKETS_S.items())
            notes.append(f"NCCL's sockets take more for a message: {taken}; measured on an H100")
        if given.burst_cost is None and transport.burst_s:
            notes.append(
                f"a host takes {transport.burst_s * 1e6:g} us for each burst of up to 64 KiB: {transport.burst_source}"
            )
        if comm.plugin:
            notes.append(_of_plugin(comm.plugin, given.plugin is None))
    environment, is_group = comm.environment, isinstance(kind, GroupedCall)
    without_effect = {
        NET_PEER: environment.net_peer_channels and not is_group,
        TUNER: environment.tuner and (is_group or not comm.plugin),
        "NCCL_ALGO": environment.algorithms and is_group,
        "NCCL_PROTO": environment.protocols and is_group,
    }
    what = "sends and receives" if is_group else "a collective"
    notes += [f"{name} has no effect on {what}" for name, is_idle in without_effect.items() if is_idle]
    return notes


def _channels_of(comm: Communicator, kind: TestedCall) -> str:
    if isinstance(kind, GroupedCall):
        return f"channels of sends and receives: {channels_of_all(comm)}, up to {channels_of_a_peer(comm)} to a GPU"
    searched = comm.searched
    heads = f", {searched.nvls.channels} heads of NVLS" if searched.nvls.channels else ""
    return f"channels found: ring {searched.ring.channels} x {searched.ring.inside:g} GB/s{heads}"


def _of_plugin(plugin: Plugin, is_default: bool) -> str:
    why = "which supports this version of NCCL" if is_default else "as given"
    tunes = f"its tuner chooses on {LEAST_MACHINES} machines and more" if plugin.tunes else "without its tuner"
    return f"by aws-ofi-nccl {plugin.release}, {why}: {tunes}; it reports {plugin.latency_us:g} us for a message"
