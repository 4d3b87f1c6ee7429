"""Algorithms of MSCCL: what they send, and whether they do what their collective promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.workloads.traces.record import Reading
from tests.unit.workloads.traces.formats.test_kineto import chain
from tests.unit.workloads.traces.small_logs import written
from tests.unit.workloads.traces.small_msccl import NOWHERE, algorithm, block, exchange_of_two, ring_of_three, step
from tests.unit.workloads.traces.small_traces import finds, imported, refusal, words

BYTES = Reading(buffer_bytes=600)


def test_steps_follow_one_another_and_receive_before_they_send_on(tmp_path: Path) -> None:
    outcome = imported(*written(tmp_path, [ring_of_three()], "xml"), reading=BYTES)
    assert outcome.workload is not None, words(outcome)
    assert chain(outcome.workload, 1) == [
        ("send", 200, []),
        ("recv", 200, [0]),
        ("send", 200, [1]),
        ("recv", 200, [2]),
        ("send", 200, [3]),
        ("recv", 200, [4]),
        ("send", 200, [5]),
        ("recv", 200, [6]),
    ]
    assert finds(outcome, "leaves with every rank what allreduce promises")


def test_steps_wait_for_those_of_other_thread_blocks(tmp_path: Path) -> None:
    outcome = imported(*written(tmp_path, [exchange_of_two()], "xml"), reading=BYTES)
    assert outcome.workload is not None, words(outcome)
    assert chain(outcome.workload) == [
        ("compute", 0, []),
        ("compute", 0, [0, 4]),
        ("compute", 0, [1]),
        ("send", 600, []),
        ("recv", 600, [3]),
    ]


def gathered(gpu: int, *, in_place: bool) -> str:
    """An all-gather, or the exchange of an all-to-all, of two GPUs."""
    own = ("o", gpu) if in_place else ("i", 0)
    steps = [step(0, "s", own, NOWHERE), step(1, "r", NOWHERE, ("o", 1 - gpu))]
    return block(0, 1 - gpu, 1 - gpu, steps if in_place else [*steps, step(2, "cpy", ("i", 0), ("o", gpu))])


def scattered(gpu: int, *, in_place: bool) -> str:
    """A reduce-scatter of two GPUs."""
    steps = [step(0, "s", ("i", 1 - gpu), NOWHERE), step(1, "rrc", ("i", gpu), ("i", gpu) if in_place else ("o", 0))]
    return block(0, 1 - gpu, 1 - gpu, steps)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(("collective", "made"), [("allgather", gathered), ("reduce_scatter", scattered)])
def test_each_collective_is_held_to_its_promise(tmp_path: Path, collective: str, made, in_place: bool) -> None:  # type: ignore[no-untyped-def]
    text = algorithm(collective, [[made(gpu, in_place=in_place)] for gpu in range(2)], 2, in_place=in_place)
    outcome = imported(*written(tmp_path, [text], "xml"), reading=BYTES)
    assert outcome.workload is not None, words(outcome)
    assert finds(outcome, f"what {collective} promises")
    wrong = text.replace('type="s" srcbuf="i" srcoff="1"', 'type="s" srcbuf="i" srcoff="0"', 1)
    wrong = wrong.replace('dstbuf="o" dstoff="1" cnt', 'dstbuf="o" dstoff="0" cnt', 1)
    assert wrong != text
    assert "gpu " in refusal(*written(tmp_path, [wrong], "xml"), reading=BYTES)


def test_an_all_to_all_and_what_is_custom(tmp_path: Path) -> None:
    blocks = [
        [block(0, 1 - gpu, 1 - gpu, [step(0, "s", ("i", 1 - gpu), NOWHERE), step(1, "r", NOWHERE, ("o", 1 - gpu)),
                                     step(2, "cpy", ("i", gpu), ("o", gpu))])]
        for gpu in range(2)
    ]  # fmt: skip
    outcome = imported(*written(tmp_path, [algorithm("alltoall", blocks, 2)], "xml"), reading=BYTES)
    assert finds(outcome, "what alltoall promises")
    outcome = imported(*written(tmp_path, [algorithm("custom", blocks, 2)], "xml"), reading=BYTES)
    assert outcome.workload is not None
    assert finds(outcome, "coll: 'custom'", "not checked")


RING, EXCHANGE = ring_of_three(), exchange_of_two()


@pytest.mark.parametrize(
    ("text", "before", "after", "complaint"),
    [
        (RING, 'type="rrcs" srcbuf="i" srcoff="1"', 'type="rcs" srcbuf="i" srcoff="1"', "must have chunk"),
        (
            RING,
            'type="rrs" srcbuf="i" srcoff="2"',
            'type="rrs" srcbuf="i" srcoff="0"',
            "gpu 0, tb 0, step 1: adds chunk",
        ),
        (RING, 'type="r" ', 'type="rrc" ', "gpu 0, tb 0, step 4: adds chunk 2 of rank 0 twice"),
        (
            RING,
            '<step s="4" type="r" srcbuf="i" srcoff="2"',
            '<step s="4" type="nop" srcbuf="i" srcoff="2"',
            "o[2] has",
        ),
        (RING, 'type="r" ', 'type="rrs" ', "adds chunk 2 of rank 0 twice"),
        (EXCHANGE, 'type="s" ', 'type="nop" ', "gpu 1, tb 0, step 1: waits for what never comes"),
        (
            RING,
            'srcoff="0" dstbuf="i" dstoff="0" cnt="1"',
            'srcoff="0" dstbuf="i" dstoff="0" cnt="2"',
            "cnt: 1, and 2 chunks",
        ),
        (RING, 'type="rcs"', 'type="x"', "type: 'x'"),
        (RING, 'send="1"', 'send="-1"', "has no send"),
        (RING, 'send="1"', 'send="0"', "send: is the GPU itself"),
        (RING, 'recv="2"', 'recv="9"', "recv: '9'"),
        (RING, 'srcbuf="i"', 'srcbuf="x"', "srcbuf: 'x'"),
        (RING, 'srcoff="0"', 'srcoff="-7"', "srcoff: '-7'"),
        (RING, ' nchunksperloop="3"', "", "nchunksperloop: is missing"),
        (RING, 'ngpus="3"', 'ngpus="4"', "gpu 3 is not there"),
        (RING, '<gpu id="1"', '<gpu id="0"', "id: is there twice"),
        (RING, '<step s="1"', '<step s="0"', "s: is behind step 0"),
        (RING, "<step", "<op", "old_format"),
        (RING, "</algo>", "", "cannot be read as XML"),
        (RING, "<algo ", '<!DOCTYPE x [<!ENTITY a "b">]><algo ', "is none of"),
        (RING, 'nchunksperloop="3"', 'nchunksperloop="4000000"', "are more than"),
        (EXCHANGE, 'depid="1" deps="1"', 'depid="7" deps="1"', "thread block 7 has no step 1"),
        (EXCHANGE, 'depid="1" deps="1"', 'depid="1" deps="-1"', "thread block 1 has no step -1"),
        (EXCHANGE, 'depid="1" deps="1"', 'depid="-1" deps="-1"', "s[0], in which nothing is yet"),
        (EXCHANGE, '<tb id="1"', '<tb id="0"', "id: 0 is there twice"),
    ],
)
def test_what_is_not_read_is_told_by_its_field(
    tmp_path: Path, text: str, before: str, after: str, complaint: str
) -> None:
    assert before in text
    path = written(tmp_path, [text.replace(before, after, 1)], "xml")[0]
    assert complaint in refusal(path, reading=BYTES)


def test_the_buffer_has_to_be_said_and_chunks_to_divide_it(tmp_path: Path) -> None:
    path = written(tmp_path, [RING], "xml")[0]
    assert "--buffer 64MiB" in refusal(path)
    assert "give 99B" in refusal(path, reading=Reading(buffer_bytes=100))
    limited = written(tmp_path, [RING.replace("<algo ", '<algo minBytes="1000" maxBytes="2000" ')], "xml")[0]
    assert finds(imported(limited, reading=BYTES), "minBytes: 1000")


def test_plans_of_mscclpp_are_refused(tmp_path: Path) -> None:
    plan = '{"name": "a", "collective": "allreduce", "gpus": [{"id": 0, "threadblocks": [{"id": 0, "ops": []}]}]}'
    assert "gpus.threadblocks: is a plan of MSCCL++" in refusal(*written(tmp_path, [plan], "json"))
