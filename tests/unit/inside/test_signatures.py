"""Lines that the job did not sign as its next ones are never taken for its own."""

from __future__ import annotations

import pytest

from gradwire.faults import InputFault
from gradwire.inside.program_protocol import ProgramEnded, line_of
from gradwire.inside.signatures import KEY_BYTES, Signatures, SignedEvents

KEY = bytes(range(KEY_BYTES))
EVENTS = [ProgramEnded(0, 7), ProgramEnded(1, 0), ProgramEnded(2, 3)]


def signed_lines() -> list[str]:
    signatures = Signatures(KEY)
    return [signatures.signed(line_of(event)) for event in EVENTS]


def test_what_the_job_signed_is_heard_in_its_order_between_lines_of_others() -> None:
    events = SignedEvents(KEY)
    first, second, third = signed_lines()
    heard = [events.event_of(line) for line in (first, "ovs-vswitchd: warning", second, "", third)]
    assert heard == [EVENTS[0], None, EVENTS[1], None, EVENTS[2]]


@pytest.mark.parametrize(
    "forge",
    [
        lambda lines: line_of(ProgramEnded(0, 0)),
        lambda lines: "0" * 32 + line_of(ProgramEnded(0, 0)),
        lambda lines: Signatures(bytes(KEY_BYTES)).signed(line_of(EVENTS[0])),
        lambda lines: lines[0].replace('"status":7', '"status":0'),
        lambda lines: lines[1],
        lambda lines: "printed before it" + lines[0],
        lambda lines: lines[0] + "\udcff",
    ],
    ids=["unsigned", "zeros", "other-key", "changed", "out-of-order", "prefixed", "continued"],
)
def test_what_it_did_not_sign_ends_the_run(forge) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputFault, match="tampered with"):
        SignedEvents(KEY).event_of(forge(signed_lines()))


def test_a_line_is_heard_once() -> None:
    events = SignedEvents(KEY)
    first = signed_lines()[0]
    assert events.event_of(first) == EVENTS[0]
    with pytest.raises(InputFault, match="tampered with"):
        events.event_of(first)
