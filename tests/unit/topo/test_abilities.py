"""What tc says of trials that fail."""

from __future__ import annotations

from gradwire.topo.abilities import refusals

SAID = """Error: Specified qdisc kind is unknown.
Command failed -:2
What is "seed"?
Usage: ... netem [ limit PACKETS ]
                 [ delay TIME [ JITTER [CORRELATION]]]
Command failed -:3
"""
"""iproute2 6.1 on a kernel without sch_fq, and a tc without netem's seed."""


def test_each_line_that_failed_has_its_words() -> None:
    refused = refusals(SAID)
    assert refused[2] == "Error: Specified qdisc kind is unknown."
    assert refused[3].startswith('What is "seed"?')
    assert len(refused) == 2


def test_nothing_failed() -> None:
    assert refusals("") == {}


def test_words_that_belong_to_no_line() -> None:
    assert refusals("RTNETLINK answers: Operation not permitted\n") == {}
