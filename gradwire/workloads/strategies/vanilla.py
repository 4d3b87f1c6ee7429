"""Vanilla: TensorFlow's parameter server as it is, the baseline of Geryon and TicTac.

Source: Geryon, section V-A; TicTac, section 2; NetOps, section 3. Whole tensors go round robin over the servers, and
each worker pulls them in a random order, another one for each worker. The iteration:
workloads/engines/parameter_server.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from gradwire.datatypes.plan import Plan
from gradwire.workloads.engines.parameter_server import compile_parameter_server
from gradwire.workloads.engines.placement import whole_tensors
from gradwire.workloads.job import Job
from gradwire.workloads.strategy import GRPC, Options, Strategy


def compile_vanilla(job: Job, _: Options) -> Mapping[str, Plan]:
    """Whole tensors in one traffic class."""
    return {"vanilla": compile_parameter_server(job, whole_tensors(job.profile, job.cluster.servers), "vanilla")}


STRATEGIES = (
    Strategy(
        name="vanilla",
        summary="TensorFlow's parameter server: whole tensors round robin, random pull order, global barrier",
        source="Geryon, section V-A (baseline); TicTac, section 2; NetOps, section 3",
        compile=compile_vanilla,
        senders=GRPC,
    ),
)
