"""TensorFlow's parameter server as NetOps simulates and varies it.

Source: NetOps, sections 3, 5, 6 and 9. The iteration is that of workloads/engines/parameter_server.py; what can be
varied:

| option | values | section |
|---|---|---|
| distribution | round-robin: parameter p to workers 0 to W - 1, then p + 1 | 6, 9.4 (the simulator's default) |
| | together: parameter p to all workers at once, which share the server's port, then p + 1 | 9.4: "roughly the same pace" |
| | block: all parameters to worker 0, then all to worker 1 | 9.4 |
| | random: another order for each worker, all of them at once | 9.4, after TicTac |
| placement | whole: tensors round robin over the servers in creation order | 9.1 (TensorFlow's default) |
| | variables: the same, untrained variables included, which take turns as well | 9.1, Table 7 (what TensorFlow does) |
| | shares: each server gets its printed share of the bytes, option `shares` | Table 7 |
| | greedy: whole tensors, largest first, each to the server with the least | evenly, without cutting |
| | split: every tensor cut into one even part per server | 9.1 (Table 8) |
| barrier | true; false: a parameter goes to all workers as soon as it is updated | 9.3 (Table 9) |
| message_parameters | 0: a tensor is one message; else the most in a message, each passed on alone | 9.2 |
| wait_free | true; false: gradients are pushed after the whole backward pass | 3.1 (true) |
| cluster.servers, cluster.colocated | 1 and false: the paper's single dedicated server | 5 |

Where the paper is silent: without the barrier a server sends parameters in the order in which they are updated, each
to all workers in turn, and an iteration ends with the backward pass (workloads/engines/keywise.py); NetOps measures
from the first parameter's last update to its arrival, which takes as long in the steady state. There `distribution`
has nothing to order and stays at its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from gradwire.datatypes.plan import Plan
from gradwire.faults import InputFault
from gradwire.workloads.engines.keywise import Exchange, compile_keywise
from gradwire.workloads.engines.parameter_server import DistributionOrder, Variant, compile_parameter_server
from gradwire.workloads.engines.placement import (
    Piece,
    by_shares,
    greedy_by_size,
    in_messages,
    partitioned,
    whole_tensors,
    whole_variables,
)
from gradwire.workloads.job import Job
from gradwire.workloads.strategy import SIMULATED, Options, Strategy


class NetOpsOptions(Options):
    """Options of the parameter server; see the table above."""

    distribution: DistributionOrder = "round-robin"
    """The order in which servers send. "round-robin": a parameter to all workers, then the next. "together":
    the same, but to all workers at once. "block": all parameters to a worker, then to the next. "random":
    another order for each worker, all of them at once."""
    placement: Literal["whole", "variables", "shares", "greedy", "split"] = "whole"
    """Which server holds what. "whole": parameters round robin. "variables": weights and biases apart. "shares": by
    `shares`. "greedy": by size. "split": evenly over all servers."""
    shares: tuple[float, ...] = ()
    """For placement "shares", one for each server, summing to 1."""
    barrier: bool = True
    """Whether all workers start an iteration together."""
    message_parameters: int = Field(0, ge=0)
    """The most parameters of a message; 0: messages are not cut."""
    wait_free: bool = True
    """Whether layers are pushed as the backward pass yields them; otherwise all of them after it."""


def _place(job: Job, options: NetOpsOptions) -> list[Piece]:
    profile, servers = job.profile, job.cluster.servers
    if options.shares and options.placement != "shares":
        raise InputFault(
            f"strategy.options.shares: placement = '{options.placement}' has no use for them; set 'shares'"
        )
    if options.placement == "shares":
        return by_shares(profile, servers, options.shares)
    if options.placement == "variables":
        return whole_variables(profile, servers)
    if options.placement == "greedy":
        return greedy_by_size(profile, servers)
    if options.placement == "split":
        return partitioned(profile, servers, job.cluster.workers)
    return whole_tensors(profile, servers)


def compile_netops(job: Job, options: NetOpsOptions) -> Mapping[str, Plan]:
    """Compiles TensorFlow's iteration with the barrier, and without it that of keywise.py.

    Raises InputFault for options that contradict.
    """
    pieces = in_messages(_place(job, options), options.message_parameters, job.cluster.workers)
    name = "netops-ps"
    if options.barrier:
        variant = Variant(options.distribution, options.wait_free)
        return {name: compile_parameter_server(job, pieces, name, variant=variant)}
    if options.distribution != "round-robin":
        raise InputFault(
            f"strategy.options.distribution = '{options.distribution}': without the barrier parameters leave as they "
            "are "
            "updated; leave it out or set barrier = true"
        )
    exchange = Exchange("broadcast", server_thread=True, wait_free=options.wait_free)
    return {name: compile_keywise(job, pieces, exchange, name)}


STRATEGIES = (
    Strategy(
        name="netops-ps",
        summary="TensorFlow's parameter server with NetOps' choices of order, placement, barrier and message size",
        source="NetOps, sections 3 and 9",
        options=NetOpsOptions,
        compile=compile_netops,
        senders=SIMULATED,
    ),
)
