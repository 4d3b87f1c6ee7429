"""Messages on the wire, from the op log: when each one's bytes were under way, and between which hosts.

The log has four times for each message: when its first byte was handed to the kernel, when its last byte was, when its header was
read, and when its RECV ended. A message arrives when its RECV ends, unless the RECV waited for something else. Then the arrival is taken
to be its earliest possible time: when the last byte was handed over or the header was read, whichever is later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.analysis.logged import MISSING, LoggedOps
from gradwire.datatypes.plan import CONTROL_CLASS, OpKind
from gradwire.datatypes.records import Int64

Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class WireMessages:
    """Messages in columns with one row per message and receiving host, without messages inside a host."""

    #: Iteration of the message.
    iteration: Int64
    #: Op of its SEND.
    send: Int64
    #: Op of its RECV.
    recv: Int64
    #: Sending host (an endpoint of the fabric).
    src: Int64
    #: Receiving host (an endpoint of the fabric).
    dst: Int64
    #: Equal for messages of the same send queue, class and receiver.
    connection: Int64
    #: When the first byte was handed to the kernel.
    sent_ns: Int64
    #: When the header was read.
    header_ns: Int64
    #: When the last byte was taken from the kernel.
    arrived_ns: Int64
    #: Whether this is the message's first row: a multicast message leaves its sender once.
    first: Bool

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.send)

    def where(self, chosen: Bool) -> WireMessages:
        """The chosen rows."""
        return WireMessages(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


def wire_messages(logged: LoggedOps) -> WireMessages:
    """All messages that crossed the network and whose both ends were logged."""
    plan, ops = logged.plan, logged.plan.ops
    host = plan.rank_host.astype(np.int64)
    recvs = np.flatnonzero(ops.kind == OpKind.RECV).astype(np.int64)
    sends = ops.message[recvs]
    src, dst = host[ops.rank[sends]], host[ops.rank[recvs]]
    # The ranks of a group on the same host share one copy.
    _, copies = np.unique(np.stack([sends, dst]), axis=1, return_index=True)
    kept = np.sort(copies[src[copies] != dst[copies]])
    recvs, sends, src, dst = recvs[kept], sends[kept], src[kept], dst[kept]
    _, connection = np.unique(np.stack([ops.lane[sends], dst, ops.traffic_class[sends]]), axis=1, return_inverse=True)
    first = np.zeros(len(sends), np.bool_)
    first[np.unique(sends, return_index=True)[1]] = True
    parts = []
    for iteration in range(logged.iterations):
        end = logged.end[iteration]
        logged_both = (end[recvs] != MISSING) & (end[sends] != MISSING)
        header = logged.start[iteration][recvs]
        recv_waited = logged.latest_dependency_ns(iteration)[recvs] == end[recvs]
        arrived = np.where(recv_waited, np.maximum(end[sends], header), end[recvs])
        columns = (
            np.full(len(recvs), iteration), sends, recvs, src, dst, connection.ravel(),
            logged.start[iteration][sends], header, arrived, first,
        )  # fmt: skip
        parts.append([column[logged_both] for column in columns])
    return WireMessages(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def data_of(logged: LoggedOps, messages: WireMessages) -> Bool:
    """Which rows carry data. Requests and tokens weigh nothing and do not count as flows."""
    data: Bool = logged.plan.ops.traffic_class[messages.send] != CONTROL_CLASS
    return data
