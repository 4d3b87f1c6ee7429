"""What the compiled agent finds wrong, in words."""

from __future__ import annotations

import errno

import pytest

from gradwire.agents.compiled.compiled_replay import fault_of
from gradwire.agents.compiled.structures import (
    FAILURES,
    AnyDetails,
    Broken,
    BrokenWhileSending,
    CallFailed,
    Closed,
    Details,
    FramingLost,
    HungUp,
    NobodyWaits,
    NotComplete,
    TimestampsUnreadable,
    TimestampWithoutNumber,
    Told,
    c_name,
)
from gradwire.faults import Fault, InternalFault, MachineFault
from gradwire.workloads.patterns import Transfer, compile_transfers

PLAN = compile_transfers("one", 2, [Transfer(0, 1, 1000)])
PEERS = {(3, True): "10.0.0.2", (3, False): "10.0.0.1"}
"""Of a connection from 10.0.0.1 to 10.0.0.2, both of whose ends are here."""


def fault(why: Details) -> Fault:
    details = AnyDetails(**{c_name(type(why)): why})
    told = Told(failure=1 + FAILURES.index(type(why)), details=details)
    return fault_of(told, PLAN, PEERS, lambda slot: (slot // 10, slot % 10), 2)


@pytest.mark.parametrize(
    ("why", "kind", "said"),
    [
        (
            BrokenWhileSending(3, errno.EPIPE),
            MachineFault,
            "the connection to 10.0.0.2 broke while sending: [Errno 32] Broken pipe",
        ),
        (
            Broken(3, errno.ECONNRESET),
            MachineFault,
            "the connection from 10.0.0.1 broke in the middle of the run: [Errno 104] Connection reset by peer",
        ),
        (
            NobodyWaits(3, 7, 2),
            InternalFault,
            "message 7 of iteration 2 came from 10.0.0.1, and no RECV waits for it",
        ),
        (
            FramingLost(3, 0x47574952, 1, 2, 0),
            InternalFault,
            "a connection lost its framing: magic 0x47574952, version 1, mask of 2 bytes",
        ),
        (FramingLost(3, 0, 0, 0, -5), InternalFault, "a connection lost its framing: a message of -5 bytes"),
        (HungUp(3), MachineFault, "the connection to 10.0.0.2 broke in the middle of the run"),
        (Closed(3), MachineFault, "the connection from 10.0.0.1 closed in the middle of the run"),
        (
            TimestampsUnreadable(errno.ENOMEM),
            MachineFault,
            "a socket's timestamps cannot be read: Cannot allocate memory",
        ),
        (
            TimestampWithoutNumber(1, 7),
            InternalFault,
            "a timestamp came with control message 7 of level 1 instead of its number",
        ),
        (
            NotComplete(4, 17, 25, 2, 3),
            InternalFault,
            "iteration 4, op 17 at rank 2 needs chunk 5 of the iteration before, but holds that of iteration 2",
        ),
        (
            CallFailed(232, errno.EBADF),
            InternalFault,
            "system call 232 failed in a list of calls: Bad file descriptor",
        ),
    ],
)
def test_each_says_who_is_at_fault(why: Details, kind: type[Fault], said: str) -> None:
    error = fault(why)
    assert type(error) is kind
    assert str(error) == said
