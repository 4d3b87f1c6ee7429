"""`gradwire ccl`: an estimate of the output of nccl-tests for a network. Options of the command, and the rows of the
table: for each size, the choices that NCCL makes, and the time that they take.

Between machines, times are those of the network: of rings in closed form, and of trees by the second engine, as far as
their plans are not too large. On one machine they are NCCL's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradwire.analysis.fluid.estimate import estimate
from gradwire.faults import InputFault
from gradwire.runs.ccl_machines import TestedCall, Wires
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.call_plan import compile_call, has_plan, ops_of
from gradwire.workloads.engines.nccl.chooser import KINDS, RING, SHARED, Communicator, choose
from gradwire.workloads.engines.nccl.duration import CallFacts, duration_s
from gradwire.workloads.engines.nccl.grouped import GroupedCall, GroupFacts, group_s
from gradwire.workloads.engines.nccl.pieces import divide
from gradwire.workloads.units import BYTE_RATE, SIZE

MOST_REPLAYED_OPS = 250_000
"""Plans that the second engine replays for a row: two to three seconds."""
MOST_SIZES = 200
MOST_BYTES = 2**43
MOST_EXPECTATIONS = 100
TESTED: tuple[TestedCall, ...] = (*KINDS, *GroupedCall)
DIVIDED: tuple[TestedCall, ...] = (*SHARED, *(kind for kind in GroupedCall if kind is not GroupedCall.SEND_RECV))
"""Calls whose size is that of all ranks' blocks."""
_EXPECTATION = re.compile(r"(?P<size>[^=]+)=(?P<rate>[^:]+)(?::(?P<tolerance>[0-9.]{1,6})%)?")


def bus_factor(kind: TestedCall, ranks: int) -> float:
    """Ratio of busbw to algbw: nccl-tests, doc/PERFORMANCE.md and `..GetBw` of each program."""
    if kind is Collective.ALL_REDUCE:
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if kind in DIVIDED and kind is not GroupedCall.HYPERCUBE else 1.0


def grain_bytes(kind: TestedCall, ranks: int, width: int) -> int:
    """Returns the bytes that sizes are multiples of: an element, or one for each rank."""
    return width * ranks if kind in DIVIDED else width


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    size_bytes: int
    #: Elements as nccl-tests count them: of `DIVIDED` calls, those of a rank.
    count: int
    time_s: float
    ranks: int
    kind: TestedCall
    algorithm: str
    protocol: str
    #: Channels and the bytes of a chunk; None where the model does not need them.
    channels: int | None
    chunk_bytes: int | None
    #: Source of the time.
    by: str
    #: Payload that a NIC carries in such a call, in bytes per second.
    nic_bytes_per_s: float

    @property
    def algorithm_bytes_per_s(self) -> float:
        """algbw: size over time; of a hypercube, without a GPU's own block (`HyperCubeGetBw`)."""
        own = self.size_bytes / self.ranks if self.kind is GroupedCall.HYPERCUBE else 0.0
        return (self.size_bytes - own) / self.time_s

    @property
    def bus_bytes_per_s(self) -> float:
        """The busbw of nccl-tests, in bytes per second, to be compared with the rate of links."""
        return self.algorithm_bytes_per_s * bus_factor(self.kind, self.ranks)


def row_of(
    comm: Communicator,
    wires: Wires,
    kind: TestedCall,
    size_bytes: int,
    width: int,
    most_ops: int = MOST_REPLAYED_OPS,
) -> Row:
    """The line for a size, which is rounded down to whole elements; trees of up to `most_ops` ops are replayed. Raises
    InputFault for less than one element."""
    grain = grain_bytes(kind, comm.ranks, width)
    size = size_bytes // grain * grain
    if size == 0:
        raise InputFault(f"{size_bytes} bytes: less than one element of {width} bytes for each rank")
    if isinstance(kind, GroupedCall):
        return _group_row(GroupFacts(comm, wires.network, kind, size), size // grain)
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


def _group_row(call: GroupFacts, count: int) -> Row:
    largest = call.pieces(max(load.message for load in call.loads))
    return Row(
        size_bytes=call.size_bytes,
        count=count,
        time_s=group_s(call),
        ranks=call.comm.ranks,
        kind=call.kind,
        algorithm="SendRecv",
        protocol=largest.protocol.value,
        channels=largest.channels,
        chunk_bytes=largest.chunk_bytes,
        by="closed form",
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


def rows(comm: Communicator, wires: Wires, kind: TestedCall, sizes: Sequence[int], width: int) -> Iterator[Row]:
    """Yields the rows for sizes; sizes of less than an element for each rank are left out."""
    least = grain_bytes(kind, comm.ranks, width)
    for size_bytes in sizes:
        if size_bytes >= least:
            yield row_of(comm, wires, kind, size_bytes, width)


def kind_of(text: str) -> TestedCall:
    """The call of this name, with or without its hyphens. Raises InputFault."""
    for kind in TESTED:
        if text.lower().replace("_", "-").replace("/", "-") in (kind.value, kind.value.replace("-", "")):
            return kind
    raise InputFault(f"{text}: must be one of {', '.join(kind.value for kind in TESTED)}")


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
