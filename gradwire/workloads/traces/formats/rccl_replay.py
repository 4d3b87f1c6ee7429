"""Logs that RCCL writes for its replayer with RCCL_REPLAY_FILE (ROCm 7.0 and later), one file per process, in any form.

`Recorder` of src/misc/recorder.cc (ROCm/rccl) writes every call of the API, with the host's time in milliseconds. A
communicator is a pointer. `CommInitDev` says its unique id, which is the same in all processes, and the rank in it; a
collective says the rank and the size as well (`globalrank`, `nranks`). `CommSplit` does not say the pointer of what it makes,
so that a communicator of one of several splits is only known if --groups gives its ranks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.workloads.traces.formats.logged_calls import CallsByGpu, GpuCommunicator, LoggedCall
from gradwire.workloads.traces.formats.nccl_calls import NcclArguments, kind_of
from gradwire.workloads.traces.record import MOST_RANKS, Findings, Membership, RankRecord, Reading
from gradwire.workloads.traces.workload import POINT_TO_POINT, UNKNOWN

GROUP_START, GROUP_ENDS = "GroupStart", ("GroupEnd", "GroupSimulatedEnd")
SPLIT, MADE = "CommSplit", "CommInitDev"
DATALESS = (
    *("GetUniqueId", "CommInitRank", "CommInitAll", "CommInitRankConfig", "CommFinalize", "CommDestroy", "CommAbort"),
    *("CommRegister", "CommDeregister", "MemAlloc", "MemFree", "RedOpCreatePreMulSum", "RedOpDestroy"),
)
"""Calls that move nothing between ranks."""
LATEST_MS = 1e13
"""The year 2286."""


@dataclass(frozen=True)
class ReplayCall:
    """A call as RCCL recorded it; what a call does not have is 0, "" or -1."""

    name: str
    place: str
    time_ms: float = 0.0
    captured: int = 0
    device: int = 0
    #: The communicator's pointer; of a split, the parent's.
    comm: str = ""
    unique_id: str = ""
    #: Ranks of the communicator, and the place in it.
    size: int = UNKNOWN
    rank: int = UNKNOWN
    color: int = UNKNOWN
    count: int = 0
    datatype: int = UNKNOWN
    root: int = UNKNOWN
    stream: str = ""
    sent: tuple[int, ...] = ()
    received: tuple[int, ...] = ()


class ReplayLog:
    """The calls of a log, as they come."""

    def __init__(self, path: Path, format_name: str, reading: Reading) -> None:
        if reading.step is not None:
            what = "a log of RCCL does not tell steps apart; Kineto profiles do"
            raise InputFault(f"{path}: --step {reading.step}: {what}")
        self._path, self._format, self._reading = path, format_name, reading
        self._findings = Findings()
        self._gpus = CallsByGpu()
        self._communicators: dict[str, GpuCommunicator] = {}
        #: Names, and GPUs, of what splits made and no call has been for yet; and how many splits each parent has had.
        self._split: list[tuple[str, int]] = []
        self._splits: dict[str, int] = {}
        self._depth = self._group = 0

    def take(self, call: ReplayCall) -> None:
        """Takes a call. Raises InputFault for one that cannot be."""
        if call.name == GROUP_START:
            self._depth += 1
            self._group += self._depth == 1
        elif call.name in GROUP_ENDS:
            self._depth = max(self._depth - 1, 0)
        elif call.name == MADE:
            membership = self._membership(call)
            self._communicators[call.comm] = GpuCommunicator(call.unique_id, call.device, membership)
        elif call.name == SPLIT:
            self._take_split(call)
        elif kind_of(call.name) is not None:
            self._take_transfer(call)
        elif call.name not in DATALESS:
            what = f"'{call.name[:60]}' is none of RCCL's calls that move data: left out"
            self._findings.note(str(self._path), call.place, what)

    def cut_off(self, place: str) -> None:
        """Notes that the file ends in the middle of a call."""
        self._findings.note(str(self._path), place, "the file ends in the middle of it: left out")

    def _membership(self, call: ReplayCall) -> Membership:
        if not 0 <= call.rank < call.size <= MOST_RANKS:
            what = f"{call.name}: rank {call.rank} of {call.size}: at most {MOST_RANKS:,} ranks are read"
            raise InputFault(f"{self._path}: {call.place}: {what}")
        return Membership(call.rank, call.size)

    def _take_split(self, call: ReplayCall) -> None:
        parent = self._communicators.get(call.comm)
        number = self._splits[call.comm] = self._splits.get(call.comm, 0) + 1
        if call.color >= 0:
            name = f"{parent.name if parent else call.comm}/{number}/{call.color}"
            self._split.append((name, parent.device if parent else call.device))

    def _take_transfer(self, call: ReplayCall) -> None:
        if call.captured == 1:
            what = "a call that was captured into a graph: it counts where the graph runs"
            self._findings.note(str(self._path), call.place, what)
            return
        if not (math.isfinite(call.time_ms) and 0 < call.time_ms < LATEST_MS):
            raise InputFault(f"{self._path}: {call.place}: time: {call.time_ms:g}: must be milliseconds above 0")
        known = self._communicator(call)
        if known is None:
            return
        if call.size != known.membership.size:
            what = f"nranks : {call.size}: its communicator has {known.membership.size}"
            raise InputFault(f"{self._path}: {call.place}: {what}")
        made = NcclArguments(
            call.name, call.count, call.datatype, call.root, known.name, call.size, call.sent, call.received
        )
        try:
            transfer = made.call(call.place)
        except ValueError as error:
            self._findings.refuse(str(self._path), call.place, str(error))
            return
        grouped = self._depth > 0 and transfer.kind in POINT_TO_POINT
        fraction, whole = math.modf(call.time_ms)
        begun_ns = int(whole) * 10**6 + round(fraction * 1e6)  # a product of floats would be 256 ns coarse
        logged = LoggedCall(transfer, call.stream, begun_ns, together=self._group if grouped else UNKNOWN)
        self._gpus.add("", known, logged)

    def _communicator(self, call: ReplayCall) -> GpuCommunicator | None:
        """The communicator of a call; None if it is refused because that is not known."""
        known = self._communicators.get(call.comm)
        if known is not None:
            return known
        given = call.comm in self._reading.groups or call.comm in self._reading.several_groups
        if not given and len(self._split) != 1:
            what = f"comm : {call.comm[:40]}: "
            what += f"which of {len(self._split)} CommSplit calls made it" if self._split else "how it was made"
            what += " is not logged: give its ranks with --groups"
            self._findings.refuse(str(self._path), call.place, what)
            return None
        name, device = (call.comm, call.device) if given else self._split.pop()
        self._communicators[call.comm] = made = GpuCommunicator(name, device, self._membership(call))
        return made

    def records(self) -> list[RankRecord]:
        """The record of each GPU of the process. Raises InputFault for a log without calls."""
        if not self._gpus and not self._findings.refused:
            raise InputFault(f"{self._path}: is a log of RCCL in which no call moves data")
        return self._gpus.records(self._path, self._format, self._reading, self._findings)
