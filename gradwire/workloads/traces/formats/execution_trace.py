"""Execution traces of PyTorch: what torch.profiler.ExecutionTraceObserver writes, one file per rank. They have no
times.

Source: torch/csrc/profiler/standalone/execution_trace_observer.cpp of PyTorch. A `record_param_comms` has inputs that
end in the number of the call, the group, the rank (of a broadcast: its root), the collective's name, both lists of
splits, and, from torch 2.2 on, the group's first rank, stride and size. From schema 1.1.0 on it also has attributes,
with sizes as counts of elements. A `wait` has the number of the call that it is for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from gradwire.documents import Document, DocumentValue
from gradwire.faults import InputFault
from gradwire.strict_json import parse_json
from gradwire.workloads.traces.formats.json_items import JsonItems
from gradwire.workloads.traces.formats.pytorch_calls import CallArguments, call_of, configured_groups, is_wait, plain
from gradwire.workloads.traces.record import Findings, RankRecord, Reading, Watch

NAME = "PyTorch execution trace"
PARAM_COMMS = "record_param_comms"
GROUPS = "process_group:init"
LAST_INPUTS, OLDER_LAST_INPUTS = 9, 6
"""Inputs of a record_param_comms behind its tensors, with the group's ranks and without."""
NAME_AT = 3
"""Place of the collective's name in these inputs, from the first of them."""
DEFAULT_GROUPS = ("default_pg", "0")


class Attribute(msgspec.Struct):
    """An attribute of a node."""

    name: str
    value: Any = None


class Values(msgspec.Struct):
    """A node's inputs, not yet read."""

    values: msgspec.Raw = msgspec.Raw(b"[]")
    types: msgspec.Raw = msgspec.Raw(b"[]")


class TraceNode(msgspec.Struct):
    """A node; before schema 1.0, its parent had the name `parent`."""

    id: int
    name: str
    ctrl_deps: int | None = None
    parent: int | None = None
    inputs: Values | list[Any] = msgspec.field(default_factory=Values)
    attrs: msgspec.Raw = msgspec.Raw(b"[]")


class ExecutionTraceHead(msgspec.Struct):
    """The fields of a trace besides its nodes."""

    schema: str


ATTRIBUTES = {
    "collective_name": "Collective "
                       "name", "dtype": "dtype", "in_msg_nelems": "In msg nelems", "out_msg_nelems": "Out msg nelems",
    "in_split_size": "In split size", "out_split_size": "Out split size", "global_rank_start": "Global rank start",
    "global_rank_stride": "Global rank "
                          "stride", "pg_name": "Process Group Name", "pg_size": "Group size", "src_rank": "Src Rank",
    "dst_rank": "Dst Rank",
}  # fmt: skip
"""Attributes of a node by the names that a profile gives the same facts."""


def recognises(beginning: bytes) -> bool:
    """Returns whether a file that begins so may be an execution trace."""
    return b'"nodes"' in beginning and b'"schema"' in beginning


def read(path: Path, reading: Reading, watch: Watch) -> RankRecord:
    """Reads an execution trace. Raises InputFault for what is not one."""
    if reading.step is not None:
        raise InputFault(
            f"{path}: --step {reading.step}: an execution trace does not tell steps apart; Kineto profiles do"
        )
    record = RankRecord(path, NAME, Findings())
    record.timed = False
    reader = _ExecutionTraceReader(record, reading)
    items = JsonItems(path, "nodes", TraceNode, ExecutionTraceHead, watch)
    for node in items:
        reader.take(node)
    items.head()
    reader.fill()
    record.findings.note(
        record.file,
        "",
        "execution traces have no times: computation takes none, and what is replayed is communication alone",
    )
    return record


class _ExecutionTraceReader:
    """Takes nodes in, and fills the record when all are there."""

    def __init__(self, record: RankRecord, reading: Reading) -> None:
        self._record, self._reading = record, reading
        self._parents: dict[int, int | None] = {}
        self._calls: dict[int, TraceNode] = {}
        self._world: int | None = None
        record.learn_given(reading)

    def take(self, node: TraceNode) -> None:
        """Takes a node in."""
        if node.id in self._parents:
            raise InputFault(f"{self._record.path}: node {node.id} ({node.name}): there are two nodes of this number")
        parent = node.ctrl_deps if node.ctrl_deps is not None else node.parent
        self._parents[node.id] = None if parent == node.id else parent  # the root names itself
        if node.name == PARAM_COMMS:
            self._calls[node.id] = node
        elif GROUPS in node.name:
            self._take_groups(node)

    def _take_groups(self, node: TraceNode) -> None:
        values = self._decode(node, node.inputs.values) if isinstance(node.inputs, Values) else node.inputs
        for text in values if isinstance(values, list) else []:
            try:
                config = parse_json(text) if isinstance(text, str) else None
            except ValueError:
                continue
            groups = configured_groups(config, None, self._record.room)
            self._record.learn_groups(groups)
            for group in config if isinstance(config, list) else []:
                if isinstance(group, dict) and group.get("pg_desc", group.get("pg_name")) in DEFAULT_GROUPS:
                    self._record.world = len(groups.get(str(group.get("pg_name")), ())) or None
                elif isinstance(group, dict) and "pg_name" not in group and group.get("ranks") == []:
                    self._record.world = len(groups.get(str(group.get("pg_id")), ())) or None

    def _decode(self, node: TraceNode, raw: msgspec.Raw) -> DocumentValue:
        try:
            decoded: DocumentValue = msgspec.json.decode(raw)
            return decoded
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise InputFault(f"{self._record.path}: node {node.id} ({node.name}): {error}") from error

    def fill(self) -> None:
        """Adds the calls in the order of their numbers, each after the one before on its group; `wait`s hold up what
        follows."""
        record, waited = self._record, []
        last = record.compute(0)
        before: dict[str, int] = {}
        started: dict[int, int] = {}
        for number, node in sorted(self._calls.items()):
            item = f"node {number}"
            if self._is_nested(number):
                record.findings.note(record.file, item, "record_param_comms in a record_param_comms: counted once")
                continue
            arguments, sequence = self._arguments(node, item)
            if is_wait(arguments) and sequence in started:
                waited.append(started[sequence])
            call = call_of(arguments, item, record)
            if call is None:
                continue
            if waited:
                last, waited = record.compute(0, after=[last, *waited]), []
            task = record.call(call, [last, *([before[call.group]] if call.group in before else [])])
            before[call.group] = task
            if sequence is not None:
                started[sequence] = task
        if waited:
            record.compute(0, after=[last, *waited])

    def _is_nested(self, number: int) -> bool:
        """Returns whether a call is within another: torch from 2.4 on records it at two levels.

        Raises InputFault for a circle.
        """
        at, seen = self._parents.get(number), {number}
        while at is not None and at in self._parents:
            if at in seen:
                raise InputFault(f"{self._record.path}: node {at}: its ctrl_deps go round in a circle")
            if at in self._calls:
                return True
            seen.add(at)
            at = self._parents[at]
        return False

    def _arguments(self, node: TraceNode, item: str) -> tuple[CallArguments, int | None]:
        """Returns the arguments of a call, and its number; None for the number if the node has none."""
        values = self._decode(node, node.inputs.values) if isinstance(node.inputs, Values) else node.inputs
        attributes = self._attributes(node)
        said = {ATTRIBUTES[name]: value for name, value in attributes.items() if name in ATTRIBUTES}
        last = _last_inputs(values)
        if last is not None and isinstance(values, list):
            said = {**self._of_inputs(values, last), **said}
            self._learn_rank(last)
        try:
            return msgspec.convert(said, CallArguments), last[0] if last and isinstance(last[0], int) else None
        except msgspec.ValidationError as error:
            raise InputFault(f"{self._record.path}: {item} ({node.name}): {error}") from error

    def _attributes(self, node: TraceNode) -> Document:
        try:
            return {
                attribute.name: attribute.value for attribute in msgspec.json.decode(node.attrs, type=list[Attribute])
            }
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise InputFault(f"{self._record.path}: node {node.id} ({node.name}): its attrs: {error}") from error

    def _of_inputs(self, values: list[DocumentValue], last: list[DocumentValue]) -> Document:
        """Returns the arguments that the inputs contain. Tensors are [id, storage, offset, elements, bytes of an
        element, device]."""
        _, group, rank, name, in_split, out_split, *ranks = last
        start, stride, size = ranks or (None, None, None)
        tensors = [tensor for value in values[: -len(last)] for tensor in _tensors(value)]
        said: Document = {
            "Collective name": name,
            "In split size": str(in_split),
            "Out split size": str(out_split),
        }
        if isinstance(start, int) and start >= 0:
            said |= {"Global rank start": start, "Global rank stride": stride, "Group size": size}
        if (group_name := _group_name(group)) is not None:
            said["Process Group Name"] = group_name
        if isinstance(rank, int):
            said["Rank"] = rank
        if tensors and len({width for _, width in tensors}) == 1:
            width = tensors[0][1]
            said |= {"In msg nelems": sum(count for count, _ in tensors), "dtype": f"int{8 * width}"}
        return said

    def _learn_rank(self, last: list[DocumentValue]) -> None:
        """The rank that recorded the file: an all-reduce's, in a group of all ranks."""
        _, group, rank, name, _, _, *ranks = last
        if not ranks:
            known = self._record.groups.get(_group_name(group) or "", ())
            ranks = [0, 1, len(known)] if known == tuple(range(len(known))) else [None] * 3
        start, stride, size = ranks
        whole = start == 0 and stride == 1 and (self._record.world is None or size == self._record.world)
        if (
            plain(str(name)) == "allreduce"
            and whole
            and isinstance(rank, int)
            and isinstance(size, int)
            and 0 <= rank < size
        ):
            self._record.rank = rank


def _last_inputs(values: DocumentValue) -> list[DocumentValue] | None:
    """The inputs behind a call's tensors, of which the collective's name tells how many they are; None if there are
    too few."""
    if not isinstance(values, list):
        return None
    older = values[-OLDER_LAST_INPUTS:]
    if len(older) == OLDER_LAST_INPUTS and isinstance(older[NAME_AT], str):
        return older
    return values[-LAST_INPUTS:] if len(values) >= LAST_INPUTS else None


def _group_name(group: DocumentValue) -> str | None:
    """The name of a process group: a number, a text, or the first of a name and a description."""
    if isinstance(group, list) and group:
        return str(group[0])
    return str(group) if isinstance(group, int | str) else None


def _tensors(value: DocumentValue) -> list[tuple[int, int]]:
    """Elements, and bytes of each, of the tensors in an input, which may be lists of tensors."""
    if not isinstance(value, list):
        return []
    numbers = [part for part in value[:5] if isinstance(part, int)]
    if len(value) == 6 and len(numbers) == 5:
        return [(numbers[3], numbers[4])] if numbers[4] > 0 else []
    return [tensor for part in value for tensor in _tensors(part)]
