"""Small traces in every format that `gradwire import` reads, made up as the tools write them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from gradwire.faults import InputFault
from gradwire.workloads.traces.formats import chakra_json
from gradwire.workloads.traces.formats import chakra_messages as chakra
from gradwire.workloads.traces.record import Reading
from gradwire.workloads.traces.trace_import import Imported, import_traces
from tests.shared.parts import tells

WORLD = [0, 1]
MAIN, AUTOGRAD = 1, 2
"""Threads."""
COMPUTE, NCCL = 7, 40
"""Streams of the GPU."""


def imported(*paths: Path, reading: Reading | None = None) -> Imported:
    """What `gradwire import` makes of files."""
    return import_traces(paths, "small", reading or Reading(), lambda *_: None)


def words(outcome: Imported) -> str:
    """All that an import found."""
    return "\n".join(finding.words for finding in outcome.findings)


def refusal(*paths: Path, reading: Reading | None = None) -> str:
    """Why no workload is made of files."""
    try:
        outcome = imported(*paths, reading=reading)
    except InputFault as fault:
        return str(fault)
    assert outcome.workload is None, words(outcome)
    return words(outcome)


def finds(outcome: Imported, *parts: object) -> bool:
    """Returns whether one finding of an import has these parts in this order."""
    return any(tells(finding.words, *parts) for finding in outcome.findings)


class KinetoFile:
    """A Kineto profile under construction; times in microseconds."""

    def __init__(self, rank: int | None = 0, ranks: Sequence[int] = WORLD) -> None:
        self.events: list[dict[str, Any]] = []
        self._correlation = 0
        config = [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": len(ranks), "ranks": list(ranks)}]
        self.about: dict[str, Any] = {"schemaVersion": 1}
        if rank is not None:
            self.about["distributedInfo"] = {"rank": rank, "world_size": len(ranks), "pg_config": config}

    def event(
        self, category: str, name: str, ts: float, dur: float, tid: int = MAIN, **arguments: Any
    ) -> dict[str, Any]:
        """Adds an event."""
        event = {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": 1,
            "tid": tid,
            "ts": ts,
            "dur": dur,
            "args": arguments,
        }
        self.events.append(event)
        return event

    def kernel(self, launched: float, begin: float, dur: float, name: str = "gemm", stream: int = COMPUTE) -> None:
        """Adds a kernel and the call that launched it."""
        self._correlation += 1
        self.event("cuda_runtime", "cudaLaunchKernel", launched, 1, correlation=self._correlation)
        self.event("kernel", name, begin, dur, tid=stream, stream=stream, correlation=self._correlation, device=0)

    def collective(
        self, name: str, elements: int | None, at: float, begin: float, dur: float, **said: Any
    ) -> dict[str, Any]:
        """Adds a collective: the call on the host, and NCCL's kernel."""
        arguments = {
            "Collective name": name,
            "In msg nelems": elements,
            "Out msg nelems": elements,
            "dtype": "Float",
            "Process Group Name": "0",
            "Process Group Ranks": "[0, 1]",
            "Group size": 2,
            "Global rank start": 0,
            "Global rank stride": 1,
            "In split size": "[]",
            "Out split size": "[]",
        } | said
        arguments = {key: value for key, value in arguments.items() if value is not None}
        event = self.event("cpu_op", "record_param_comms", at, 10, AUTOGRAD, **arguments)
        self._correlation += 1
        self.event("cuda_runtime", "cudaLaunchKernelExC", at + 5, 1, AUTOGRAD, correlation=self._correlation)
        self.event("kernel", f"ncclDevKernel_{name}", begin, dur, NCCL, stream=NCCL, correlation=self._correlation)
        return event

    def stream_wait(self, at: float) -> None:
        """Adds a wait of the computing stream, as DDP's reducer makes it."""
        self._correlation += 1
        self.event("cuda_runtime", "cudaStreamWaitEvent", at, 1, AUTOGRAD, correlation=self._correlation)

    def write(self, path: Path) -> Path:
        """Writes the file, gzipped if its name ends so."""
        text = json.dumps({**self.about, "traceEvents": self.events, "traceName": "small.json"}, indent=1)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
        return path


def ddp_step(rank: int | None = 0) -> KinetoFile:
    """A backward pass of two kernels with an all-reduce behind each, and an optimizer that waits for both.

    The first takes the time of the second kernel; the second leaves the GPU idle from 500 us to 700 us.
    """
    trace = KinetoFile(rank)
    trace.kernel(0, 100, 200)
    trace.collective("allreduce", 1000, at=20, begin=300, dur=150)
    trace.kernel(40, 300, 200)
    trace.collective("allreduce", 3001, at=60, begin=500, dur=200)
    trace.stream_wait(80)
    trace.stream_wait(85)
    trace.kernel(90, 700, 100)
    return trace


def execution_trace(path: Path, calls: Iterable[dict[str, Any]], *, ranks: list[int] | None = None) -> Path:
    """A PyTorch execution trace of schema 1.1.0, of rank 1 of 2, with these calls: each a collective's name and its
    elements."""
    group = {"pg_name": "0", "pg_desc": "default_pg", "ranks": ranks or [], "group_size": 2}
    nodes: list[dict[str, Any]] = [
        {"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1},
        {"id": 2, "name": "## process_group:init ##", "ctrl_deps": 1, "inputs": _values([json.dumps([group])])},
    ]
    for number, call in enumerate(calls, start=10):
        said = {"parent": 1, "sequence": number, "elements": 0, "name": "allreduce", "member": 1} | call
        tensors = [[[1, 2, 0, said["elements"], 4, "cuda:1"]]] if said["elements"] else []
        inputs = [*tensors, said["sequence"], ["0", "default_pg"], said["member"], said["name"], [], [], 0, 1, 2]
        attributes = {
            "collective_name": said["name"], "dtype": "Float", "in_msg_nelems": said["elements"],
            "out_msg_nelems": said["elements"], "pg_name": "0", "pg_size": 2,
        }  # fmt: skip
        listed = [{"name": name, "type": "", "value": value} for name, value in attributes.items()]
        node = {
            "id": said.get("id", number),
            "name": "record_param_comms",
            "ctrl_deps": said["parent"],
            "attrs": listed,
        }
        nodes.append(node | {"inputs": _values(inputs)})
    document = {"schema": "1.1.0-chakra.0.0.4", "pid": 1, "start_ts": 1, "nodes": nodes, "finish_ts": 2}
    path.write_text(json.dumps(document))
    return path


def older_execution_trace(path: Path, calls: Iterable[dict[str, Any]]) -> Path:
    """The same of schema 1.0.1, as torch wrote it before 2.2: no attributes, inputs in a list of their own, and calls
    that do not say their group's ranks. Groups have numbers."""
    document = json.loads(execution_trace(path, calls).read_text())
    document["schema"] = "1.0.1"
    for node in document["nodes"]:
        node["parent"] = node.pop("ctrl_deps")
        node["inputs"] = node.get("inputs", {"values": []})["values"]
        node.pop("attrs", None)
        if node["name"] == "record_param_comms":
            *tensors, sequence, _, rank, name, in_split, out_split, _, _, _ = node["inputs"]
            node["inputs"] = [*tensors, sequence, 94, rank, name, in_split, out_split]
        elif node["inputs"]:
            node["inputs"] = [json.dumps([{"pg_id": 94, "ranks": [], "group_size": 2}])]
    path.write_text(json.dumps(document))
    return path


def _values(values: list[Any]) -> dict[str, Any]:
    return {"values": values, "shapes": [], "types": []}


def attribute(name: str, value: Any) -> Any:
    """An attribute of a Chakra node, of the kind that its value has; None for one without a value."""
    if value is None:
        return chakra.Attribute(name=name)
    kinds = {bool: "bool_val", int: "int64_val", str: "string_val", float: "double_val"}
    return chakra.Attribute(name=name, **{kinds[type(value)]: value})


def chakra_node(number: int, kind: int, after: Sequence[int] = (), duration_us: int = 0, **attributes: Any) -> Any:
    """A Chakra node."""
    return chakra.Node(
        id=number, name=f"n{number}", type=kind, data_deps=after, duration_micros=duration_us,
        attr=[attribute(name, value) for name, value in attributes.items()],
    )  # fmt: skip


def chakra_file(path: Path, nodes: Iterable[Any], **metadata: Any) -> Path:
    """A Chakra trace."""
    about = chakra.GlobalMetadata(version="0.0.4", attr=[attribute(name, value) for name, value in metadata.items()])
    path.write_bytes(b"".join(varint(len(data)) + data for data in (m.SerializeToString() for m in (about, *nodes))))
    return path


def jsonized(message: Any) -> dict[str, Any]:
    """A node, or metadata, as chakra_jsonizer writes it: protobuf's JSON, in which types have names."""
    said: dict[str, Any] = json_format.MessageToDict(message)
    names = {number: name for name, number in chakra.TYPES.items()}
    return said | ({"type": names.get(said["type"], "STORAGE_NODE")} if "type" in said else {})


def graph_node(node: Any) -> dict[str, Any]:
    """A node as a `workload_graph` has it."""
    known = chakra_json.GraphNode.__struct_fields__
    said = {attribute.name: chakra.value_of(attribute) for attribute in node.attr if attribute.name in known}
    return {
        "Id": node.id, "Name": node.name, "NodeType": node.type, "runtime": node.duration_micros,
        "data_deps": list(node.data_deps),
        **{name: value for name, value in said.items() if isinstance(value, int | float | str | None)},
    }  # fmt: skip


def chakra_json_file(path: Path, nodes: Iterable[Any], *, graph: bool, **metadata: Any) -> Path:
    """A Chakra trace in JSON: a `workload_graph`, or what chakra_jsonizer writes."""
    if graph:
        path.write_text(json.dumps({"workload_graph": [graph_node(node) for node in nodes]}, indent=2))
        return path
    about = chakra.GlobalMetadata(version="0.0.4", attr=[attribute(name, value) for name, value in metadata.items()])
    path.write_text("".join(json.dumps(jsonized(message), indent=2) for message in (about, *nodes)))
    return path


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def recording(rank: int = 0, world: int = 4, **others: Any) -> dict[str, Any]:
    """As the recorder writes it: a step of data parallelism."""
    return {
        "format": "gradwire recording",
        "version": 1,
        "rank": rank,
        "world": world,
        "groups": [list(range(min(world, 4)))],
        "guesses": {"data was guessed": 2},
        "tasks": [
            {"kind": "compute", "flops": 3_000_000, "after": []},
            {"kind": "all-reduce", "bytes": 4096, "element_bytes": 4, "group": "0", "after": [0]},
            {"kind": "compute", "flops": 1_000_000, "after": [0]},
        ],
        **others,
    }
