"""Random small jobs, and plans changed on purpose, for the tests of plans, checker and interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gradwire.datatypes.plan import OP_DTYPES, Ops, Plan
from gradwire.workloads.job import Cluster, Costs, Job
from gradwire.workloads.models.compute_times import ComputeTime
from gradwire.workloads.models.profile import Layer, LayerKind, Profile, Tensor
from gradwire.workloads.strategy_registry import strategy, strategy_names

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "vanilla": [{}],
    "partition-slicing": [{"slice_parameters": 0}, {"slice_parameters": 7}, {"slice_parameters": 300}],
    "geryon": [
        {"slice_parameters": 20},
        {"rule": "threshold", "thresholds": [0.2, 0.6]},
        {"rule": "search", "slice_parameters": 50},
    ],
}


def profile_of(layers: list[tuple[LayerKind, list[int]]]) -> Profile:
    """A profile whose layers have tensors of the given numbers of parameters; each layer reads the one before."""
    return Profile(
        "small",
        tuple(
            Layer(
                f"layer{number}",
                kind,
                tuple(Tensor(f"layer{number}/{i}", parameters) for i, parameters in enumerate(sizes)),
                1.0,
                (number - 1,) if number else (),
            )
            for number, (kind, sizes) in enumerate(layers)
        ),
        4,
        "made up",
    )


def job_of(profile: Profile, cluster: Cluster, *, seed: int = 1, costs: Costs | None = None) -> Job:
    """A job whose layers take 1, 2, 3, ... ms forward and twice that backward."""
    forward_s = tuple((number + 1) * 1e-3 for number in range(len(profile.layers)))
    compute = ComputeTime(forward_s, tuple(2 * seconds for seconds in forward_s), "made up")
    return Job(profile, compute, cluster, 4, seed, costs or Costs())


def training_strategies() -> list[str]:
    """Names of all strategies that train any model. The one that serves takes language models alone; test_serving.py has its tests."""
    return [name for name in strategy_names() if strategy(name).trains]


def compiled(job: Job, name: str, options: Mapping[str, Any]) -> dict[str, Plan]:
    """The plans of a strategy."""
    chosen = strategy(name)
    return dict(chosen.compile(job, chosen.options.model_validate(options)))


_layers = st.lists(
    st.tuples(st.sampled_from([LayerKind.CONV, LayerKind.FC]), st.lists(st.integers(1, 400), max_size=2)),
    min_size=1,
    max_size=5,
).filter(lambda layers: any(sizes for _, sizes in layers))

jobs = st.builds(
    job_of,
    st.builds(profile_of, _layers),
    st.builds(Cluster, st.integers(1, 4), st.integers(1, 3), st.booleans()),
    seed=st.integers(0, 1000),
    costs=st.sampled_from([Costs(), Costs(aggregation_bytes_per_s=1e6, message_latency_s=1e-5)]),
)
"""1 to 5 layers of 0 to 2 tensors, 1 to 4 workers, 1 to 3 servers on the same or other hosts."""

choices = st.sampled_from([(name, options) for name, variants in OPTIONS.items() for options in variants])
"""A strategy and its options."""


def dependencies(plan: Plan) -> list[tuple[int, int, int]]:
    """All (op, on, lag)."""
    waiting = np.repeat(np.arange(len(plan.ops)), np.diff(plan.dep_start)).tolist()
    return list(zip(waiting, plan.dep_op.tolist(), plan.dep_lag.tolist(), strict=True))


def with_dependencies(plan: Plan, deps: list[tuple[int, int, int]]) -> Plan:
    """The plan with other dependencies."""
    deps = sorted(deps, key=lambda dep: dep[0])
    start = np.zeros(len(plan.ops) + 1, np.int64)
    np.cumsum(np.bincount([op for op, _, _ in deps], minlength=len(plan.ops)), out=start[1:])
    return replace(
        plan,
        dep_start=start,
        dep_op=np.array([on for _, on, _ in deps], np.int64),
        dep_lag=np.array([lag for _, _, lag in deps], np.uint8),
    )


def with_cell(plan: Plan, column: str, op: int, value: int) -> Plan:
    """The plan with one cell of one op changed."""
    cells = getattr(plan.ops, column).copy()
    cells[op] = value
    return replace(plan, ops=replace(plan.ops, **{column: cells}))


def without_op(plan: Plan, gone: int) -> Plan:
    """The plan without one op: later ones move up, what named it names nothing (messages) or is left out."""

    def moved(ops: np.typing.NDArray[Any]) -> np.typing.NDArray[np.int64]:
        after: np.typing.NDArray[np.int64] = (ops - (ops > gone)).astype(np.int64)
        after[ops == gone] = -1
        return after

    columns = {name: np.delete(getattr(plan.ops, name), gone) for name in OP_DTYPES}
    columns["message"] = moved(columns["message"])
    shorter = replace(
        plan,
        ops=Ops(**columns),
        begin_op=moved(plan.begin_op),
        end_op=moved(plan.end_op),
        produces=_pairs(plan.produces, gone),
        consumes=_pairs(plan.consumes, gone),
        needs=_pairs(plan.needs, gone),
        moments=_pairs(plan.moments, gone),
    )
    kept = [(op - (op > gone), on - (on > gone), lag) for op, on, lag in dependencies(plan) if gone not in (op, on)]
    return with_dependencies(shorter, kept)


def _pairs(pairs: np.typing.NDArray[np.int64], gone: int) -> np.typing.NDArray[np.int64]:
    kept: np.typing.NDArray[np.int64] = pairs[pairs[:, 0] != gone].copy()
    kept[:, 0] -= kept[:, 0] > gone
    return kept


def with_copies(plan: Plan, ops: list[int]) -> Plan:
    """The plan with copies of some ops behind the others, with the same dependencies; a copied RECV belongs to a copied SEND."""
    count = len(plan.ops)
    new = {op: count + number for number, op in enumerate(ops)}
    columns = {name: np.concatenate([getattr(plan.ops, name), getattr(plan.ops, name)[ops]]) for name in OP_DTYPES}
    columns["message"][count:] = [new.get(message, message) for message in plan.ops.message[ops].tolist()]
    longer = replace(plan, ops=Ops(**columns))
    deps = dependencies(plan)
    copied = [(new[op], on, lag) for op, on, lag in deps if op in new]
    return with_dependencies(longer, deps + copied)
