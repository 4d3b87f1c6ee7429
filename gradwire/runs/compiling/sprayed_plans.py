"""What an estimate sees of a plan whose bursts take all ways in turn: each message in parts, one for each way."""

from __future__ import annotations

from gradwire.datatypes.fabric import Fabric
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.sprayed_ways import ways_of
from gradwire.workloads.divided_messages import divided


def by_way(plan: Plan, fabric: Fabric) -> Plan:
    """The plan with its messages divided over the ways of a fabric that sprays; as it is on others. Raises InputFault
    for one that would become too large."""
    return divided(plan, ways_of(fabric), fabric.burst_payload_bytes()) if fabric.routing.is_by_burst else plan
