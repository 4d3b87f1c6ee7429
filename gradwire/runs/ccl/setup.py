"""What `gradwire ccl` is given, and the machines and the network that it is about."""

from __future__ import annotations

from dataclasses import dataclass

from gradwire.faults import InputFault
from gradwire.runs.ccl.table import TRANSPORTS, TYPES, Wires
from gradwire.workloads.engines.nccl.chooser import Communicator
from gradwire.workloads.engines.nccl.environment import environment_of
from gradwire.workloads.engines.nccl.search import LINKS, Machine
from gradwire.workloads.engines.nccl.tables import TAGS, Gpu, name_of, version_of
from gradwire.workloads.units import BYTE_RATE, DURATION, RATE, Quantity

GPUS = {"v100": Gpu.VOLTA, "a100": Gpu.AMPERE, "h100": Gpu.HOPPER, "b200": Gpu.BLACKWELL}


@dataclass(frozen=True)
class Given:
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
    message_cost: str
    mtu_bytes: int


def set_up(given: Given) -> tuple[Communicator, Wires, list[str]]:
    """The machines, the network, and notes for the reader. Raises InputFault for what cannot be."""
    for option, value, known in (
        ("--gpu", given.gpu, GPUS),
        ("--transport", given.transport, TRANSPORTS),
        ("--dtype", given.dtype, TYPES),
    ):
        if value not in known:
            raise InputFault(f"{option} {value}: must be one of {', '.join(known)}")
    if given.machines * given.gpus == 1:
        raise InputFault("--machines 1 --gpus 1: a collective needs two GPUs or more")
    version, gpu, transport = version_of(given.version), GPUS[given.gpu], TRANSPORTS[given.transport]
    nic_bps = _parsed("--nic", given.nic, RATE)
    machine = Machine(
        gpus=given.gpus,
        gpu=gpu,
        nics=given.nics,
        nic_bytes_per_s=nic_bps / 8,
        gpu_direct=transport.gpu_direct,
        links=LINKS[gpu] if given.links is None else given.links,
        nvswitch=given.nvswitch and given.links != 0,
        amd=given.amd,
    )
    comm = Communicator(version, machine, given.machines, environment_of(_variables(given.variables), version))
    software_s = transport.crossing_s if given.latency is None else _parsed("--latency", given.latency, DURATION)
    wires = Wires(
        nic_bps=nic_bps,
        mtu_bytes=given.mtu_bytes,
        crossing_s=software_s + _parsed("--delay", given.delay, DURATION),
        machine_bytes_per_s=(
            float("inf") if given.machine_rate is None else _parsed("--machine-rate", given.machine_rate, BYTE_RATE)
        ),
        message_s=_parsed("--message-cost", given.message_cost, DURATION),
    )
    if wires.machine_bytes_per_s < 1e6:
        raise InputFault(f"--machine-rate {given.machine_rate}: must be at least 1MB/s")
    return comm, wires, _notes(given, comm)


def _parsed(option: str, text: str, kind: Quantity) -> float:
    try:
        return kind.parse(text)
    except ValueError as error:
        raise InputFault(f"{option} {text}: {error}") from None


def _variables(texts: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputFault(f"--env {text}: must be NAME=VALUE, such as NCCL_ALGO=Ring")
        found[name.strip()] = value
    return found


def _notes(given: Given, comm: Communicator) -> list[str]:
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
        latency = transport.source if given.latency is None else "as given"
        notes.append(f"latency on top of NCCL's table: {latency}")
    notes += [f"{name} has no effect on a collective" for name in comm.environment.without_effect]
    return notes
