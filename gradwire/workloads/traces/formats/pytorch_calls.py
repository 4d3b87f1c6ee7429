"""The names that traces use for element types and for collectives."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from gradwire.documents import DocumentValue
from gradwire.strict_json import parse_json
from gradwire.workloads.traces.record import (
    CUT_SHORT,
    MOST_RANKS,
    AllToAllParts,
    Call,
    RankRecord,
    is_uneven,
    is_whole,
    listed_numbers,
    part_sizes,
)
from gradwire.workloads.traces.workload import POINT_TO_POINT, ROOTED, UNKNOWN, Kind

ELEMENT_BYTES = {
    "float": 4, "float32": 4, "double": 8, "float64": 8, "half": 2, "float16": 2, "bfloat16": 2,
    "byte": 1, "uint8": 1, "unsignedchar": 1, "char": 1, "int8": 1, "bool": 1, "short": 2, "int16": 2, "uint16": 2,
    "int": 4, "int32": 4, "uint32": 4, "long": 8, "longint": 8, "int64": 8, "uint64": 8,
    "complexhalf": 4, "complexfloat": 8, "complex64": 8, "complexdouble": 16, "complex128": 16,
    "float8e4m3fn": 1, "float8e5m2": 1, "float8e4m3fnuz": 1, "float8e5m2fnuz": 1,
}  # fmt: skip
"""Bytes of an element by the names of c10/core/ScalarType.h in PyTorch, and by those of NumPy and C; without
punctuation, in lower case."""

KINDS = {
    "allreduce": Kind.ALL_REDUCE,
    "allreducecoalesced": Kind.ALL_REDUCE,
    "reduce": Kind.REDUCE,
    "reduceoop": Kind.REDUCE,
    "broadcast": Kind.BROADCAST,
    "broadcastoop": Kind.BROADCAST,
    "allgather": Kind.ALL_GATHER,
    "allgatherbase": Kind.ALL_GATHER,
    "allgatherintotensor": Kind.ALL_GATHER,
    "allgatherintotensorcoalesced": Kind.ALL_GATHER,
    "allgathercoalesced": Kind.ALL_GATHER,
    "reducescatter": Kind.REDUCE_SCATTER,
    "reducescatterbase": Kind.REDUCE_SCATTER,
    "reducescattertensor": Kind.REDUCE_SCATTER,
    "reducescattertensorcoalesced": Kind.REDUCE_SCATTER,
    "alltoall": Kind.ALL_TO_ALL,
    "alltoallv": Kind.ALL_TO_ALL,
    "alltoallbase": Kind.ALL_TO_ALL,
    "alltoallsingle": Kind.ALL_TO_ALL,
    "gather": Kind.GATHER,
    "scatter": Kind.SCATTER,
    "barrier": Kind.BARRIER,
    "send": Kind.SEND,
    "recv": Kind.RECV,
}
"""Kinds by the names that ProcessGroupNCCL.cpp of PyTorch gives to RECORD_PARAM_COMMS; without punctuation."""

WAIT = "wait"
"""Listed by PyTorch like a collective: the computation waits for one that was started earlier."""
NO_TRAFFIC = frozenset({WAIT, "init", "coalesced", "startcoalescing", "endcoalescing"})
"""Listed by PyTorch like collectives, and none: what waits, what sets a group up, and brackets around several calls."""


def plain(name: str) -> str:
    """A name as the tables above have it."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def element_bytes(dtype: str) -> int | None:
    """Bytes of an element; None for a type that is not known."""
    name = plain(dtype.rpartition("::")[2])
    return ELEMENT_BYTES.get(name)


def kind_named(name: str) -> Kind | None:
    """The kind of a call by PyTorch's name for it; None for a name that is not known."""
    return KINDS.get(plain(name))


NEWER = "torch records both, and how parts are split, from 2.2 on: record with torch >= 2.2"
OF_RESULT = frozenset({Kind.SCATTER, Kind.RECV})
"""Kinds whose size counts what the rank gets."""


class CallArguments(msgspec.Struct, rename={
    "collective": "Collective name", "in_elements": "In msg nelems", "out_elements": "Out msg nelems", "dtype": "dtype",
    "group": "Process Group "
             "Name", "ranks": "Process Group Ranks", "group_size": "Group size", "start": "Global rank start",
    "stride": "Global rank "
              "stride", "in_split": "In split "
                                    "size", "out_split": "Out split size", "src": "Src Rank", "dst": "Dst Rank",
    "member": "Rank",
}):  # fmt: skip
    """The arguments of a `record_param_comms` event."""

    collective: str = ""
    in_elements: int | None = None
    out_elements: int | None = None
    dtype: str = ""
    group: str = ""
    ranks: str = ""
    group_size: int | None = None
    start: int | None = None
    stride: int | None = None
    in_split: str = ""
    out_split: str = ""
    src: int | None = None
    dst: int | None = None
    #: Index in the group: of the other end of a message, of the root of what has one, and otherwise of the rank itself.
    member: int | None = None


def is_wait(arguments: CallArguments) -> bool:
    """Returns whether an event is the wait for a communication, and not a communication."""
    return plain(arguments.collective) == WAIT


def call_of(arguments: CallArguments, item: str, record: RankRecord, duration_ns: int = UNKNOWN) -> Call | None:
    """Returns the communication of a `record_param_comms` event; None if it is none, or is refused, which the findings
    then say."""
    kind = _kind_of(arguments, item, record)
    group = None if kind is None else _group_of(arguments, item, record)
    if kind is None or group is None:
        return None
    if kind is Kind.BARRIER:
        return Call(kind, item, group=group, duration_ns=duration_ns)
    sized = _size_of(kind, arguments, item, record)
    if sized is None:
        return None
    peer = _peer(kind, arguments, record.groups[group])
    if kind in POINT_TO_POINT and peer is None:
        what = f"{kind.with_article} that does not say with which rank; torch records it from 2.4 on"
        record.findings.refuse(record.file, item, what)
        return None
    parts = None
    if kind is Kind.ALL_TO_ALL and (is_uneven(arguments.in_split) or is_uneven(arguments.out_split)):
        parts = _parts(arguments, *sized, len(record.groups[group]), item, record)
        if parts is None:
            return None
    return Call(kind, item, *sized, group, UNKNOWN if peer is None else peer, duration_ns=duration_ns, parts=parts)


def _parts(
    arguments: CallArguments, size_bytes: int, width: int, members: int, item: str, record: RankRecord
) -> AllToAllParts | None:
    """The parts of an all-to-all whose parts differ in size; None where the file does not say them."""
    try:
        gets_bytes = _gets_bytes(arguments, size_bytes, width)
        sizes = size_bytes, gets_bytes
        put_in, got = (
            part_sizes(split, members, size)
            for split, size in zip((arguments.in_split, arguments.out_split), sizes, strict=True)
        )
    except ValueError as error:
        record.findings.refuse(record.file, item, f"an all-to-all with parts of different sizes: {error}")
        return None
    what = "parts of all-to-alls are shares of a rank's bytes, as the lists of splits have them"
    record.findings.note(record.file, "", what)
    return AllToAllParts(put_in, got)


def _gets_bytes(arguments: CallArguments, size_bytes: int, width: int) -> int:
    """Bytes that a rank gets in an all-to-all.

    Where only the lists of splits say so, what they count is as large as in what the rank puts in; whether that fits
    what the other ranks put in is found out later. Raises ValueError where it is not said.
    """
    if arguments.out_elements is not None and arguments.out_elements >= 0:
        return arguments.out_elements * width
    put_in, got = (sum(listed_numbers(split)) for split in (arguments.in_split, arguments.out_split))
    if not put_in or not is_whole(arguments.in_split + arguments.out_split) or size_bytes % put_in:
        raise ValueError("it is not said how much the rank gets")
    return size_bytes // put_in * got


def _peer(kind: Kind, arguments: CallArguments, ranks: tuple[int, ...]) -> int | None:
    """The rank of a message's other end, or of a root; None where it is not said, or the kind has none."""
    said = {Kind.SEND: arguments.dst, Kind.RECV: arguments.src}.get(kind)
    member = arguments.member
    if said is None and kind in (*POINT_TO_POINT, *ROOTED) and member is not None and 0 <= member < len(ranks):
        return ranks[member]
    return said


def _kind_of(arguments: CallArguments, item: str, record: RankRecord) -> Kind | None:
    name = arguments.collective
    if plain(name) in NO_TRAFFIC:
        record.findings.note(record.file, item, f"'{name}' is listed as a collective and is none: it moves nothing")
        return None
    kind = kind_named(name)
    if kind is None:
        what = f"the collective '{name}' is not known" if name else f"a collective without its size and name; {NEWER}"
        record.findings.refuse(record.file, item, what)
    return kind


def _size_of(kind: Kind, arguments: CallArguments, item: str, record: RankRecord) -> tuple[int, int] | None:
    """Bytes, and bytes of an element. Where both counts are there they must suit the kind."""
    findings, file = record.findings, record.file
    elements = arguments.out_elements if kind in OF_RESULT else arguments.in_elements
    if elements is None or not arguments.dtype:
        findings.refuse(
            file,
            item,
            f"{kind.with_article} without its size; {NEWER}",
        )
        return None
    width = element_bytes(arguments.dtype)
    if width is None:
        findings.refuse(
            file, item, f"elements of type '{arguments.dtype}', of which it is not known how many bytes they have"
        )
        return None
    if elements < 0:
        findings.refuse(file, item, f"{kind.with_article} of {elements} elements")
        return None
    ratio = _ratio(kind, arguments)
    if ratio is not None and arguments.group_size and ratio != arguments.group_size:
        findings.refuse(
            file,
            item,
            f"{kind.with_article} among {arguments.group_size} ranks, of {arguments.in_elements} elements "
            "in and "
            f"{arguments.out_elements} out, which do not fit",
        )
        return None
    findings.note(file, "", "sizes of record_param_comms are counts of elements, times the bytes of their dtype")
    return elements * width, width


def _ratio(kind: Kind, arguments: CallArguments) -> float | None:
    """Returns how many times larger the result of an all-gather, or the input of a reduce-scatter, is; None for other
    kinds."""
    small, large = arguments.in_elements, arguments.out_elements
    if kind is Kind.REDUCE_SCATTER:
        small, large = large, small
    if kind not in (Kind.ALL_GATHER, Kind.REDUCE_SCATTER) or not small or not large:
        return None
    return large / small


def _group_of(arguments: CallArguments, item: str, record: RankRecord) -> str | None:
    """The group's name, whose ranks the record then has; None where the file does not say them."""
    findings, file, name = record.findings, record.file, arguments.group
    known = record.groups.get(name)
    written = arguments.ranks.strip()
    stride, size, start = arguments.stride, arguments.group_size, arguments.start
    listed: tuple[int, ...] = ()
    wrong = ""
    try:
        listed = listed_numbers(written)
    except ValueError as error:
        wrong = f"the list of the ranks of group '{name}' has {error}"
    if size is not None and not 0 < size <= MOST_RANKS:
        wrong = f"a group of {size:,} ranks; it must be 1 or more, and at most {MOST_RANKS:,}"
    if wrong:
        findings.refuse(file, item, wrong)
        return None
    ranks = () if CUT_SHORT in written else listed
    if not ranks and known is None and start is not None and start >= 0 and stride and stride > 0 and size:
        record.need_room(size)
        ranks = tuple(range(start, start + stride * size, stride))
        if CUT_SHORT in written:
            if listed != ranks[: len(listed)]:
                findings.refuse(
                    file,
                    item,
                    f"the list of the ranks of group '{name}' is cut short ('{CUT_SHORT}') and does not go up evenly",
                )
                return None
            findings.note(
                file,
                item,
                f"the list of the ranks of group '{name}' is cut short: completed by its first rank, stride and size",
            )
    if ranks and known is not None and ranks != known:
        here, elsewhere = list(ranks[:8]), list(known[:8])
        findings.refuse(file, item, f"group '{name}' has the ranks {here} here and {elsewhere} elsewhere")
        return None
    ranks = ranks or known or ()
    if not ranks:
        why = (
            f"the list of its ranks is cut short ('{CUT_SHORT}')" if CUT_SHORT in written else "its ranks are not said"
        )
        unknown = record.miss_group(name, item, f"the process group '{name}' is not known: {why}")
        parts = {len(listed_numbers(split)) for split in (arguments.in_split, arguments.out_split) if is_whole(split)}
        unknown.sizes |= parts - {0} | ({size} if size is not None else set())
        kind = kind_named(arguments.collective)
        if arguments.member is not None and kind not in (*POINT_TO_POINT, *ROOTED):
            unknown.places.add(arguments.member)
        return None
    if size is not None and size != len(ranks):
        findings.refuse(file, item, f"group '{name}' has {len(ranks)} ranks and calls itself {size} large")
        return None
    record.learn_groups({name: ranks})
    return name


def configured_groups(config: DocumentValue, world: int | None, room: int) -> dict[str, tuple[int, ...]]:
    """Ranks by name, or by number before there were names, of the groups that a `pg_config` or a `process_group:init`
    lists; all ranks where its list is empty.

    room: how many ranks there may be in lists that are empty, together; groups beyond that are left out.
    """
    ranks_of: dict[str, tuple[int, ...]] = {}
    for group in config if isinstance(config, list) else ():
        name = group.get("pg_name", group.get("pg_id")) if isinstance(group, Mapping) else None
        if not isinstance(group, Mapping) or not isinstance(name, str | int):
            continue
        ranks, size = group.get("ranks"), group.get("group_size", group.get("pg_size", world))
        if isinstance(ranks, str):
            ranks = _listed_ranks(ranks)
        whole = tuple(rank for rank in ranks if type(rank) is int) if isinstance(ranks, list) else ()
        if isinstance(ranks, list) and ranks and len(whole) == len(ranks):
            ranks_of[str(name)] = whole
        elif ranks == [] and type(size) is int and 0 < size == (world or size) and size <= min(MOST_RANKS, room):
            ranks_of[str(name)] = tuple(range(size))
            room -= size
    return ranks_of


def _listed_ranks(text: str) -> DocumentValue:
    try:
        return parse_json(text)
    except ValueError:
        return None
