"""Summarises a plan in a few lines."""

from __future__ import annotations

import numpy as np

from gradwire.datatypes.fabric import Fabric, Topology
from gradwire.datatypes.plan import CONTROL_CLASS, OpKind, Plan, Role
from gradwire.workloads.busiest_port import busiest_port


def summary_lines(plan: Plan, fabric: Fabric) -> list[str]:
    """Summarises an iteration of the plan: ranks, network, ops, messages, bytes by traffic class, busiest port, and the plan's notes."""
    ops = plan.ops
    remote = plan.is_remote()
    roles = {role.name.lower(): int((plan.rank_role == role).sum()) for role in Role}
    ranks = ", ".join(f"{count} {name}{'s' if count > 1 else ''}" for name, count in roles.items() if count)
    kinds = ", ".join(f"{int((ops.kind == kind).sum()):,} {kind.name.lower()}" for kind in OpKind)
    sent = int(ops.size_bytes[remote].sum())
    lines = [
        f"{ranks} on {_hosts(plan)} hosts; {len(plan.chunk_bytes):,} chunks of {len(plan.tensors)} tensors, "
        f"{plan.chunk_bytes.sum() / 1e6:,.1f} MB",
        f"network: {_network(fabric)}",
        f"{len(ops):,} ops: {kinds}; {len(plan.dep_op):,} dependencies",
        f"{int(remote.sum()):,} messages and {sent / 1e9:,.3f} GB cross the network",
    ]
    for traffic_class in sorted(set(ops.traffic_class[remote].tolist())):
        in_class = remote & (ops.traffic_class == traffic_class)
        name = "control" if traffic_class == CONTROL_CLASS else f"class {traffic_class}"
        lines.append(f"  {name}: {int(in_class.sum()):,} messages, {ops.size_bytes[in_class].sum() / 1e6:,.1f} MB")
    lines.append(f"busiest port: {busiest_port(plan, fabric)}")
    lines += [f"note: {note}" for note in plan.notes]
    return lines


def _hosts(plan: Plan) -> int:
    """Counts the machines, without the aggregators' places on switches."""
    return len(np.unique(plan.rank_host[plan.rank_role != Role.AGGREGATOR] // plan.nics_per_host))


def _network(fabric: Fabric) -> str:
    machines, nics = fabric.hosts // fabric.nics_per_host, fabric.nics_per_host
    each = f"with {nics} NICs each " if nics > 1 else ""
    hosts = f"{machines} host{'s' if machines > 1 else ''} {each}at {fabric.rate_bps / 1e9:g} Gbit/s"
    if fabric.topology is Topology.SINGLE_SWITCH:
        return f"{hosts} on one switch"
    if fabric.graph is not None:
        trunks = len(fabric.graph.trunks)
        return f"{hosts} on {fabric.graph.title}, {trunks} link{'s' if trunks != 1 else ''} between them"
    rails = f", NICs on {fabric.nics_per_host} rails" if fabric.rails else ""
    if fabric.topology is Topology.FAT_TREE:
        return (
            f"{hosts} on a fat tree of {fabric.pods} pods of {fabric.leaves} leaves and {fabric.spines} spines, and {fabric.cores} cores; "
            f"uplinks of leaves at {fabric.uplink_rate_bps / 1e9:g} Gbit/s (oversubscription {fabric.oversubscription:g}), of spines at "
            f"{fabric.core_rate_bps / 1e9:g} Gbit/s (oversubscription {fabric.core_oversubscription:g}){rails}"
        )
    return (
        f"{hosts} on leaf/spine {fabric.leaves} x {fabric.spines}, uplinks at {fabric.uplink_rate_bps / 1e9:g} Gbit/s "
        f"(oversubscription {fabric.oversubscription:g}){rails}"
    )
