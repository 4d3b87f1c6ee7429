"""The names that traces use for element types and for collectives."""

from __future__ import annotations

import re

from gradwire.workloads.traces.workload import Kind

ELEMENT_BYTES = {
    "float": 4, "float32": 4, "double": 8, "float64": 8, "half": 2, "float16": 2, "bfloat16": 2,
    "byte": 1, "uint8": 1, "unsignedchar": 1, "char": 1, "int8": 1, "bool": 1, "short": 2, "int16": 2, "uint16": 2, "int": 4, "int32": 4,
    "uint32": 4, "long": 8, "longint": 8, "int64": 8, "uint64": 8, "complexhalf": 4, "complexfloat": 8, "complex64": 8,
    "complexdouble": 16, "complex128": 16, "float8e4m3fn": 1, "float8e5m2": 1, "float8e4m3fnuz": 1, "float8e5m2fnuz": 1,
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
