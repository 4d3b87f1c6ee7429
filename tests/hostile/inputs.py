"""Hostile inputs of an import: one to three files of one format, and what the user says beside them, the same for the same number."""

from __future__ import annotations

import gzip
import json
import struct
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from gradwire.workloads.traces.record import Reading
from tests.hostile import chakra_nodes
from tests.hostile.damage import damaged
from tests.hostile.json_text import spoiled
from tests.unit.workloads.traces import small_logs, small_msccl
from tests.unit.workloads.traces.small_traces import (
    KinetoFile,
    ddp_step,
    execution_trace,
    graph_node,
    jsonized,
    recording,
)

BOMB_BYTES = 200 << 20


@dataclass(frozen=True)
class HostileInput:
    """Files by name, and the options of the command."""

    files: dict[str, bytes]
    reading: Reading


def hostile_input(format_name: str, number: int) -> HostileInput:
    """The input of this number."""
    random = Random(f"{format_name}/{number}")
    make = MAKERS[format_name]
    ranks = random.choice((1, 1, 1, 2, 2, 3))
    ending = {"chakra": "et", "goal": "goal", "simai": "txt"}.get(format_name, "json")
    alike = random.random()
    files = {
        f"rank{rank}.{ending}": _damaged(
            make(rank, Random(alike if random.random() < 0.8 else random.random())), random
        )
        for rank in range(ranks)
    }
    reading = _reading(random)
    if format_name == "msccl" and random.random() < 0.9:  # without which none becomes a workload
        reading = replace(reading, buffer_bytes=random.choice((600, 6_000_000, 2**60)), step=None)
    if format_name == "recording" and random.random() < 0.8:  # likewise
        reading = replace(reading, flops_per_s=1e12, step=None)
    return HostileInput(files, reading)


def _reading(random: Random) -> Reading:
    def now_and_then(value: Callable[[], Any], otherwise: Any = None) -> Any:
        return value() if random.random() < 0.15 else otherwise

    groups = dict.fromkeys(("0", "5", "world"), (0, 1))
    return Reading(
        ranks=now_and_then(lambda: random.choice((1, 2, 3, 1000, 65_536, 65_537, 10**12))),
        element_bytes=now_and_then(lambda: random.choice((1, 2, 16))),
        groups=now_and_then(lambda: {**groups, "1": tuple(range(random.choice((1, 3, 5000))))}, {}),
        flops_per_s=now_and_then(lambda: random.choice((1e-9, 1.0, 1e15))),
        step=now_and_then(lambda: random.choice((0, 1, 10**18))) if random.random() < 0.3 else None,
    )


def _kineto(rank: int, random: Random) -> bytes:
    trace = ddp_step(rank)
    trace.event("user_annotation", "ProfilerStep#1", 0, 900)
    if random.random() < 0.3:
        trace.collective(("send", "recv")[rank % 2], 50, at=95, begin=900, dur=3, **{"Dst Rank": 1, "Src Rank": 0})
    if random.random() < 0.02:
        _swell(trace, random)
    return spoiled({**trace.about, "traceEvents": trace.events, "traceName": "x.json"}, random).encode(
        errors="surrogatepass"
    )


def _swell(trace: KinetoFile, random: Random) -> None:
    """Very many calls, of one group or of as many, or very many groups that nobody calls for."""
    count, size = random.choice((300, 3000)), random.choice((2, 1000, 65_536))
    names = random.choice((lambda number: "0", str))
    said = {"Process Group Ranks": random.choice(("", "[0, 1]", "[0, 1, ...]")), "Group size": size}
    if random.random() < 0.3:
        listed = [
            {"pg_name": f"more {number}", "ranks": [], "pg_size": random.randint(1, 65_536)} for number in range(count)
        ]
        trace.about.setdefault("distributedInfo", {})["pg_config"] = listed
    if random.random() < 0.5:
        trace.about["distributedInfo"] = {"rank": 0, "world_size": size}
    for number in range(count):
        trace.collective(
            "allreduce",
            50,
            at=1000 + 20 * number,
            begin=1010 + 20 * number,
            dur=3,
            **said,
            **{"Process Group Name": names(number)},
        )


@cache
def _sound_execution_trace() -> str:
    calls: list[dict[str, Any]] = [
        {"elements": 5},
        {"elements": 6, "name": "broadcast"},
        {"name": "wait", "sequence": 10},
        {"name": "barrier"},
    ]
    with tempfile.TemporaryDirectory() as folder:
        return execution_trace(Path(folder) / "trace.json", calls).read_text()


def _execution_trace(_: int, random: Random) -> bytes:
    return spoiled(json.loads(_sound_execution_trace()), random).encode(errors="surrogatepass")


def _chakra(rank: int, random: Random) -> bytes:
    return chakra_nodes.encoded(chakra_nodes.nodes(rank, random), random)


def _chakra_json(rank: int, random: Random) -> bytes:
    """In either form; a node's values are wrong as in protobuf, or those of its JSON are."""
    metadata, *nodes = chakra_nodes.nodes(rank, random)
    if random.random() < 0.5:
        objects = [jsonized(metadata), *map(jsonized, nodes)]
        texts = [spoiled(each, random) if random.random() < 0.1 else json.dumps(each) for each in objects]
        return "".join(texts).encode(errors="surrogatepass")
    graph = {"workload_graph": [graph_node(node) for node in nodes]}
    return spoiled(graph, random).encode(errors="surrogatepass")


def _recording(rank: int, random: Random) -> bytes:
    return spoiled(recording(rank, world=random.choice((2, 4))), random).encode(errors="surrogatepass")


def _goal(_: int, random: Random) -> bytes:
    """A schedule of a ring, of whose words some are others' or none of the format's."""
    ranks = random.choice((2, 3, 4))
    lines = [f"num_ranks {ranks}"]
    for rank in range(ranks):
        lines += [
            f"rank {rank} {{",
            f"l1: calc {random.choice((0, 500, 10**9))} cpu {random.choice((0, 3, 200))}",
            f"l2: send 4096b to {(rank + 1) % ranks} tag 7",
            "l2 requires l1",
            f"l3: recv 4096b from {(rank - 1) % ranks} tag 7 nic 1",
            f"l3 {random.choice(('requires', 'irequires'))} l1",
            "}",
        ]
    odd = ("-1", "9" * 20, "l2", "}", "{", "/*", "//", "rank 1 {", "num_ranks 70000", "\x00", "b", "l9 requires l1")
    return _with_words(lines, odd, random)


def _simai(_: int, random: Random) -> bytes:
    """A workload of a few layers, likewise."""
    layers = [
        f"layer{number} -1 {random.choice((0, 500, 10**9))} {random.choice(('ALLGATHER', 'NONE', 'ALLTOALL_EP'))} 4096 "
        f"300 REDUCESCATTER {random.choice((0, 10, 4096))} 200 ALLREDUCE_DP_EP 8192 100"
        for number in range(random.choice((1, 3)))
    ]
    groups = f"model_parallel_NPU_group: {random.choice((1, 2))} ep: {random.choice((1, 2))}"
    header = f"HYBRID_TRANSFORMER {groups} pp: 1 all_gpus: {random.choice((4, 8)) if random.random() < 0.95 else 65_536} pp_comm: 0"
    odd = ("-1", "9" * 20, "0", "NONE", "MICRO", "pp_comm:", "ALLREDUCEALLTOALL", "1.0", "1e9", "\x00", "all_gpus: 0")
    return _with_words([header, str(len(layers)), *layers], odd, random)


def _with_words(lines: list[str], odd: tuple[str, ...], random: Random) -> bytes:
    """Lines, of whose words some are odd or others'."""
    for _ in range(random.choice((0, 0, 1, 3))):
        line = random.randrange(len(lines))
        words = lines[line].split()
        words[random.randrange(len(words))] = random.choice((*odd, *" ".join(lines).split()))
        lines[line] = " ".join(words)
    return "\n".join(lines).encode() + b"\n"


def _objects(objects: list[dict[str, Any]], random: Random) -> bytes:
    """Objects of which one has wrong values now and then, a line each."""
    texts = [spoiled(each, random) if random.random() < 0.1 else json.dumps(each) for each in objects]
    return "\n".join(texts).encode(errors="surrogatepass") + b"\n" * random.choice((0, 1, 1))


def _nccl_inspector(rank: int, random: Random) -> bytes:
    objects = small_logs.inspector_calls(rank, timed=random.random() < 0.7, ranks=random.choice((1, 2, 2, 2, 3)))
    if random.random() < 0.3:
        peer, at_us = random.choice((0, 1, 7)), small_logs.MICROSECOND + 9000
        name = random.choice(("Send", "Recv"))
        objects.append(small_logs.inspector_object(rank, name, 9000, begun_us=at_us, peer=peer))
    if random.random() < 0.3:
        objects = small_logs.inspector_dump(objects, heads=random.random() < 0.5)
    return _objects(objects, random)


def _nccl_log(rank: int, random: Random) -> bytes:
    lines = small_logs.nccl_log(rank, random.choice((2, 2, 3))).splitlines()
    odd = (
        "-1",
        "9" * 20,
        "0x0",
        "nranks",
        "comm",
        "[nranks=2]",
        "datatype",
        "Send:",
        "NCCL",
        "\x00",
        "- Init COMPLETE",
    )
    return _with_words(lines, odd, random)


def _rccl_replay(rank: int, random: Random) -> bytes:
    """In any of its forms."""
    if random.random() < 0.4:
        return small_logs.replay_binary(rank % 2, accumulates=random.random() < 0.5)
    if random.random() < 0.5:
        return spoiled(json.loads(small_logs.replay_standard(rank % 2)), random).encode(errors="surrogatepass")
    lines = small_logs.replay_text(small_logs.replay_lines(rank % 2)).splitlines()
    odd = ("-1", "9" * 20, "(nil)", "nan", "comm", "[", "]],", "}", "{", "AllToAllv", "\x00", "1e400")
    return _with_words(lines, odd, random)


def _deepspeed_log(_: int, random: Random) -> bytes:
    lines = [
        small_logs.deepspeed_line("10,100", "all_gather", 2.5, "12.34 MB", 331.25),
        small_logs.deepspeed_line("10,150", "reduce_scatter", random.choice((5, 0, 1e6)), "98.7 MB", 165),
        small_logs.deepspeed_table({"all_reduce": [("8.0 KB", random.choice((1, 3, 10**6)), 5)]}),
    ]
    text = "".join(lines[random.choice((0, 0, 2)) :])
    odd = ("-1", "9" * 20, "0B", "|", "op:", "[Rank", "TB", "\x00", "isend", "[2022-06-26", "0.00")
    whole = text.splitlines()
    return _with_words(whole, odd, random) if len(whole) > 4 and random.random() < 0.5 else text.encode()


def sound_binary(format_name: str) -> bytes:
    """A sound file of a binary format."""
    return small_logs.replay_binary(0) if format_name == "rccl-replay" else _ring_in_binary(2, 500, 3)


def _ring_in_binary(ranks: int, duration_ns: int, cpu: int) -> bytes:
    return small_logs.goal_binary(
        [
            (
                (3, 0, duration_ns, 0, cpu, 0, (1,), ()),
                (1, (rank + 1) % ranks, 4096, 7, 0, 0, (), (2,)),
                (2, (rank - 1) % ranks, 4096, 7, 0, 1, (), ()),
            )
            for rank in range(ranks)
        ]
    )


def _goal_binary(_: int, random: Random) -> bytes:
    """A ring, of which a number is another now and then."""
    ring = _ring_in_binary(random.choice((2, 3, 4)), random.choice((0, 500, 10**9)), random.choice((0, 3, 200)))
    content = bytearray(ring)
    for _ in range(random.choice((0, 0, 1, 3))):
        form, most = random.choice((("<I", 2**32), ("<Q", 2**64), ("<B", 256)))
        at = random.randrange(8, len(content) - struct.calcsize(form))
        struct.pack_into(form, content, at, random.choice((0, 1, 2, 5, most - 1, random.randrange(most))))
    return bytes(content)


def _msccl(_: int, random: Random) -> bytes:
    """An algorithm, of whose attributes some are others'."""
    lines = random.choice((small_msccl.ring_of_three, small_msccl.exchange_of_two))().splitlines()
    attributes = [word for line in lines for word in line.split() if "=" in word]
    odd = (
        's="99999999999"',
        'srcoff="-1"',
        'cnt="4000000"',
        'type="nop"',
        'inplace="1"',
        "<step",
        "</tb>",
        "&a;",
        "\x00",
    )
    for _ in range(random.choice((0, 0, 1, 3))):
        line = random.randrange(len(lines))
        words = lines[line].split()
        words[random.randrange(len(words))] = random.choice((*odd, *attributes))
        lines[line] = " ".join(words)
    return "\n".join(lines).encode() + b"\n"


MAKERS = {
    "kineto": _kineto,
    "execution-trace": _execution_trace,
    "chakra": _chakra,
    "chakra-json": _chakra_json,
    "recording": _recording,
    "goal": _goal,
    "goal-binary": _goal_binary,
    "msccl": _msccl,
    "nccl-inspector": _nccl_inspector,
    "nccl-log": _nccl_log,
    "rccl-replay": _rccl_replay,
    "deepspeed-log": _deepspeed_log,
    "simai": _simai,
}
FORMATS = tuple(MAKERS)


def _damaged(content: bytes, random: Random) -> bytes:
    """Now and then damaged, and compressed well or badly."""
    return _compressed(damaged(content, random) if random.random() < 0.3 else content, random)


def _compressed(content: bytes, random: Random) -> bytes:
    how = random.random()
    if how < 0.9:
        return content
    if how > 0.9995:
        return _bomb(random.choice((b" ", b"[", b'{"traceEvents":[{"a":1},', b'{"schema":"1","nodes":[' + b"{}," * 10)))
    packed = gzip.compress(content, 1)
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: packed,
        lambda: packed[: random.randrange(2, len(packed))],
        lambda: packed[:-8] + random.randbytes(8),
        lambda: b"\x1f\x8b" + content,
        lambda: packed + packed,
        lambda: packed + b"trailing",
        lambda: packed[:3] + bytes([random.randrange(256)]) + packed[4:],
        lambda: zlib.compress(content),
    )
    return random.choice(ways)()


@cache
def _bomb(pattern: bytes) -> bytes:
    """A small file that unpacks to a large one."""
    return gzip.compress(pattern * (BOMB_BYTES // len(pattern)), 1)
