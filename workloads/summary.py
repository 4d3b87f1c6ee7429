"""A plan in a few lines, for people."""

from __future__ import annotations

import numpy as np

from topo.fabric import Fabric
from workloads.plan import CONTROL_CLASS, OpKind, Plan, Role


def summary_lines(plan: Plan, fabric: Fabric) -> list[str]:
    """What the plan does in an iteration: ranks, ops, messages, bytes by traffic class, and the busiest host."""
    ops = plan.ops
    remote = plan.is_remote()
    roles = {role.name.lower(): int((plan.rank_role == role).sum()) for role in Role}
    ranks = ", ".join(f"{count} {name}{'s' if count > 1 else ''}" for name, count in roles.items() if count)
    kinds = ", ".join(f"{int((ops.kind == kind).sum()):,} {kind.name.lower()}" for kind in OpKind)
    sent = int(ops.size_bytes[remote].sum())
    lines = [
        f"{ranks} on {_hosts(plan)} hosts; {len(plan.chunk_bytes):,} chunks of {len(plan.tensors)} tensors, "
        f"{plan.chunk_bytes.sum() / 1e6:,.1f} MB",
        f"{len(ops):,} ops: {kinds}; {len(plan.dep_op):,} dependencies",
        f"{int(remote.sum()):,} messages and {sent / 1e9:,.3f} GB cross the network",
    ]
    for traffic_class in sorted(set(ops.traffic_class[remote].tolist())):
        mine = remote & (ops.traffic_class == traffic_class)
        name = "control" if traffic_class == CONTROL_CLASS else f"class {traffic_class}"
        lines.append(f"  {name}: {int(mine.sum()):,} messages, {ops.size_bytes[mine].sum() / 1e6:,.1f} MB")
    lines.append(_busiest(plan, fabric, remote))
    return lines


def _hosts(plan: Plan) -> int:
    """Hosts, without the aggregators' places on switches."""
    return len(np.unique(plan.rank_host[plan.rank_role != Role.AGGREGATOR]))


def _busiest(plan: Plan, fabric: Fabric, remote: np.typing.NDArray[np.bool_]) -> str:
    """The host port with the most bytes in a direction; a multicast message leaves once and arrives at each member."""
    ops = plan.ops
    arrives = (ops.kind == OpKind.RECV) & remote[np.maximum(ops.message, 0)]
    out = np.bincount(plan.rank_host[ops.rank[remote]], ops.size_bytes[remote], plan.hosts)
    into = np.bincount(plan.rank_host[ops.rank[arrives]], ops.size_bytes[arrives], plan.hosts)
    on_switch = plan.rank_host[plan.rank_role == Role.AGGREGATOR]
    out[on_switch] = into[on_switch] = 0
    host, direction, size = max(
        (int(out.argmax()), "out", out.max()), (int(into.argmax()), "in", into.max()), key=lambda item: item[2]
    )
    seconds = size * 8 / fabric.goodput_share() / fabric.rate_bps
    return f"busiest port: h{host + 1} {direction}, {size / 1e6:,.1f} MB, {seconds:.4f} s at {fabric.rate_bps / 1e9:g} Gbit/s"
