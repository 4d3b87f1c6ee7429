"""Calls of NCCL and of RCCL, as their functions take them, and what each moves.

Numbers of types are those of `ncclDataType_t` (nccl.h.in of NVIDIA/nccl 2.30 and ROCm/rccl). A count is of what a rank puts
into an all-gather or gather, gets of a reduce-scatter or scatter, and exchanges with each other rank in an all-to-all.
"""

from __future__ import annotations

from dataclasses import dataclass

from gradwire.workloads.traces.record import AllToAllParts, Call
from gradwire.workloads.traces.workload import POINT_TO_POINT, ROOTED, UNKNOWN, Kind

KINDS = {
    "allreduce": Kind.ALL_REDUCE, "allreducewithbias": Kind.ALL_REDUCE, "allgather": Kind.ALL_GATHER,
    "reducescatter": Kind.REDUCE_SCATTER, "broadcast": Kind.BROADCAST, "bcast": Kind.BROADCAST, "reduce": Kind.REDUCE,
    "alltoall": Kind.ALL_TO_ALL, "alltoallv": Kind.ALL_TO_ALL, "gather": Kind.GATHER, "scatter": Kind.SCATTER,
    "send": Kind.SEND, "recv": Kind.RECV,
}  # fmt: skip
"""Kinds by the functions' names in small letters, which NCCL and RCCL write differently."""
OF_MSCCL = "mscclfunc"
"""The beginning of the names of collectives that RCCL's MSCCL carried out."""
TYPE_BYTES = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
"""Bytes of int8, uint8, int32, uint32, int64, uint64, float16, float32, float64, bfloat16, float8e4m3 and float8e5m2."""
PER_MEMBER = (Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL)
"""Kinds of which a rank puts in a count for each member."""
WITH_COUNTS = "alltoallv"


@dataclass(frozen=True)
class NcclArguments:
    """The arguments of a call."""

    name: str
    count: int
    datatype: int
    #: Of a message, the other end.
    root: int
    communicator: str
    #: Ranks of the communicator.
    members: int
    #: Of an all-to-all with counts, those that the rank sends each member, and gets of each.
    sent: tuple[int, ...] = ()
    received: tuple[int, ...] = ()

    def call(self, place: str) -> Call:
        """Returns what the call moves. Raises ValueError, with the field, where that cannot be said."""
        kind = kind_of(self.name)
        if kind is None:
            raise ValueError(f"'{self.name[:40]}' is no call whose bytes are known")
        if not 0 <= self.datatype < len(TYPE_BYTES):
            raise ValueError(f"datatype {self.datatype}: is none of NCCL's, 0 to {len(TYPE_BYTES) - 1}")
        width = TYPE_BYTES[self.datatype]
        parts = self._parts(width) if self.name.lower() == WITH_COUNTS else None
        size_bytes = self.count * width * (self.members if kind in PER_MEMBER else 1)
        if parts is not None:
            size_bytes = sum(parts.put_in)
        is_ended = kind in POINT_TO_POINT or kind in ROOTED
        if is_ended and not 0 <= self.root < self.members:
            raise ValueError(f"root {self.root}: must be a rank of the communicator, 0 to {self.members - 1}")
        return Call(kind, place, size_bytes, width, self.communicator, self.root if is_ended else UNKNOWN, parts=parts)

    def _parts(self, width: int) -> AllToAllParts:
        if len(self.sent) != self.members or len(self.received) != self.members:
            what = f"{self.name}: sendcounts and recvcounts must have {self.members} numbers, and have "
            raise ValueError(f"{what}{len(self.sent)} and {len(self.received)}")
        return AllToAllParts(tuple(n * width for n in self.sent), tuple(n * width for n in self.received))


def kind_of(name: str) -> Kind | None:
    """Returns the kind of a function; None for one that moves nothing, or is not known."""
    return KINDS.get(name.lower().removeprefix(OF_MSCCL))
