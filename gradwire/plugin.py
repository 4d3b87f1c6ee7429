"""What a strategy of your own is written with: everything that a plug-in imports from gradwire, in one place.

docs/adding-a-strategy.md builds one. Names stay where they are in this module; where the package keeps them may change.

- A strategy is a `Strategy` with its `Options`; its function takes a `Job`, on a `Cluster` and with named `Costs`, and returns plans.
- A `Plan` is made by a `PlanBuilder`: ranks have a `Role`, send queues a `Discipline`, ops an `OpKind`, and a message says by `Combine`
  what becomes of the contributions in it. `PlanError` is what the checker (`check`) raises about a wrong one.
- `Passes` are a worker's forward and backward pass, as `add_passes` puts them into a plan.
- A `Piece` is what of a tensor travels together: `whole_tensors`, cut further by `in_messages`.
- `InputFault` says that an option or a cluster does not fit: it names the key, and what would be right.
"""

from __future__ import annotations

from gradwire.faults import InputFault
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.engines.placement import Piece, in_messages, whole_tensors
from gradwire.workloads.engines.worker import Passes, add_passes
from gradwire.workloads.job import Cluster, Costs, Job
from gradwire.workloads.plan import Combine, Discipline, OpKind, Plan, Role
from gradwire.workloads.strategies.strategy import Options, Strategy

__all__ = [
    "Cluster",
    "Combine",
    "Costs",
    "Discipline",
    "InputFault",
    "Job",
    "OpKind",
    "Options",
    "Passes",
    "Piece",
    "Plan",
    "PlanBuilder",
    "PlanError",
    "Role",
    "Strategy",
    "add_passes",
    "check",
    "in_messages",
    "whole_tensors",
]
