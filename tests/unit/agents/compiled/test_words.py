"""What the compiled agent finds wrong, in words."""

from __future__ import annotations

import errno

import pytest

from gradwire.agents.compiled.library import Told
from gradwire.agents.compiled.words import Failure, fault_of
from gradwire.faults import Fault, InternalFault, MachineFault
from gradwire.workloads.patterns import Transfer, compile_transfers

PLAN = compile_transfers("one", 2, [Transfer(0, 1, 1000)])
PEERS = {(3, True): "10.0.0.2", (3, False): "10.0.0.1"}
"""Of a connection from 10.0.0.1 to 10.0.0.2, both of whose ends are here."""


def fault(failure: Failure, *detail: int) -> Fault:
    told = Told(failure=failure)
    for place, value in enumerate(detail):
        told.detail[place] = value
    return fault_of(told, PLAN, PEERS, lambda place: (place // 10, place % 10), 2)


@pytest.mark.parametrize(
    ("failure", "detail", "kind", "said"),
    [
        (
            Failure.BROKEN_WHILE_SENDING,
            (3, errno.EPIPE),
            MachineFault,
            "the connection to 10.0.0.2 broke while sending: [Errno 32] Broken pipe",
        ),
        (Failure.HUNG_UP, (3,), MachineFault, "the connection to 10.0.0.2 broke in the middle of the run"),
        (Failure.CLOSED, (3,), MachineFault, "the connection from 10.0.0.1 closed in the middle of the run"),
        (
            Failure.TIMESTAMPS_UNREADABLE,
            (errno.ENOMEM,),
            MachineFault,
            "a socket's timestamps cannot be read: Cannot allocate memory",
        ),
        (
            Failure.TIMESTAMP_WITHOUT_NUMBER,
            (1, 7),
            InternalFault,
            "a timestamp came with control message 7 of level 1 instead of its number",
        ),
        (
            Failure.NOT_COMPLETE,
            (4, 17, 25, 2, 3),
            InternalFault,
            "iteration 4, op 17 at rank 2 needs chunk 5 of the iteration before, but holds that of iteration 2",
        ),
        (
            Failure.CALL_FAILED,
            (232, errno.EBADF),
            InternalFault,
            "system call 232 failed in a list of calls: Bad file descriptor",
        ),
    ],
)
def test_each_says_who_is_at_fault(failure: Failure, detail: tuple[int, ...], kind: type[Fault], said: str) -> None:
    found = fault(failure, *detail)
    assert type(found) is kind
    assert str(found) == said
