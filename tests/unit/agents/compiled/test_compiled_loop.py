"""The compiled agent over loopback connections: whole plans, messages of all sizes, and connections that break or lose
their framing."""

from __future__ import annotations

import ctypes
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from gradwire.agents.compiled.compiled_replay import CompiledReplay
from gradwire.agents.departures import PortLine, report_departures
from gradwire.agents.transfer import INLINE_BYTES, LOW_WATER_BYTES, PAYLOAD_FILE_BYTES, READ_BYTES
from gradwire.datatypes.plan import Contributions, OpKind, Plan
from gradwire.datatypes.wire.framing import HELLO, Framing, Header
from gradwire.faults import Fault, InternalFault, MachineFault
from gradwire.network.fabric import Fabric
from gradwire.network.wire.flows import connection_of_send, connections_of
from gradwire.workloads.job import Cluster
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.patterns import Transfer, all_to_all, compile_transfers
from tests.shared.simulation import all_ranks
from tests.shared.small_jobs import compiled, dependencies, job_of, profile_of

LINE = PortLine.of_tcp(Fabric(hosts=2, rate_bps=8e9), 0)
PROFILE = profile_of([(LayerKind.CONV, [250, 30]), (LayerKind.CONV, [400]), (LayerKind.FC, [100_000, 100])])
SIZES = [1, INLINE_BYTES, INLINE_BYTES + 1, READ_BYTES, LOW_WATER_BYTES // 8 + 1, LOW_WATER_BYTES, 3_000_000]
PIECES = 16
"""MOST_PIECES of replay.h."""


def loopback() -> tuple[socket.socket, socket.socket]:
    """A connection as agents leave it when both ends know each other."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    report_departures(near)
    near.send(bytes(HELLO.size))
    far.recv(HELLO.size)
    for sock in (near, far):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
    return near, far


@contextmanager
def connected(
    library: ctypes.CDLL, plan: Plan, iterations: int, *, leaves: bool = False, ranks: set[int] | None = None
) -> Iterator[tuple[CompiledReplay, dict[int, socket.socket]]]:
    """A replay with its connections; and the far ends of those that begin or end at ranks that are not its own."""
    mine = ranks or all_ranks(plan)
    replay = CompiledReplay(library, plan, mine, iterations)
    connections = connections_of(plan)
    outgoing: dict[int, socket.socket] = {}
    incoming: dict[int, socket.socket] = {}
    foreign: dict[int, socket.socket] = {}
    for connection in connections:
        near, far = loopback()
        (outgoing if connection.src in mine else foreign)[connection.number] = near
        (incoming if connection.dst in mine else foreign)[connection.number] = far
    lines = {connection.src_host: LINE for connection in connections} if leaves else {}
    replay.connect(connections, connection_of_send(plan, connections), outgoing, incoming, lines)
    try:
        yield replay, foreign
    finally:
        replay.close()
        for sock in foreign.values():
            sock.close()


def replayed(library: ctypes.CDLL, plan: Plan, iterations: int, *, leaves: bool = False) -> CompiledReplay:
    heard: list[int] = []
    with connected(library, plan, iterations, leaves=leaves) as (replay, _):
        replay.run(time.monotonic_ns(), heard.append)
    assert heard == sorted(heard)
    assert heard[-1] == iterations
    assert library.drive_early_clocks() == 0
    return replay


def assert_in_order(plan: Plan, replay: CompiledReplay, iterations: int) -> None:
    """Each op after those that it waits for."""
    log = replay.log
    rows = list(zip(log.iteration.tolist(), log.op.tolist(), strict=True))
    end_ns = dict(zip(rows, log.end_ns.tolist(), strict=True))
    begin_ns = dict(zip(rows, log.start_ns.tolist(), strict=True))
    for op, on, lag in dependencies(plan):
        done_ns = end_ns if plan.ops.kind[op] == OpKind.RECV else begin_ns
        assert all(end_ns[iteration - lag, on] <= done_ns[iteration, op] for iteration in range(lag, iterations))


def assert_whole(plan: Plan, replay: CompiledReplay, iterations: int, *, leaves: bool) -> None:
    """Each op once per iteration, all messages, and their bytes."""
    log = replay.log
    rows = list(zip(log.iteration.tolist(), log.op.tolist(), strict=True))
    assert sorted(rows) == [(iteration, op) for iteration in range(iterations) for op in range(len(plan.ops))]
    if not leaves:  # for a SEND ends on the line then, a little after what follows it has begun
        assert_in_order(plan, replay, iterations)
    remote = plan.is_remote()
    messages = iterations * int(remote.sum())
    size_bytes = iterations * int(plan.ops.size_bytes[remote].sum())
    header_bytes = Framing(len(plan.workers)).header_bytes
    assert (replay.messages_sent, replay.messages_received) == (messages, messages)
    assert (replay.bytes_sent, replay.bytes_received) == (size_bytes + messages * header_bytes,) * 2
    assert (replay.lateness_ns >= 0).all()


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("name", ["vanilla", "ring", "p3", "tictac"])
def test_whole_plans(library: ctypes.CDLL, name: str, *, leaves: bool) -> None:
    plan = next(iter(compiled(job_of(PROFILE, Cluster(3, 3)), name, {}).values()))
    assert_whole(plan, replayed(library, plan, 3, leaves=leaves), 3, leaves=leaves)


@pytest.mark.parametrize("leaves", [False, True])
def test_messages_of_all_sizes_between_all(library: ctypes.CDLL, *, leaves: bool) -> None:
    transfers = [
        Transfer(transfer.src, transfer.dst, size_bytes)
        for size_bytes in SIZES
        for transfer in all_to_all(3, size_bytes)
    ]
    plan = compile_transfers("sizes", 3, transfers)
    assert_whole(plan, replayed(library, plan, 3, leaves=leaves), 3, leaves=leaves)


@pytest.mark.parametrize("leaves", [False, True])
def test_a_message_with_more_pieces_than_a_list_holds(library: ctypes.CDLL, *, leaves: bool) -> None:
    plan = compile_transfers("long", 2, [Transfer(0, 1, PIECES * PAYLOAD_FILE_BYTES + 70_000_001)])
    assert_whole(plan, replayed(library, plan, 1, leaves=leaves), 1, leaves=leaves)


PLAN = compile_transfers("one", 2, [Transfer(0, 1, 100_000)])


def data_send() -> int:
    return int(np.flatnonzero(PLAN.ops.size_bytes == 100_000)[0])


def packed(message: int, size_bytes: int) -> bytes:
    return Framing(2).pack(Header(0, message, 0, 1, -1, -1, size_bytes, Contributions(-1, 0)))


def ended(library: ctypes.CDLL, act: Callable[[socket.socket], None]) -> Fault:
    """What ends a replay of the receiving rank, when the other end of the first connection does something."""
    with connected(library, PLAN, 1, ranks={1}) as (replay, foreign):
        (number,) = [c.number for c in connections_of(PLAN) if c.queue == PLAN.ops.lane[data_send()]]
        actor = threading.Timer(0.01, act, [foreign[number]])
        actor.start()
        with pytest.raises(Fault) as raised:
            replay.run(time.monotonic_ns(), lambda _: None)
        actor.join()
    return raised.value


def test_a_connection_that_closes_in_the_middle(library: ctypes.CDLL) -> None:
    fault = ended(library, socket.socket.close)
    assert isinstance(fault, MachineFault)
    assert "127.0.0.1 closed" in str(fault)


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.close()


def test_a_connection_that_breaks(library: ctypes.CDLL) -> None:
    said = "the connection from 127.0.0.1 broke in the middle of the run: [Errno 104] Connection reset by peer"
    assert str(ended(library, reset)) == said


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (bytes(60), "a connection lost its framing: magic 0x0, version 0, mask of 0 bytes"),
        (packed(data_send(), -5), "a connection lost its framing: a message of -5 bytes"),
        (packed(0, 10) + bytes(10), "message 0 of iteration 0 came from 127.0.0.1, and no RECV waits for it"),
    ],
)
def test_what_is_no_message_of_the_plan(library: ctypes.CDLL, data: bytes, said: str) -> None:
    fault = ended(library, lambda sock: sock.sendall(data))
    assert isinstance(fault, InternalFault)
    assert str(fault) == said


def test_a_header_that_comes_byte_by_byte(library: ctypes.CDLL) -> None:
    def dribble(sock: socket.socket) -> None:
        for byte in packed(data_send(), 100_000):
            sock.sendall(bytes([byte]))
            time.sleep(1e-4)
        sock.setblocking(True)
        sock.sendall(bytes(100_000))
        sock.close()

    fault = ended(library, dribble)
    assert "127.0.0.1 closed" in str(fault)
