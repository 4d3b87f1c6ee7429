"""Chakra execution traces: a graph of nodes in protobuf, one file per rank. https://github.com/mlcommons/chakra

A file is GlobalMetadata and then Nodes, each behind its length as a varint (src/third_party/utils/protolib.py there).
A node may start when all nodes of its ctrl_deps and data_deps have ended; but the converter from PyTorch keeps a
node's caller in ctrl_deps, and all order in data_deps (convert_ctrl_dep_to_data_dep in
src/converter/pytorch_converter.py). `comm_size` counts what a rank puts in; whether in bytes or in elements depends on
who wrote the file:

- the converter from PyTorch sums up elements times their bytes (src/converter/pytorch_node.py), and ASTRA-sim takes
  bytes;
- STAGE, symbolic_tensor_graph, writes counts of elements, and calls its schema symbolic_tensor_network.

Where nodes have the tensors that they are called with, these decide.

`comm_priority` is an integer, 0 where it is left out (src/feeder there). Of ASTRA-sim's collectives that wait for
their turn, one of a larger priority goes first (`Sys::insert_stream` in astra-sim/system/Sys.cc; with the scheduling
policy EXPLICIT, it is the node's).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from google.protobuf.message import DecodeError

from gradwire.faults import InputFault
from gradwire.strict_json import parse_json
from gradwire.workloads.traces.formats import chakra_messages as chakra
from gradwire.workloads.traces.formats.chakra_messages import ChakraMetadata, ChakraNode
from gradwire.workloads.traces.formats.json_items import opened, progress
from gradwire.workloads.traces.formats.pytorch_calls import configured_groups
from gradwire.workloads.traces.record import (
    COMPUTE_STREAM,
    HOST_STREAM,
    MEMORY_STREAM,
    POINT_STREAM,
    Call,
    Findings,
    RankRecord,
    Reading,
    Watch,
)
from gradwire.workloads.traces.workload import UNKNOWN, Kind

NAME = "Chakra execution trace"
KINDS = {
    0: Kind.ALL_REDUCE, 1: Kind.REDUCE, 2: Kind.ALL_GATHER, 3: Kind.GATHER, 4: Kind.SCATTER, 5: Kind.BROADCAST,
    6: Kind.ALL_TO_ALL, 7: Kind.REDUCE_SCATTER, 8: Kind.REDUCE_SCATTER, 9: Kind.BARRIER,
}  # fmt: skip
"""Kinds of collectives, by the number of CollectiveCommType."""
OF_PYTORCH = re.compile(r"\d+\.\d+\.\d+(-chakra\.\d+\.\d+\.\d+)?")
"""Schema of an execution trace of PyTorch, which the converter keeps as the attribute `schema`."""
IN_ELEMENTS = "symbolic_tensor_network"
OWN = "gradwire"
"""Name of the traces that gradwire itself writes (chakra_writing.py)."""
OWN_STREAMS = range(16)
"""More than plans have."""
PRIORITIES = range(2**31)
"""Priorities that a Chakra node may have: an int32, which is read as an unsigned number."""
MOST_MESSAGE_BYTES = 64 << 20
"""A node with 100,000 dependencies takes half a megabyte."""
BLOCK_BYTES = 1 << 20
TENSOR = re.compile(r"\[\d+, \d+, \d+, (?P<elements>\d+), (?P<bytes>\d+), ['\"]")
"""A tensor as the converter writes it: [id, storage, offset, elements, bytes of an element, device]."""


def recognises(beginning: bytes) -> bool:
    """Returns whether a file that begins so may be a Chakra trace: GlobalMetadata behind its length."""
    length, start = _varint(beginning, 0) or (0, 0)
    if not 0 < length <= len(beginning) - start:
        return False
    try:
        metadata = chakra.GlobalMetadata.FromString(beginning[start : start + length])
    except DecodeError:
        return False
    return bool(metadata.version or metadata.attr)


def _varint(data: bytes, at: int) -> tuple[int, int] | None:
    """A number, and where it ends; None if the data ends first or the number is longer than 64 bits."""
    value = 0
    for digit, byte in enumerate(data[at : at + 10]):
        value |= (byte & 127) << (7 * digit)
        if byte < 128:
            return value, at + digit + 1
    return None


def messages(path: Path, file: IO[bytes], watch: Watch) -> Iterator[tuple[int, bytes]]:
    """Yields the messages of a file, each with the byte that it begins at.

    Raises InputFault where the file is cut off or damaged.
    """
    base, data, at = 0, b"", 0
    while True:
        head = _varint(data, at)
        length, start = head or (0, at)
        if length > MOST_MESSAGE_BYTES:
            raise InputFault(
                f"{path}: byte {base + at}: a message of {length:,} bytes is claimed there; the file is damaged, or "
                "is not Chakra"
            )
        if head is None or start + length > len(data):
            more = _more(path, file)
            if not more and at == len(data):
                return
            if not more:
                raise InputFault(f"{path}: byte {base + at}: the file ends in the middle of a node")
            base, data, at = base + at, data[at:] + more, 0
            watch(path, *progress(file))
            continue
        yield base + at, data[start : start + length]
        at = start + length


def _more(path: Path, file: IO[bytes]) -> bytes:
    try:
        return file.read(BLOCK_BYTES)
    except (EOFError, OSError) as error:
        raise InputFault(f"{path}: its compressed content is damaged or cut off: {error}") from error


@dataclass
class _Dialect:
    """The program that wrote a file, as far as reading depends on it."""

    schema: str = ""
    #: Rank and number of ranks, which only gradwire's own files contain; None for others.
    rank: int | None = None
    world: int | None = None
    #: Whether it is the converter from PyTorch.
    of_pytorch: bool = False
    #: Nodes whose tensors say that comm_size counts bytes, and elements.
    agree_bytes: int = 0
    agree_elements: int = 0


def read(path: Path, reading: Reading, watch: Watch) -> RankRecord:
    """Reads a Chakra trace. Raises InputFault for what is not one."""
    if reading.step is not None:
        raise InputFault(f"{path}: --step {reading.step}: a Chakra trace does not tell steps apart; Kineto profiles do")
    record = RankRecord(path, NAME, Findings())
    record.learn_given(reading)
    with opened(path) as file:
        parts = messages(path, file, watch)
        try:
            metadata = chakra.GlobalMetadata.FromString(next(parts, (0, b""))[1])
        except DecodeError as error:
            raise InputFault(f"{path}: begins with no metadata of Chakra: {error}") from error
        fill(record, reading, metadata, _nodes(path, parts))
    return record


def _nodes(path: Path, parts: Iterator[tuple[int, bytes]]) -> Iterator[ChakraNode]:
    for at, data in parts:
        try:
            yield chakra.Node.FromString(data)
        except DecodeError as error:
            raise InputFault(f"{path}: byte {at}: is not a node of Chakra: {error}") from error


def fill(record: RankRecord, reading: Reading, metadata: ChakraMetadata, nodes: Iterable[ChakraNode]) -> None:
    """Makes a record of a trace's metadata and nodes. Raises InputFault for what cannot be."""
    reader = _ChakraReader(record, reading, _dialect(metadata))
    for node in nodes:
        reader.take(node)
    reader.finish()


def _dialect(metadata: ChakraMetadata) -> _Dialect:
    said = {attribute.name: chakra.value_of(attribute) for attribute in metadata.attr}
    schema = str(said.get("schema") or "")
    return _Dialect(
        schema or metadata.version,
        rank=_integer(said.get("rank")),
        world=_integer(said.get("world_size")),
        of_pytorch=bool(OF_PYTORCH.fullmatch(schema)),
    )


class _ChakraReader:
    """Takes nodes in, one after the other."""

    def __init__(self, record: RankRecord, reading: Reading, dialect: _Dialect) -> None:
        self._record, self._reading, self._dialect = record, reading, dialect
        record.rank, record.world = dialect.rank, dialect.world
        self._tasks: dict[int, int] = {}
        self._dependencies = array("Q"), array("Q")
        in_elements = dialect.schema == IN_ELEMENTS
        self._width = reading.element_bytes if in_elements else 1
        if in_elements and self._width is None:
            record.findings.refuse(
                record.file,
                "",
                "its sizes are counts of elements (schema symbolic_tensor_network) of a type that it "
                "does not say: give "
                "the bytes of an element with --element-bytes, such as 2 for bfloat16",
            )
        elif in_elements:
            record.findings.note(
                record.file,
                "",
                f"sizes are counts of elements (schema symbolic_tensor_network), of {self._width} bytes each",
            )

    def take(self, node: ChakraNode) -> None:
        """Adds a node. Raises InputFault for one that cannot be."""
        record, item = self._record, f"node {node.id}"
        if node.id in self._tasks:
            raise InputFault(f"{record.path}: {item} ({node.name}): there are two nodes of this number")
        said = {attribute.name: chakra.value_of(attribute) for attribute in node.attr}
        duration_ns = node.duration_micros * 1000
        is_communication = node.type in (chakra.SEND, chakra.RECV, chakra.COLL)
        if is_communication and said.get("is_cpu_op") and "comm_size" not in said:
            record.findings.note(
                record.file,
                item,
                "a collective of the host without comm_size: it only starts another node's, and computes",
            )
            is_communication = False
        if is_communication:
            call = self._call(node, said, item, duration_ns)
            task = record.compute(0, item=item) if call is None else record.call(call)
        else:
            stream = _stream(node, said, of_gradwire=self._dialect.schema == OWN)
            task = record.compute(self._duration_ns(node, said, item, duration_ns), stream, item=item)
        self._tasks[node.id] = task
        callers = () if self._dialect.of_pytorch else node.ctrl_deps
        for dependency in {*callers, *node.data_deps}:
            self._dependencies[0].append(node.id)
            self._dependencies[1].append(dependency)

    def _duration_ns(self, node: ChakraNode, said: Mapping[str, object], item: str, duration_ns: int) -> int:
        """A computation's time: recorded, or that of its operations on a device."""
        findings, file = self._record.findings, self._record.file
        if node.type == chakra.METADATA and "process_group" in node.name:
            self._take_groups(node)
        operations = _integer(said.get("num_ops"))
        if not duration_ns and operations:
            if self._reading.flops_per_s is None:
                findings.refuse(
                    file,
                    item,
                    "nodes with num_ops and no duration: give the rate of a device with --flop-rate, such as "
                    "150TFLOP/s",
                )
                return 0
            rate = self._reading.flops_per_s
            findings.note(
                file, item, f"nodes with num_ops and no duration take their operations over {rate / 1e12:g} TFLOP/s"
            )
            return round(operations / rate * 1e9)
        if not duration_ns and node.type in (chakra.MEM_LOAD, chakra.MEM_STORE):
            findings.note(file, item, "loads and stores of memory without a duration take no time")
        return duration_ns

    def _take_groups(self, node: ChakraNode) -> None:
        """Process groups as the converter keeps them: PyTorch's JSON in a list that is written as Python does."""
        for text in re.findall(r"\[\{.*\}\]", node.inputs.values):
            try:
                config = parse_json(text)
            except ValueError:
                continue
            self._record.learn_groups(configured_groups(config, None, self._record.room))

    def _call(self, node: ChakraNode, said: Mapping[str, object], item: str, duration_ns: int) -> Call | None:
        """The communication of a node; None if it is refused."""
        record = self._record
        kind = self._kind(node, said, item)
        group = said.get("pg_name", said.get("comm_group", ""))
        name = "" if group is None else str(group)
        if name and name not in record.groups:
            record.miss_group(name, item, f"the process group '{name}' is not known: its ranks are not said")
            return None
        if said.get("involved_dim") is not None and not all(getattr(said["involved_dim"], "values", [False])):
            record.findings.refuse(
                record.file,
                item,
                "involved_dim leaves out dimensions of a network that is not described: give pg_name",
            )
            return None
        peer = _integer(said.get({Kind.SEND: "comm_dst", Kind.RECV: "comm_src"}.get(kind or Kind.COMPUTE, "root")))
        if kind in (Kind.SEND, Kind.RECV) and peer is None:
            record.findings.refuse(record.file, item, f"{kind.with_article} that does not say with which rank")
            return None
        sized = None if kind is None else self._size(kind, node, said, item)
        if kind is None or sized is None:
            return None
        tag = _integer(said.get("comm_tag")) or 0
        priority = self._priority(said, item)
        if priority is None:
            return None
        return Call(kind, item, *sized, name, UNKNOWN if peer is None else peer, tag, duration_ns or UNKNOWN, priority)

    def _priority(self, said: Mapping[str, object], item: str) -> int | None:
        """The priority of a communication, UNKNOWN without one; None if it is refused."""
        if "comm_priority" not in said:
            return UNKNOWN
        value = said["comm_priority"]
        number = 0 if value is None else _integer(value)
        if number is None or number not in PRIORITIES:
            what = f"comm_priority {value}: it must be a whole number from 0 to 2^31 - 1"
            self._record.findings.refuse(self._record.file, item, what)
            return None
        return number

    def _kind(self, node: ChakraNode, said: Mapping[str, object], item: str) -> Kind | None:
        if node.type != chakra.COLL:
            return Kind.SEND if node.type == chakra.SEND else Kind.RECV
        if "comm_type" not in said:
            self._record.findings.refuse(self._record.file, item, "a collective without comm_type: which one is it?")
            return None
        if said["comm_type"] is None:
            self._record.findings.note(
                self._record.file,
                item,
                "attributes without a value count as 0, which older schemas do not write: comm_type 0 is an all-reduce",
            )
        comm_type = 0 if said["comm_type"] is None else _integer(said["comm_type"])
        kind = None if comm_type is None else KINDS.get(comm_type)
        if kind is None:
            self._record.findings.refuse(self._record.file, item, f"comm_type {said['comm_type']} is not known")
        elif kind in (Kind.GATHER, Kind.SCATTER):
            self._record.findings.refuse(
                self._record.file, item, f"{kind.with_article}: Chakra does not say whose bytes its comm_size counts"
            )
            return None
        return kind

    def _size(self, kind: Kind, node: ChakraNode, said: Mapping[str, object], item: str) -> tuple[int, int] | None:
        """Bytes, and bytes of an element; 1 where that is not known."""
        if kind is Kind.BARRIER:
            return 0, 1
        size = _integer(said.get("comm_size"))
        if not size:
            self._record.findings.refuse(self._record.file, item, f"{kind.with_article} without its size (comm_size)")
            return None
        tensors = [(int(match["elements"]), int(match["bytes"])) for match in TENSOR.finditer(node.inputs.values)]
        if tensors:
            elements = sum(count for count, _ in tensors)
            self._dialect.agree_bytes += size == sum(count * width for count, width in tensors)
            self._dialect.agree_elements += size == elements and any(width > 1 for _, width in tensors)
        widths = {width for _, width in tensors}
        return size * (self._width or 1), self._width or 1 if len(widths) != 1 else max(1, *widths)

    def finish(self) -> None:
        """Resolves dependencies, and says in what sizes are counted."""
        record = self._record
        if self._dialect.of_pytorch:
            record.findings.note(
                record.file,
                "",
                f"written by the converter from PyTorch (schema '{self._dialect.schema}'): ctrl_deps "
                "name callers, the "
                "order is in data_deps",
            )
        self._judge_sizes()
        outside, first = 0, ""
        for node, dependency in zip(*self._dependencies, strict=True):
            task = self._tasks.get(dependency)
            if task is None:
                outside += 1
                first = first or f"node {node}"
            else:
                record.depend(self._tasks[node], task)
        if outside:
            record.findings.note(
                record.file, first, "dependencies on nodes that are not in the file: taken as met", outside
            )

    def _judge_sizes(self) -> None:
        findings, file, dialect = self._record.findings, self._record.file, self._dialect
        if dialect.schema == IN_ELEMENTS:
            return
        if dialect.agree_elements:
            findings.refuse(
                file,
                "",
                "comm_size equals the elements of the nodes' tensors and not their bytes, which is not what "
                "this schema "
                f"('{dialect.schema}') has",
                dialect.agree_elements,
            )
        elif dialect.schema == OWN:
            findings.note(file, "", "written by gradwire: comm_size counts bytes")
        elif dialect.agree_bytes:
            findings.note(
                file,
                "",
                "comm_size counts bytes: it equals the bytes of the tensors of as many nodes",
                dialect.agree_bytes,
            )
        elif self._record.calls:
            findings.note(
                file,
                "",
                f"comm_size is taken as bytes, as Chakra's own tools write it (schema '{dialect.schema}'); "
                "nothing in the file "
                "confirms it",
            )


def _integer(value: object) -> int | None:
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _stream(node: ChakraNode, said: Mapping[str, object], *, of_gradwire: bool) -> int:
    if node.type == chakra.METADATA:
        return POINT_STREAM
    stream = _integer(said.get("stream"))
    if of_gradwire and stream is not None and stream in OWN_STREAMS:
        return stream
    if node.type in (chakra.MEM_LOAD, chakra.MEM_STORE):
        return MEMORY_STREAM
    return HOST_STREAM if said.get("is_cpu_op") else COMPUTE_STREAM
