"""Small logs of communication libraries, made up as the libraries write them: two ranks, or as many as are asked for."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MICROSECOND = 1752867229235059
MILLISECOND = 1745623615676.0
INSPECTOR_CALLS = (("AllGather", 1 << 20, 200), ("ReduceScatter", 1 << 19, 300), ("AllReduce", 1 << 22, 2500))
"""Name, bytes and microseconds."""


def inspector_object(
    rank: int, name: str, size_bytes: int, *, number: int = 0, took_us: int = 100, begun_us: int | None = None,
    ranks: int = 2, communicator: str = "0xa1", process: int = 100, peer: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """What NCCL's Inspector writes of a call, with the times of its kernels if it began at a time."""
    what = "coll" if peer is None else "p2p"
    performance: dict[str, Any] = {what: name, f"{what}_sn": number}
    performance |= {} if peer is None else {"p2p_peer": peer}
    performance |= {f"{what}_msg_size_bytes": size_bytes, f"{what}_exec_time_us": took_us}
    performance |= {f"{what}_timing_source": "kernel_gpu", f"{what}_algobw_gbs": 1.5, f"{what}_busbw_gbs": 1.5}
    if begun_us is not None:
        kernels = [
            {"channel_id": channel, "kernel_start_ts": begun_us + channel, "kernel_stop_ts": begun_us + took_us}
            for channel in range(2)
        ]
        performance["event_trace_ts"] = {f"{what}_start_ts": begun_us, "kernel_events": kernels}
    about = {"inspector_output_format_version": "v4.0", "git_rev": "", "rec_mechanism": "nccl_profiler_interface"}
    about |= {"dump_timestamp_us": MICROSECOND, "hostname": "node", "pid": process + rank}  # type: ignore[dict-item]
    header = {"id": communicator, "comm_name": "unknown", "rank": rank, "n_ranks": ranks, "nnodes": 1}
    return {"header": header, "metadata": about, f"{what}_perf": performance}


def inspector_log(objects: Sequence[Mapping[str, Any]]) -> str:
    """A file of the Inspector."""
    return "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in objects)


def inspector_calls(rank: int, *, timed: bool = True, **others: Any) -> list[dict[str, Any]]:
    """Three calls, 100 us after one another."""
    objects, begun_us = [], MICROSECOND
    for name, size_bytes, took_us in INSPECTOR_CALLS:
        at = begun_us if timed else None
        objects.append(inspector_object(rank, name, size_bytes, took_us=took_us, begun_us=at, **others))
        begun_us += took_us + 100
    return objects


def inspector_dump(objects: Sequence[Mapping[str, Any]], *, heads: bool) -> list[dict[str, Any]]:
    """The objects of one communicator as v4.1 (with heads) and v4.3 have them, behind one that counts them."""
    versions = {"inspector_output_format_version": "v4.1" if heads else "v4.3"}
    head = {"header": objects[0]["header"], "metadata": {**objects[0]["metadata"], **versions}}
    stats = {"coll_records": len(objects), "coll_dropped_total": 0}
    calls = [dict(said) if heads else {key: said[key] for key in said if key.endswith("perf")} for said in objects]
    proxy = [] if heads else [{"proxy_trace": {"record_type": "proxy_op", "record_sn": 4}}]
    return [{**head, "dump_stats": stats}, *calls, *proxy]


def nccl_prefix(rank: int) -> str:
    """What is before each message of NCCL's log."""
    return f"node{rank // 2}:{100 + rank}:{200 + rank} [{rank % 2}] NCCL INFO "


def nccl_call(rank: int, name: str, count: int, *, number: int = 0, datatype: int = 7, root: int = 0, ranks: int = 2,
              communicator: str = "", more: str = "") -> str:  # fmt: skip
    """A line of NCCL's log."""
    pointer = communicator or f"0x55{rank}"
    said = (
        f"{name}: opCount {number:x} sendbuff 0x7f1 recvbuff 0x7f2 count {count} datatype {datatype} op 0 root {root} "
    )
    return f"{nccl_prefix(rank)}{said}comm {pointer} [nranks={ranks}] stream 0x9{more}\n"


def nccl_log(rank: int, ranks: int = 2) -> str:
    """A log of one process: a communicator of all, two collectives, and a message each way."""
    made = f"ncclCommInitRank comm 0x55{rank} rank {rank} nranks {ranks} cudaDev {rank % 2} nvmlDev 0 busId 4000 "
    made += "commId 0xabc - Init COMPLETE"
    return (
        f"{nccl_prefix(rank)}{made}\n"
        + nccl_call(rank, "AllReduce", 1000, ranks=ranks)
        + nccl_call(rank, "ReduceScatter", 500, number=1, datatype=9, ranks=ranks)
        + nccl_call(rank, "Recv", 10, number=2, root=(rank - 1) % ranks, ranks=ranks)
        + nccl_call(rank, "Send", 10, number=2, root=(rank + 1) % ranks, ranks=ranks)
    )


def replay_context(rank: int, at_ms: float, captured: int = 0) -> str:
    """The end of a call in RCCL's text."""
    return f"context : [time : {MILLISECOND + at_ms:.6f}, thread : 1085, device : {rank}, captured : {captured}, graphID : 0 ]]"


def replay_call(rank: int, name: str, count: int, at_ms: float, *, datatype: int = 7, root: int = 0, communicator: str = "",
                ranks: int = 2, captured: int = 0, more: str = "") -> str:  # fmt: skip
    """A call in RCCL's text, without the comma."""
    buffers = "sendbuff : [addr : 0x7f1, base : 0x7f0, size : 4096], recvbuff : [addr : 0x7f1, base : 0x7f0, size : 4096], acc : (nil)"
    said = f"count : {count}, datatype : {datatype}, op : 0, root : {root}, comm : {communicator or f'0x7fb{rank}'}, nranks : {ranks}"
    stream = f"stream : 0x99, task : 0, globalrank : {rank}"
    return f"  {name} : [opCount : 1f, {buffers}, {said}, {stream}, {replay_context(rank, at_ms, captured)}{more}"


def replay_made(rank: int, ranks: int = 2, unique: int = 1716) -> str:
    """The making of a communicator in RCCL's text."""
    said = f"comm : 0x7fb{rank}, size : {ranks}, uniqueID : {unique}, rank : {rank}, dev : {rank}"
    return f"  CommInitDev : [{said}, {replay_context(rank, 0)}"


def replay_text(lines: Sequence[str]) -> str:
    """A file of RCCL's in text."""
    return "{\n  version : 1,\n" + ",\n".join(lines).replace("{,\n", "{\n").replace(",\n  }", "\n  }") + "\n}\n"


def replay_lines(rank: int) -> list[str]:
    """A communicator, two collectives 5 ms after one another, a message each way, and an uneven all-to-all."""
    sent, got = ([10 + rank, 20 + rank], [10 + 10 * rank, 11 + 10 * rank])
    counts = f", sendcounts : {sent}, sdispls : [0, 0], recvcounts : {got}, rdispls : [0, 0]"
    return [
        f"  GetUniqueId : [uniqueID : 1716, {replay_context(rank, 0)}",
        replay_made(rank),
        replay_call(rank, "AllReduce", 1000, 10),
        replay_call(rank, "ReduceScatter", 500, 15, datatype=9),
        "  {",
        replay_call(rank, "Recv", 10, 20, root=1 - rank),
        replay_call(rank, "Send", 10, 20, root=1 - rank),
        "  }",
        replay_call(rank, "AllToAllv", 0, 30, more=counts),
        f"  CommDestroy : [comm : 0x7fb{rank}, {replay_context(rank, 40)}",
    ]


def replay_standard(rank: int) -> str:
    """The calls of `replay_lines` as the converter's --standardize writes them."""

    def call(name: str, at_ms: float, **others: Any) -> dict[str, Any]:
        context = {"time": MILLISECOND + at_ms, "thread": 9, "device": rank, "captured": 0}
        known = {"comm": f"0x7fb{rank}", "nranks": 2, "globalrank": rank, "stream": "0x99", "root": 0, "opCount": "1"}
        return {"type": name, "context": context, **known, **others}

    lists = {"sendcounts": [10 + rank, 20 + rank], "recvcounts": [10 + 10 * rank, 11 + 10 * rank]}
    messages = [call(name, 20, count=10, datatype=7, root=1 - rank) for name in ("Recv", "Send")]
    calls = [
        {"type": "CommInitDev", "comm": f"0x7fb{rank}", "size": 2, "uniqueID": 1716, "rank": rank, "dev": rank},
        call("AllReduce", 10, count=1000, datatype=7),
        call("ReduceScatter", 15, count=500, datatype=9),
        {"type": "GroupedCalls", "calls": messages},
        call("AllToAllv", 30, count=0, datatype=7, **lists),
    ]
    return json.dumps({"version": 1, "calls": calls}, indent=2)


REPLAY_TYPES = {
    "ReduceScatter": 3,
    "AllReduce": 4,
    "Send": 6,
    "Recv": 7,
    "AllToAllv": 9,
    "GroupStart": 13,
    "GroupEnd": 14,
}
REPLAY_TYPES |= {"CommInitDev": 17}


def replay_struct(rank: int, name: str, at_ms: float, *, accumulates: bool = True, count: int = 0, datatype: int = 0,
                  root: int = -1, ranks: int = 2, unique: int = 0, tail: bytes = b"") -> bytes:  # fmt: skip
    """A call in RCCL's binary; accumulates: with the field `acc` of newer versions."""
    kind = REPLAY_TYPES[name] - (not accumulates and REPLAY_TYPES[name] > 5)
    pointers = [0] * (7 if accumulates else 6)
    return (
        struct.pack("<iiiidQiiQ", 100 + rank, 1000, rank, 0, MILLISECOND + at_ms, 0, 0, kind, 1)
        + struct.pack(f"<{len(pointers)}Q", *pointers)
        + struct.pack("<QiiiiQQiiQ", count, datatype, 0, root, ranks, 0x7FB0 + rank, 0x99, 0, rank, unique)
        + tail
    )


def replay_binary(rank: int, *, accumulates: bool = True) -> bytes:
    """The calls of `replay_lines` in binary."""
    calls: list[tuple[str, float, dict[str, Any]]] = [
        ("CommInitDev", 0, {"root": rank, "unique": 1716}),
        ("AllReduce", 10, {"count": 1000, "datatype": 7, "root": 0}),
        ("ReduceScatter", 15, {"count": 500, "datatype": 9, "root": 0}),
        ("GroupStart", 20, {}),
        ("Recv", 20, {"count": 10, "datatype": 7, "root": 1 - rank}),
        ("Send", 20, {"count": 10, "datatype": 7, "root": 1 - rank}),
        ("GroupEnd", 20, {}),
    ]
    lists = struct.pack("<8Q", 10 + rank, 20 + rank, 0, 0, 10 + 10 * rank, 11 + 10 * rank, 0, 0)
    calls.append(("AllToAllv", 30, {"datatype": 7, "root": 0, "tail": lists}))
    return b"".join(replay_struct(rank, name, at, accumulates=accumulates, **said) for name, at, said in calls)


def deepspeed_line(at: str, name: str, milliseconds: float, size: str, bandwidth: float, ranks: int = 8) -> str:
    """A call in DeepSpeed's log, with the bandwidths of a job of so many ranks."""
    prefix = f"[2022-06-26 01:39:{at}] [INFO] [logging.py:96:log_dist] [Rank 0] "
    bandwidths = f"algbw (Gbps): {bandwidth:.2f} | busbw (Gbps): {bandwidth * (ranks - 1) / ranks:.2f}"
    return f"{prefix}comm op: {name} | time (ms): {milliseconds:.2f} | msg size: {size} | {bandwidths}\n"


def deepspeed_table(rows: Mapping[str, Sequence[tuple[str, int, float]]]) -> str:
    """DeepSpeed's summary: of each operation, sizes, counts and milliseconds."""
    titles = (
        "Comm. Op",
        "Message Size",
        "Count",
        "Total Latency(ms)",
        "Avg Latency(ms)",
        "tput_avg (Gbps)",
        "busbw_avg (Gbps)",
    )
    lines = ["".join(f"{title: <20}" for title in titles)]
    for name, of_size in rows.items():
        lines.append(name)
        for size, count, total in of_size:
            numbers = (f"{total:.2f}", f"{total / count:.2f}", "1.00", "1.00")
            lines.append(f"{' ': <20}{size: <20}{count: <20}" + "".join(f"{number: <20}" for number in numbers))
    return "\n".join(lines) + "\n"


def goal_binary(parts: Sequence[Sequence[tuple[int, int, int, int, int, int, Sequence[int], Sequence[int]]]]) -> bytes:
    """A GOAL schedule as txt2bin writes it: of each rank's operations, the type, other rank, size, tag, CPU, NIC, and which
    operations wait for its end and for its start."""
    first, table, body = 4 + 2 + 16 * len(parts), b"", b""
    for operations in parts:
        waiting = [other for operation in operations for others in operation[6:] for other in others]
        roots = [number for number in range(len(operations)) if number not in waiting]
        part = struct.pack(f"<II{len(roots)}I", len(operations), len(roots), *roots)
        listed: list[int] = []
        for number, (kind, peer, size, tag, cpu, nic, ends, starts) in enumerate(operations):
            part += struct.pack("<IBIQIBB", waiting.count(number), kind, peer, size, tag, cpu, nic)
            part += struct.pack("<IIII", len(ends), len(listed), len(starts), len(listed) + len(ends))
            listed += [*ends, *starts]
        part += struct.pack(f"<{len(listed)}I", *listed)
        table += struct.pack("<QQ", first + len(body), first + len(body) + len(part))
        body += part
    return struct.pack("<QIBB", 4223, len(parts), 0, 0) + table + body


def written(folder: Path, contents: Sequence[str | bytes], ending: str = "log") -> list[Path]:
    """Files of these contents, whose names say no rank."""
    paths = []
    for place, content in enumerate(contents):
        paths.append(folder / f"{chr(ord('a') + place)}.{ending}")
        paths[-1].write_bytes(content if isinstance(content, bytes) else content.encode())
    return paths
