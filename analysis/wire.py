"""Messages on the wire, from the op log: when the bytes of each were under way, and between which hosts.

The log has four times of a message: when its first byte was handed to the kernel, when its last was, when its header was read, and
when its RECV ended. The RECV's end is its arrival unless the RECV waited for something else; then the arrival is taken to be
the later of last byte handed over and header read, which it cannot be before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.agents.records import Int64
from gradwire.analysis.logged import MISSING, LoggedOps
from gradwire.workloads.plan import CONTROL_CLASS, OpKind

Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class WireMessages:
    """One row a message and receiving host, in columns; messages inside a host are none.

    iteration, send, recv: which message. src, dst: hosts (endpoints of the fabric). connection: equal for messages of one send
    queue, class and receiver. sent_ns: first byte handed to the kernel. arrived_ns: last byte taken from it. header_ns: header read.
    first: whether this is the message's first row; a multicast message leaves its sender once.
    """

    iteration: Int64
    send: Int64
    recv: Int64
    src: Int64
    dst: Int64
    connection: Int64
    sent_ns: Int64
    header_ns: Int64
    arrived_ns: Int64
    first: Bool

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.send)

    def where(self, chosen: Bool) -> WireMessages:
        """The chosen rows."""
        return WireMessages(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


def wire_messages(logged: LoggedOps) -> WireMessages:
    """All messages that crossed the network, as far as the log has both ends."""
    plan, ops = logged.plan, logged.plan.ops
    host = plan.rank_host.astype(np.int64)
    recvs = np.flatnonzero(ops.kind == OpKind.RECV).astype(np.int64)
    sends = ops.message[recvs]
    src, dst = host[ops.rank[sends]], host[ops.rank[recvs]]
    # Several ranks of a host that belong to a group get one copy.
    _, one_each = np.unique(np.stack([sends, dst]), axis=1, return_index=True)
    kept = np.sort(one_each[src[one_each] != dst[one_each]])
    recvs, sends, src, dst = recvs[kept], sends[kept], src[kept], dst[kept]
    _, connection = np.unique(np.stack([ops.lane[sends], dst, ops.traffic_class[sends]]), axis=1, return_inverse=True)
    first = np.zeros(len(sends), np.bool_)
    first[np.unique(sends, return_index=True)[1]] = True
    parts = []
    for iteration in range(logged.iterations):
        end = logged.end[iteration]
        there = (end[recvs] != MISSING) & (end[sends] != MISSING)
        header = logged.start[iteration][recvs]
        held = logged.latest_dependency_ns(iteration)[recvs] == end[recvs]
        arrived = np.where(held, np.maximum(end[sends], header), end[recvs])
        columns = (
            np.full(len(recvs), iteration), sends, recvs, src, dst, connection.ravel(),
            logged.start[iteration][sends], header, arrived, first,
        )  # fmt: skip
        parts.append([column[there] for column in columns])
    return WireMessages(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def data_of(logged: LoggedOps, messages: WireMessages) -> Bool:
    """Which rows carry data: requests and tokens weigh nothing and count as no flow."""
    data: Bool = logged.plan.ops.traffic_class[messages.send] != CONTROL_CLASS
    return data
