"""`gradwire ccl`: an estimate of the output of nccl-tests for a network. Options of the command, and the rows of the
table: for each size, the choices that NCCL makes, and the time that they take.

Between machines, times are those of the network: of rings in closed form, and of trees by the second engine, as far as
their plans are not too large. On one machine they are NCCL's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

from gradwire.analysis.fluid.estimate import estimate
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.scenario.sections.fabric import LONGEST_DELAY_S
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.call_plan import compile_call, has_plan, ops_of
from gradwire.workloads.engines.nccl.chooser import KINDS, RING, SHARED, Communicator, choose
from gradwire.workloads.engines.nccl.devices import DEVICES, GpuName
from gradwire.workloads.engines.nccl.duration import SOCKETS_S, CallFacts, MachineNetwork, duration_s
from gradwire.workloads.engines.nccl.efa_plugin import LEAST_MACHINES, Plugin, plugin_of
from gradwire.workloads.engines.nccl.environment import TUNER, Environment, environment_of
from gradwire.workloads.engines.nccl.pieces import divide
from gradwire.workloads.engines.nccl.search import MAX_GPUS, MAX_MACHINES, MAX_NICS, GpuMachine
from gradwire.workloads.engines.nccl.tables import TAGS, Gpu, Version, name_of, version_of
from gradwire.workloads.units import BYTE_RATE, DURATION, RATE, SIZE, Quantity

MOST_REPLAYED_OPS = 250_000
"""Plans that the second engine replays for a row: two to three seconds."""
MOST_SIZES = 200
MOST_BYTES = 2**43
MOST_EXPECTATIONS = 100
TYPES = {"float": 4, "double": 8, "half": 2, "bfloat16": 2, "int32": 4, "int8": 1}
"""Types of nccl-tests, and their bytes. NCCL treats 8-bit floats in another way."""
_EXPECTATION = re.compile(r"(?P<size>[^=]+)=(?P<rate>[^:]+)(?::(?P<tolerance>[0-9.]{1,6})%)?")


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


def bus_factor(kind: Collective, ranks: int) -> float:
    """Ratio of busbw to algbw: nccl-tests, doc/PERFORMANCE.md."""
    if kind is Collective.ALL_REDUCE:
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if kind in SHARED else 1.0


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
class Row:
    """A line of the table."""

    size_bytes: int
    #: Elements as nccl-tests count them: of an all-gather and a reduce-scatter, those of a rank.
    count: int
    time_s: float
    ranks: int
    kind: Collective
    algorithm: str
    protocol: str
    channels: int
    chunk_bytes: int
    #: Source of the time.
    by: str
    #: Payload that a NIC carries in such a call, in bytes per second.
    nic_bytes_per_s: float

    @property
    def algorithm_bytes_per_s(self) -> float:
        """algbw: size over time."""
        return self.size_bytes / self.time_s

    @property
    def bus_bytes_per_s(self) -> float:
        """The busbw of nccl-tests, in bytes per second, to be compared with the rate of links."""
        return self.algorithm_bytes_per_s * bus_factor(self.kind, self.ranks)


def row_of(
    comm: Communicator,
    wires: Wires,
    kind: Collective,
    size_bytes: int,
    width: int,
    most_ops: int = MOST_REPLAYED_OPS,
) -> Row:
    """The line for a size, which is rounded down to whole elements; trees of up to `most_ops` ops are replayed. Raises
    InputFault for less than one element."""
    grain = width * (comm.ranks if kind in SHARED else 1)
    size = size_bytes // grain * grain
    if size == 0:
        raise InputFault(f"{size_bytes} bytes: less than one element of {width} bytes for each rank")
    choice = choose(comm, kind, size)
    pieces = divide(comm, kind, choice.algorithm, choice.protocol, size)
    call = CallFacts(comm, wires.network, kind, choice, pieces, size)
    time_s, by = _time(call, wires, most_ops)
    return Row(
        size_bytes=size,
        count=size // grain,
        time_s=time_s,
        ranks=comm.ranks,
        kind=kind,
        algorithm=choice.algorithm.value,
        protocol=choice.protocol.value,
        channels=pieces.channels,
        chunk_bytes=pieces.chunk_bytes,
        by=by,
        nic_bytes_per_s=call.nic_payload,
    )


def _time(call: CallFacts, wires: Wires, most_ops: int) -> tuple[float, str]:
    # What trees share of NICs and links changes as they fill. Of rings, the closed form says the same as the engine.
    if call.algorithm is not RING and has_plan(call) and ops_of(call) <= most_ops:
        return replayed_s(call, wires), "second engine"
    return duration_s(call), "closed form"


def replayed_s(call: CallFacts, wires: Wires) -> float:
    """Seconds that a call takes by the second engine. Raises InputFault if it has no plan, or one that is too
    large."""
    fabric = wires.fabric(call.comm.machines, call.nic_payload, call.crossing_s)
    return call.apart_s + estimate(compile_call(call), fabric, most_iterations=1).iteration_s


def rows(comm: Communicator, wires: Wires, kind: Collective, sizes: Sequence[int], width: int) -> Iterator[Row]:
    """Yields the rows for sizes; sizes of less than an element for each rank are left out."""
    least = width * (comm.ranks if kind in SHARED else 1)
    for size_bytes in sizes:
        if size_bytes >= least:
            yield row_of(comm, wires, kind, size_bytes, width)


def kind_of(text: str) -> Collective:
    """The collective of this name, with or without its hyphen. Raises InputFault."""
    for kind in KINDS:
        if text.lower().replace("_", "-") in (kind.value, kind.value.replace("-", "")):
            return kind
    raise InputFault(f"{text}: must be one of {', '.join(kind.value for kind in KINDS)}")


def size_of(text: str) -> int:
    """A size with its unit, or a number of bytes. Raises InputFault."""
    stripped = text.strip()
    try:
        size = int(stripped[:20]) if stripped.isdecimal() else round(SIZE.parse(stripped))
    except ValueError as error:
        raise InputFault(f"size {text}: {error}") from None
    if not 1 <= size <= MOST_BYTES:
        raise InputFault(f"size {text}: must be from 1B to {MOST_BYTES >> 40}TiB")
    return size


def sizes_of(text: str) -> list[int]:
    """Sizes as `8..16GiB`, which doubles from the first to the last, as `1MiB,4MiB`, or both. Raises InputFault."""
    sizes: list[int] = []
    for entry in text.split(","):
        first, dots, last = entry.partition("..")
        size, end = size_of(first), size_of(last if dots else first)
        if size > end:
            raise InputFault(f"sizes {entry}: the first must not be larger than the last")
        while size <= end:
            sizes.append(size)
            size *= 2
        if len(sizes) > MOST_SIZES:
            raise InputFault(f"sizes {text}: more than {MOST_SIZES}")
    return sizes


@dataclass(frozen=True)
class ExpectedBusbw:
    """A busbw that a size must reach."""

    text: str
    size_bytes: int
    bus_bytes_per_s: float
    #: Share by which the bandwidth may be missed.
    tolerance: float

    @property
    def bound_bytes_per_s(self) -> float:
        """The least that passes."""
        return self.bus_bytes_per_s * (1 - self.tolerance)

    def holds(self, row: Row) -> bool:
        """Returns whether a row reaches the expected bandwidth."""
        return row.bus_bytes_per_s >= self.bound_bytes_per_s


def expectations_of(texts: Sequence[str]) -> list[ExpectedBusbw]:
    """Parses texts of `--expect`, such as 1GiB=350GB/s:5%. Raises InputFault."""
    if len(texts) > MOST_EXPECTATIONS:
        raise InputFault(f"{len(texts)} expectations: at most {MOST_EXPECTATIONS}")
    found = []
    for text in texts:
        match = _EXPECTATION.fullmatch(text)
        try:
            rate = BYTE_RATE.parse(match["rate"]) if match else 0.0
            tolerance = float(match["tolerance"] or 0) / 100 if match else 0.0
        except ValueError as error:
            raise InputFault(f"--expect {text}: {error}") from None
        if match is None or rate <= 0 or not 0 <= tolerance < 1:
            raise InputFault(f"--expect {text}: must be SIZE=BUSBW or SIZE=BUSBW:TOLERANCE, such as 1GiB=350GB/s:5%")
        found.append(ExpectedBusbw(text, size_of(match["size"]), rate, tolerance))
    return found


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
    version: str
    variables: tuple[str, ...]
    latency: str | None
    delay: str
    machine_rate: str | None
    burst_cost: str | None
    #: None: the transport's.
    mtu_bytes: int | None
    #: Release of EFA's plugin; None: that of the version.
    plugin: str | None = None


def set_up(given: CclOptions) -> tuple[Communicator, Wires, list[str]]:
    """The machines, the network, and notes for the reader. Raises InputFault for options that are wrong or
    impossible."""
    for option, value, known in (
        ("--gpu", given.gpu, tuple(DEVICES)),
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
    version, device, transport = version_of(given.version), DEVICES[GpuName(given.gpu)], TRANSPORTS[given.transport]
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
    return comm, wires, _notes(given, comm)


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


def _notes(given: CclOptions, comm: Communicator) -> list[str]:
    searched, transport = comm.searched, TRANSPORTS[given.transport]
    notes = [
        f"NCCL {name_of(comm.version)} ({TAGS[comm.version]}), {comm.machines} x {comm.gpus} {given.gpu}, "
        f"{given.nics} x {given.nic} per machine, {given.transport}"
        if comm.machines > 1
        else f"NCCL {name_of(comm.version)} ({TAGS[comm.version]}), {comm.gpus} {given.gpu}; all times are NCCL's own",
        f"channels found: ring {searched.ring.channels} x {searched.ring.inside:g} GB/s"
        + (f", {searched.nvls.channels} heads of NVLS" if searched.nvls.channels else ""),
    ]
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
    without_effect = [
        *comm.environment.without_effect,
        *([TUNER] if comm.environment.tuner and not comm.plugin else []),
    ]
    notes += [f"{name} has no effect on a collective" for name in without_effect]
    return notes


def _of_plugin(plugin: Plugin, is_default: bool) -> str:
    why = "which supports this version of NCCL" if is_default else "as given"
    tunes = f"its tuner chooses on {LEAST_MACHINES} machines and more" if plugin.tunes else "without its tuner"
    return f"by aws-ofi-nccl {plugin.release}, {why}: {tunes}; it reports {plugin.latency_us:g} us for a message"
