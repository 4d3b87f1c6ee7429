"""Logs that NCCL and RCCL write with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,COLL, of one process or of several.

`ncclEnqueueCheck` of src/enqueue.cc (NVIDIA/nccl 2.30) writes a line for each call, behind the prefix of src/debug.cc, and
`ncclCommInitRankFunc` of src/init.cc one for each communicator:

    node:41:52 [0] NCCL INFO ncclCommInitRank comm 0x5581 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x9f - Init COMPLETE
    node:41:41 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x7f10 recvbuff 0x7f10 count 1024 datatype 7 op 0 root 0 comm 0x5581
        [nranks=2] stream 0x5590

(the second is one line). Communicators that were split have `parent`, `splitCount` or `childCount`, and `color` in place of
`commId`. RCCL adds `task` and `globalrank`: such lines are what its older replayer (ROCm/rccl, tools/rccl_replayer) takes.
There are no times.
"""

from __future__ import annotations

import re
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.workloads.traces.formats.logged_calls import CallsByGpu, GpuCommunicator, LoggedCall
from gradwire.workloads.traces.formats.nccl_calls import NcclArguments
from gradwire.workloads.traces.formats.text_lines import lines_of
from gradwire.workloads.traces.record import MOST_RANKS, Findings, Membership, RankRecord, Reading, Watch
from gradwire.workloads.traces.workload import POINT_TO_POINT, UNKNOWN

NAME = "NCCL log"
MARK = b"NCCL INFO "
SUBSYSTEMS = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL"
PER_PROCESS = "NCCL_DEBUG_FILE=nccl.%h.%p"
NUMBER, POINTER = "[0-9]{1,18}", r"(?:0x[0-9a-f]{1,16}|\(nil\))"
PREFIX = re.compile(
    rf"(?P<host>[^\s:]{{1,256}}):(?P<pid>{NUMBER}):{NUMBER} \[(?P<device>[0-9]{{1,4}})\] (?:{NUMBER} )?NCCL INFO (?P<text>.*)"
)
INIT = re.compile(
    rf"comm (?P<comm>{POINTER}) rank (?P<rank>{NUMBER}) n[rR]anks (?P<size>{NUMBER}) cudaDev (?P<device>[0-9]{{1,4}})\b.*?"
    rf"(?:commId (?P<id>0x[0-9a-f]{{1,16}})\b.*|parent (?P<parent>{POINTER}) (?:split|child)Count (?P<count>{NUMBER}) "
    rf"color (?P<color>-?{NUMBER}) .*)?- Init (?:START|COMPLETE)"
)
CALL = re.compile(
    rf"(?P<name>\w{{1,40}}): opCount (?P<op>[0-9a-f]{{1,16}}) sendbuff {POINTER} recvbuff {POINTER} (?:acc {POINTER} )?"
    rf"count (?P<count>{NUMBER}) datatype (?P<type>[0-9]{{1,9}}) op [0-9]{{1,9}} root (?P<root>-?[0-9]{{1,9}}) "
    rf"comm (?P<comm>{POINTER}) \[nranks=(?P<size>[0-9]{{1,9}})\] stream (?P<stream>{POINTER})"
    rf"(?: task {NUMBER} globalrank (?P<place>[0-9]{{1,9}}))?\s*"
)
HALF = ": opCount "
"""What a line of a call has, even one that is mixed with another or cut off."""


def recognises(beginning: bytes) -> bool:
    """Returns whether a file that begins so may be a log of NCCL: whether it has a line of it."""
    return MARK in beginning


def read(path: Path, reading: Reading, watch: Watch) -> list[RankRecord]:
    """Reads a log: a record for each GPU of each process in it. Raises InputFault for what is not one."""
    if reading.step is not None:
        raise InputFault(f"{path}: --step {reading.step}: a log of NCCL does not tell steps apart; Kineto profiles do")
    log = _NcclLog(path)
    for number, line in lines_of(path, watch):
        if (said := PREFIX.search(line)) is not None:
            log.take(f"line {number}", said)
        elif HALF in line:
            log.half(f"line {number}")
    return log.records(reading)


class _NcclLog:
    """What a log has said so far."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._findings = Findings()
        self._gpus = CallsByGpu()
        #: By process and pointer.
        self._communicators: dict[tuple[str, str], GpuCommunicator] = {}
        #: Communicators of a process by their ranks, where the log does not identify them.
        self._nameless: dict[tuple[str, int, int], int] = {}
        #: By process, GPU and name of a communicator.
        self._pointers: dict[tuple[str, int, str], str] = {}
        #: By process, communicator and opCount.
        self._groups: dict[tuple[str, str, str], int] = {}

    def take(self, place: str, line: re.Match[str]) -> None:
        """Takes a line of NCCL's. Raises InputFault for a call that cannot be."""
        process, text = f"{line['host']}:{line['pid']}", line["text"]
        if (call := CALL.fullmatch(text)) is not None:
            self._take_call(place, process, int(line["device"]), call)
        elif HALF in text:
            self.half(place)
        elif (made := INIT.search(text)) is not None:
            self._take_communicator(place, process, made)

    def half(self, place: str) -> None:
        """Refuses a line that has only a part of a call."""
        what = f"a call whose line is cut off, or mixed with that of another process: write a file per process, with {PER_PROCESS}"
        self._findings.refuse(str(self._path), place, what)

    def _take_communicator(self, place: str, process: str, said: re.Match[str]) -> None:
        membership = self._membership(place, said["rank"], said["size"])
        known = self._communicators.get((process, said["comm"]))
        if said["id"] is not None and int(said["id"], 16):
            name = said["id"]
        elif said["parent"] is not None:
            parent = self._communicators.get((process, said["parent"]))
            name = f"{parent.name if parent else said['parent']}/{said['count']}/{said['color']}"
        elif known is not None and known.membership == membership:
            return  # the second line about it
        else:
            name = self._nameless_name(place, process, membership)
        pointer = self._pointers.setdefault((process, int(said["device"]), name), said["comm"])
        if pointer != said["comm"]:
            what = f"commId {name}: is also that of comm {pointer}: this version gives splits of one parent by one color the same; "
            what += "NCCL from 2.24 on does not"
            self._findings.refuse(str(self._path), place, what)
        self._communicators[process, said["comm"]] = GpuCommunicator(name, int(said["device"]), membership)

    def _membership(self, place: str, rank: str, size: str) -> Membership:
        if not int(rank) < int(size) <= MOST_RANKS:
            raise InputFault(f"{self._path}: {place}: rank {rank} of {size}: at most {MOST_RANKS:,} ranks are read")
        return Membership(int(rank), int(size))

    def _nameless_name(self, place: str, process: str, membership: Membership) -> str:
        """A name for a communicator that the log does not identify: its size, and its number among those of its size."""
        key = process, membership.place, membership.size
        number = self._nameless[key] = self._nameless.get(key, 0) + 1
        what = (
            "a communicator that the log does not identify: taken as the one that the other ranks made at the same turn"
        )
        self._findings.note(str(self._path), place, what)
        return f"{membership.size} ranks, number {number}"

    def _take_call(self, place: str, process: str, device: int, said: re.Match[str]) -> None:
        known = self._communicators.get((process, said["comm"]))
        if known is None and said["place"] is not None:
            membership = self._membership(place, said["place"], said["size"])
            known = GpuCommunicator(self._nameless_name(place, process, membership), device, membership)
            self._communicators[process, said["comm"]] = known
        if known is None:
            what = f"a call of a communicator (comm) that no line says the ranks of; write the log with {SUBSYSTEMS}"
            self._findings.refuse(str(self._path), place, what)
            return
        if int(said["size"]) != known.membership.size:
            what = f"nranks={said['size']}: its communicator was made with {known.membership.size}"
            raise InputFault(f"{self._path}: {place}: {what}")
        count, datatype, root = int(said["count"]), int(said["type"]), int(said["root"])
        made = NcclArguments(said["name"], count, datatype, root, known.name, known.membership.size)
        try:
            call = made.call(place)
        except ValueError as error:
            self._findings.refuse(str(self._path), place, str(error))
            return
        together = UNKNOWN
        if call.kind in POINT_TO_POINT:  # calls of a group have the same number
            together = self._groups.setdefault((process, said["comm"], said["op"]), len(self._groups))
        self._gpus.add(process, known, LoggedCall(call, said["stream"], together=together))

    def records(self, reading: Reading) -> list[RankRecord]:
        """The record of each GPU. Raises InputFault for a log without calls."""
        if not self._gpus and not self._findings.refused:
            raise InputFault(f"{self._path}: is a log of NCCL without calls: write it with {SUBSYSTEMS}")
        return self._gpus.records(self._path, NAME, reading, self._findings)
