"""Everything that your own strategies, models and devices import from gradwire, in one place.

docs/adding-a-strategy.md builds a strategy and has a table of these names; docs/adding-a-model.md builds a model.
Names in this module are stable; the modules that they are imported from are not.

- A strategy is a `Strategy` with its `Options`. Its function takes a `Job`, on a `Cluster` and with named `Costs`, and
  returns plans.
- A `Plan` is made with a `PlanBuilder`. Ranks have a `Role`, send queues a `Discipline` and ops an `OpKind`. The
  `Combine` of a message says what happens to the contributions in it. `check` raises `PlanError` for a wrong plan.
- `Workers` are the workers of a plan with their `Passes`, forward and backward, as a chain of ops or, with
  `add_graph_passes` instead of `add_passes`, as the model's graph.
- A `ParameterServer` adds servers to the workers, and the steps between them; `compile_parameter_server` is
  TensorFlow's, complete.
- A `Piece` is the part of a tensor that travels together: `whole_tensors`, `partitioned` over servers, or cut further
  by `in_messages`.
- A `Bucket` is reduced by one allreduce: `Gradient`s in `backward_order`, joined by `fused`. `compile_buckets` reduces
  buckets according to `AllreduceOptions`, each by the `Schedule` that `algorithm_schedule` returns or that you write.
- `Senders` say when a message is sent, so that its queue continues: when it has left, which is the default, or when a
  socket has taken it.
- `register` makes a `Strategy` known in a notebook or a program; packages name theirs in the entry points instead.
- `DurationS` is the type of an option that is a time: scenarios write "2ms", and the strategy reads 0.002. `SizeBytes`
  is that of a size: "4MiB" is read as 4194304.
- A model is a `Profile` of `Layer`s, each of a `LayerKind` with its `Tensor`s. A `Network` makes one from the shapes
  of its activations, each a `Node`. A `Device` has `Fact`s, which are times of models, or a peak rate.
- `InputFault` says that an option or a cluster does not fit. Name the key, and say what would be right.
"""

from __future__ import annotations

from gradwire.datatypes.plan import Combine, Discipline, OpKind, Plan, Role
from gradwire.faults import InputFault
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.engines.allreduce_buckets import Bucket, Gradient, backward_order, fused
from gradwire.workloads.engines.allreduce_plan import AllreduceOptions, algorithm_schedule, compile_buckets
from gradwire.workloads.engines.collectives import Schedule
from gradwire.workloads.engines.parameter_server import ParameterServer, compile_parameter_server
from gradwire.workloads.engines.placement import Piece, in_messages, partitioned, whole_tensors
from gradwire.workloads.engines.worker import Passes, Workers, add_graph_passes, add_passes
from gradwire.workloads.fields import DurationS, SizeBytes
from gradwire.workloads.job import Cluster, Costs, Job
from gradwire.workloads.models.device_facts import Device, Fact
from gradwire.workloads.models.profile import Layer, LayerKind, Profile, Tensor
from gradwire.workloads.models.shapes import Network, Node
from gradwire.workloads.strategy import Options, Senders, Strategy
from gradwire.workloads.strategy_registry import register

__all__ = [
    "AllreduceOptions",
    "Bucket",
    "Cluster",
    "Combine",
    "Costs",
    "Device",
    "Discipline",
    "DurationS",
    "Fact",
    "Gradient",
    "InputFault",
    "Job",
    "Layer",
    "LayerKind",
    "Network",
    "Node",
    "OpKind",
    "Options",
    "ParameterServer",
    "Passes",
    "Piece",
    "Plan",
    "PlanBuilder",
    "PlanError",
    "Profile",
    "Role",
    "Schedule",
    "Senders",
    "SizeBytes",
    "Strategy",
    "Tensor",
    "Workers",
    "add_graph_passes",
    "add_passes",
    "algorithm_schedule",
    "backward_order",
    "check",
    "compile_buckets",
    "compile_parameter_server",
    "fused",
    "in_messages",
    "partitioned",
    "register",
    "whole_tensors",
]
