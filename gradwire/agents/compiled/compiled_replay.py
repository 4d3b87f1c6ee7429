"""Replays a plan with the compiled agent: hands over the plan's columns and the connections, and puts into words what
may be wrong.

What the compiled agent found wrong is put into the words of the agents in Python.
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, assert_never

import numpy as np
import numpy.typing as npt

from gradwire.agents.compiled.library import SharedArrays, fill
from gradwire.agents.compiled.structures import (
    Broken,
    BrokenWhileSending,
    CallFailed,
    Closed,
    Contradictory,
    ContributionSet,
    End,
    FramingLost,
    Given,
    HungUp,
    NobodyWaits,
    NotComplete,
    TimestampsUnreadable,
    TimestampWithoutNumber,
    Told,
    What,
)
from gradwire.agents.departures import PortLine
from gradwire.agents.op_state import COLUMNS, RankGraph
from gradwire.agents.transfer import payload_file
from gradwire.datatypes.plan import FULL_SPEED, Combine, Contributions, Int64, OpKind, Plan, contradiction
from gradwire.datatypes.rank_transfers import rank_transfers
from gradwire.datatypes.records import OpLog
from gradwire.faults import Fault, InternalFault, MachineFault
from gradwire.network.wire.flows import Connection


def fault_of(
    told: Told,
    plan: Plan,
    peers: Mapping[tuple[int, bool], str],
    rank_and_chunk: Callable[[int], tuple[int, int]],
    workers: int,
) -> Fault:
    """The fault that ended a replay.

    peers: address of the other end of each connection, by its number and whether it begins here. rank_and_chunk: whose
    a place of the ledger is, and of which chunk.
    """
    match why := told.reason:
        case BrokenWhileSending() | HungUp():
            return _broken(why, peers.get((why.connection, True), "a peer"))
        case Broken() | Closed() | NobodyWaits():
            return _broken(why, peers.get((why.connection, False), "a peer"))
        case FramingLost():
            return _framing_lost(why)
        case Contradictory():
            return _contradictory(why, told, plan, workers)
        case NotComplete():
            return not_complete(why.iteration, why.op, *rank_and_chunk(why.slot), why.held, why.needed)
        case TimestampsUnreadable() | TimestampWithoutNumber() | CallFailed():
            return _of_the_kernel(why)
        case _:
            assert_never(why)


def _of_the_kernel(why: TimestampsUnreadable | TimestampWithoutNumber | CallFailed) -> Fault:
    match why:
        case TimestampsUnreadable():
            return MachineFault(f"a socket's timestamps cannot be read: {os.strerror(why.error)}")
        case TimestampWithoutNumber():
            return InternalFault(
                f"a timestamp came with control message {why.type} of level {why.level} instead of its number"
            )
        case CallFailed():
            return InternalFault(f"system call {why.number} failed in a list of calls: {os.strerror(why.error)}")
        case _:
            assert_never(why)


def _broken(why: BrokenWhileSending | HungUp | Broken | Closed | NobodyWaits, peer: str) -> Fault:
    match why:
        case BrokenWhileSending():
            return MachineFault(f"the connection to {peer} broke while sending: {_error(why.error)}")
        case HungUp():
            return MachineFault(f"the connection to {peer} broke in the middle of the run")
        case Broken():
            return MachineFault(f"the connection from {peer} broke in the middle of the run: {_error(why.error)}")
        case Closed():
            return MachineFault(f"the connection from {peer} closed in the middle of the run")
        case NobodyWaits():
            return InternalFault(
                f"message {why.message} of iteration {why.iteration} came from {peer}, and no RECV waits for it"
            )
        case _:
            assert_never(why)


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _framing_lost(why: FramingLost) -> InternalFault:
    what = f"magic {why.magic:#x}, version {why.version}, mask of {why.set_bytes} bytes"
    of = f"a message of {why.size_bytes} bytes" if why.size_bytes < 0 else what
    return InternalFault(f"a connection lost its framing: {of}")


def _contradictory(why: Contradictory, told: Told, plan: Plan, workers: int) -> InternalFault:
    combine = Combine(int(plan.ops.combine[why.op]))
    defect = contradiction(combine, _read(told.arrived, workers), _read(told.total, workers))
    rank, chunk = int(plan.ops.rank[why.op]), int(plan.ops.chunk[why.op])
    return InternalFault(f"iteration {why.iteration}, RECV op {why.op} at rank {rank}, chunk {chunk}: {defect}")


def not_complete(iteration: int, op: int, rank: int, chunk: int, held: int, needed: int) -> InternalFault:
    """Describes the failure in which an op needs a chunk of one iteration, and its rank holds that of another."""
    of = "this iteration" if needed == iteration else "the iteration before"
    return InternalFault(
        f"iteration {iteration}, op {op} at rank {rank} needs chunk {chunk} of {of}, but holds that of iteration {held}"
    )


def _read(contributions: ContributionSet, workers: int) -> Contributions:
    words = contributions.workers[: (workers + 63) // 64]
    return Contributions(contributions.iteration, sum(word << 64 * digit for digit, word in enumerate(words)))


Bools = npt.NDArray[np.bool_]


def can_replay(plan: Plan) -> bool:
    """Returns whether the compiled agent can replay a plan, which it cannot if any message goes to a group
    (multicast)."""
    return not plan.ops.group.any()


@dataclass(frozen=True)
class LedgerSlots:
    """The places of the ledger: each is what one rank holds of one chunk."""

    chunks: int
    #: rank * chunks + chunk of each place, in order.
    keys: Int64

    @staticmethod
    def of(plan: Plan, moves: Bools, is_own: Bools) -> LedgerSlots:
        """The slots of the ops that move a chunk, and of those that produce, consume or need one."""
        ops, chunks = plan.ops, max(1, len(plan.chunk_bytes))
        pairs = [table[is_own[table[:, 0]]] for table in (plan.produces, plan.consumes, plan.needs)]
        keys = [ops.rank[moves].astype(np.int64) * chunks + ops.chunk[moves]]
        keys += [ops.rank[table[:, 0]].astype(np.int64) * chunks + table[:, 1] for table in pairs]
        return LedgerSlots(chunks, np.unique(np.concatenate(keys)))

    def place(self, ranks: npt.NDArray[np.int32], chunks: npt.NDArray[np.int32] | Int64) -> Int64:
        """The places of pairs of a rank and a chunk."""
        return np.searchsorted(self.keys, ranks.astype(np.int64) * self.chunks + chunks).astype(np.int64)

    def rank_and_chunk(self, slot: int) -> tuple[int, int]:
        """Returns the rank and the chunk that a place of the ledger is for."""
        rank, chunk = divmod(int(self.keys[slot]), self.chunks)
        return rank, chunk


def sets_of_workers(bits: Sequence[int], workers: int) -> npt.NDArray[np.uint64]:
    """Sets of workers, a row each, in words of 64."""
    words = (workers + 63) // 64
    return np.frombuffer(b"".join(bit_set.to_bytes(8 * words, "little") for bit_set in bits), "<u8").reshape(-1, words)


class CompiledReplay:
    """A replay of `iterations` iterations of a plan by the ranks in `ranks`.

    The same as ReplayLoop with its Interpreter, for plans that it can replay, and where no fault happens to workers.
    """

    def __init__(self, library: ctypes.CDLL, plan: Plan, ranks: set[int], iterations: int) -> None:
        self._library, self._plan = library, plan
        self._graph = graph = RankGraph(plan, ranks)
        self._columns = SharedArrays()
        self._given = given = Given()
        self._is_own = np.isin(plan.ops.rank, list(ranks))
        ops, kind = plan.ops, plan.ops.kind
        moves = self._is_own & (ops.chunk >= 0) & ((kind == OpKind.SEND) | (kind == OpKind.RECV))
        self._holdings = LedgerSlots.of(plan, moves, self._is_own)
        given.ops, given.queues = len(ops), len(plan.queue_rank)
        given.own, given.iterations, given.workers = len(graph.own_ops), iterations, len(plan.workers)
        of_ops = ("kind", "rank", "lane", "chunk", "combine", "order", "duration_ns", "size_bytes")
        fill(given, self._columns, {name: getattr(ops, name) for name in of_ops})
        self._give_graph()
        self._give_ledger(moves)
        self._give_lanes()
        self._give_contention()
        # Written once before it is used: see OpLogger.
        self._log = np.full((max(1, given.own * iterations), COLUMNS), 0, np.int64)
        self._lateness_ns = np.full(max(1, given.own * iterations), 0, np.int64)
        fill(given, self._columns, {"log": self._log, "lateness_ns": self._lateness_ns})
        self._told = Told()

    def _give_graph(self) -> None:
        """Hands over the dependencies between ops, and the columns that `RankGraph` derives from them."""
        graph, plan = self._graph, self._plan
        chunk = plan.ops.chunk
        tensor = np.where(chunk >= 0, plan.chunk_tensor[np.maximum(chunk, 0)], -1) if len(plan.chunk_tensor) else chunk
        arrays = {
            "received_as": graph.received_as,
            "is_remote": graph.is_remote,
            "tensor": tensor,
            "recv": graph.only_recv,
            "waits_first": graph.waits_first,
            "waits_later": graph.waits_later,
            "own_ops": graph.own_ops,
            "lag": graph.successor_lag,
        }
        fill(self._given, self._columns, arrays)
        self._given.successors = self._columns.lists(graph.successors_start, graph.successor)

    def _give_ledger(self, moves: Bools) -> None:
        """Hands over the places of the ledger that ops use, and the contributions that make each complete."""
        plan, given, holdings = self._plan, self._given, self._holdings
        ops = plan.ops
        slot = np.full(len(ops), -1, np.int32)
        slot[moves] = holdings.place(ops.rank[moves], ops.chunk[moves])
        for name in ("produces", "consumes", "needs"):
            pairs = getattr(plan, name)
            pairs = pairs[self._is_own[pairs[:, 0]]]
            places = holdings.place(ops.rank[pairs[:, 0]], pairs[:, 1])
            setattr(given, name, self._columns.lists_by(pairs[:, 0], places, len(ops)))
        contributors = plan.contributors()
        everybody = (1 << len(plan.workers)) - 1
        bits = {workers: number for number, workers in enumerate(dict.fromkeys([everybody, *contributors.values()]))}
        whole_of_chunk = np.zeros(holdings.chunks, np.int32)
        for chunk, workers in contributors.items():
            whole_of_chunk[chunk] = bits[workers]
        worker = np.full(len(plan.rank_host), -1, np.int32)
        worker[plan.workers] = np.arange(len(plan.workers))
        given.slots = len(holdings.keys)
        arrays = {
            "slot": slot,
            "whole": whole_of_chunk[holdings.keys % holdings.chunks],
            "wholes": sets_of_workers(list(bits), len(plan.workers)),
            "worker": worker,
        }
        fill(given, self._columns, arrays)

    def _give_lanes(self) -> None:
        """Hands over the stream that each op runs in, and the order of send queues that count."""
        ops, given = self._plan.ops, self._given
        runs = self._is_own & ((ops.kind == OpKind.COMPUTE) | (ops.kind == OpKind.REDUCE))
        lanes = np.column_stack([ops.rank[runs], ops.lane[runs]])
        distinct, which = np.unique(lanes, axis=0, return_inverse=True)
        stream = np.full(len(ops), -1, np.int32)
        stream[runs] = which.reshape(-1)
        given.streams = len(distinct)
        sends = np.flatnonzero(self._is_own & (ops.kind == OpKind.SEND))
        sends = sends[np.argsort(ops.order[sends], kind="stable")]
        given.orders = self._columns.lists_by(ops.lane[sends], sends, given.queues)
        first_stream = np.searchsorted(distinct[:, 0], np.arange(len(self._plan.rank_host) + 1))
        arrays = {"stream": stream, "discipline": self._plan.queue_discipline, "first_stream": first_stream}
        fill(given, self._columns, arrays)

    def _give_contention(self) -> None:
        """Hands over which ops slow down while their rank communicates, and the transfers that slow them down."""
        plan, given = self._plan, self._given
        given.ranks, given.speed_permille = len(plan.rank_host), plan.speed_permille
        if given.speed_permille == FULL_SPEED:
            return
        of = rank_transfers(plan)
        given.transfers = len(of.rank)
        arrays = {
            "transfer_of": of.transfer_of,
            "transfer_rank": of.rank,
            "transfer_messages": of.messages,
            "slows": of.slows,
        }
        fill(given, self._columns, arrays)

    def connect(
        self,
        connections: Sequence[Connection],
        connection_of_send: Mapping[int, int],
        outgoing: Mapping[int, socket.socket],
        incoming: Mapping[int, socket.socket],
        line_of: Mapping[int, PortLine],
    ) -> None:
        """Takes the connections of its hosts. line_of: as for ReplayLoop."""
        self._connections, given = connections, self._given
        self._sockets = [*outgoing.values(), *incoming.values()]
        self._peers = {
            (number, ends is outgoing): str(sock.getpeername()[0])
            for ends in (outgoing, incoming)
            for number, sock in ends.items()
        }
        position = {number: position for position, number in enumerate(outgoing)}
        sender = np.full(len(self._plan.ops), -1, np.int32)
        sent_here = [(send, position[number]) for send, number in connection_of_send.items() if number in position]
        if sent_here:
            sends, places = np.array(sent_here).T
            sender[sends] = places
        fill(given, self._columns, {"sender": sender})
        given.senders, given.receivers = len(outgoing), len(incoming)
        ends = [self._end(number, sock, line_of) for number, sock in outgoing.items()]
        given.outgoing = (End * len(ends))(*ends)
        ends = [self._end(number, sock, {}) for number, sock in incoming.items()]
        given.incoming = (End * len(ends))(*ends)
        given.payload = self._payload = payload_file()

    def _end(self, number: int, sock: socket.socket, line_of: Mapping[int, PortLine]) -> End:
        connection = self._connections[number]
        end = End(descriptor=sock.fileno(), connection=number, destination=connection.dst)
        line = line_of.get(connection.src_host)
        if line is not None:
            end.has_line, end.ns_per_byte, end.payload_bytes = 1, line.ns_per_byte, line.payload_bytes
            end.header_bytes, end.overhead_bytes = line.header_bytes, line.overhead_bytes
        return end

    def run(self, start_ns: int, on_iteration: Callable[[int], None]) -> None:
        """Replays the plan, beginning at `start_ns` of the monotonic clock; calls `on_iteration` with the number of
        iterations done.

        Raises MachineFault for a connection that breaks.
        """
        self._given.start_ns = start_ns
        replay = self._library.open_replay(ctypes.byref(self._given))
        try:
            while (what := self._library.go_on(replay)) == What.ITERATED:
                on_iteration(self._library.told_by(replay).contents.iterations_done)
            self._told = Told.from_buffer_copy(self._library.told_by(replay).contents)
            if what == What.FAILED:
                self._raise(self._library.told_by(replay).contents)
        finally:
            self._library.close_replay(replay)

    def _raise(self, told: Told) -> NoReturn:
        raise fault_of(told, self._plan, self._peers, self._holdings.rank_and_chunk, self._given.workers)

    @property
    def log(self) -> OpLog:
        """Returns the log of the ops that have run, as a copy."""
        rows = self._log[: self._told.rows]
        return OpLog(*(rows[:, number].copy() for number in range(COLUMNS)))

    @property
    def lateness_ns(self) -> Int64:
        """Returns how long after its time each timer was noticed."""
        return self._lateness_ns[: self._told.timers]

    @property
    def messages_sent(self) -> int:
        """Messages that were handed over, or begun."""
        return int(self._told.messages_sent)

    @property
    def messages_received(self) -> int:
        """Messages that arrived whole."""
        return int(self._told.messages_received)

    @property
    def bytes_sent(self) -> int:
        """Payload and framing of the messages sent."""
        return int(self._told.bytes_sent)

    @property
    def bytes_received(self) -> int:
        """Payload and framing received."""
        return int(self._told.bytes_received)

    def close(self) -> None:
        """Closes every connection; see ReplayLoop.close."""
        os.close(self._payload)
        for sock in self._sockets:
            sock.close()
