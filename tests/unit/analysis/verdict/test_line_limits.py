"""How early a message may be: to tens of nanoseconds, by the burst that an idle port forgives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradwire.analysis.verdict.checks import Check
from gradwire.analysis.verdict.line_checks import line_checks
from tests.unit.analysis.verdict.sound_run import FABRIC, RATE_BPS, SIZE_BYTES, pushes, sound_log, sound_record

LINE_SHARE = 1538 / 1448
"""Of a full frame at MTU 1500, what it takes on the line for each byte of payload."""
BURST_BYTES = 65536 * LINE_SHARE
BURST_NS = BURST_BYTES * 8e9 / RATE_BPS
LINE_NS = SIZE_BYTES * LINE_SHARE * 8e9 / RATE_BPS * BURST_NS / (BURST_NS + 1)
"""A port rounds the time of each burst down to whole nanoseconds: of 10 MB, it saves 153 ns."""
IDLE_NS = 1514 * 8e9 / RATE_BPS
"""What HTB's burst forgives at this rate: a frame."""


def checked(name: str, *, send_ns: float | None = None, message_ns: float | None = None) -> Check:
    """A check of the sound log, but that a SEND of 10 MB, or its message, took as long in one iteration."""
    plan, log = pushes(), sound_log()
    send = int(np.flatnonzero(plan.is_remote() & (plan.ops.size_bytes == SIZE_BYTES))[0])
    (begin_ns,) = log.start_ns[(log.op == send) & (log.iteration == 1)].tolist()
    end_ns = log.end_ns.copy()
    for op, lasts_ns in ((send, send_ns), (send + 1, message_ns)):
        if lasts_ns is not None:
            assert plan.ops.message[op] == send
            end_ns[(log.op == op) & (log.iteration == 1)] = begin_ns + round(lasts_ns)
    checks = line_checks(plan, FABRIC, replace(log, end_ns=end_ns), sound_record(), departs=True)
    return next(check for check in checks if check.name == name)


@pytest.mark.parametrize(("by_ns", "is_ok"), [(20, True), (-20, False)])
def test_a_send_takes_its_bytes_on_the_line_but_for_the_burst_of_an_idle_port(by_ns: int, is_ok: bool) -> None:
    least_ns = LINE_NS - IDLE_NS * LINE_SHARE
    assert checked("send times", send_ns=least_ns + by_ns).ok is is_ok


@pytest.mark.parametrize(("by_ns", "is_ok"), [(20, True), (-20, False)])
@pytest.mark.parametrize("name", ["message times", "port rates"])
def test_a_message_may_be_early_by_that_and_by_the_packet_that_overdraws_the_port(
    name: str, by_ns: int, is_ok: bool
) -> None:
    least_ns = LINE_NS - IDLE_NS - BURST_NS
    assert checked(name, message_ns=least_ns + by_ns).ok is is_ok
