"""Calls into a strategy's code, which may be its user's: what that code raises, or returns by mistake, is reported
with its place there.

What gradwire's own strategies raise is a bug of gradwire, and passes through unchanged.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gradwire import PACKAGE
from gradwire.datatypes.plan import Plan
from gradwire.faults import InputFault
from gradwire.named_code import running
from gradwire.network.fabric import Fabric
from gradwire.workloads.checker import check_references
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.plan_size import TooManyOps
from gradwire.workloads.strategy import Options, Strategy


def classes_of_strategy(strategy: Strategy, options: Options) -> int:
    """Number of traffic classes that a strategy needs from the fabric.

    Raises InputFault for what is not a positive whole number.
    """
    with _blaming(strategy, "classes"):
        number = strategy.classes(options)
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise InputFault(
                f"strategy '{strategy.name}': its `classes` returned {number!r}: it must be a whole number from 1 on"
            )
        return number


def has_aggregators(strategy: Strategy, options: Options) -> bool:
    """Returns whether a strategy needs an aggregator at every switch."""
    with _blaming(strategy, "aggregators"):
        return bool(strategy.aggregators(options))


def state_bytes_of(strategy: Strategy, cluster: Cluster, options: Options) -> float:
    """Bytes of state that a worker keeps for each parameter."""
    with _blaming(strategy, "state_bytes"):
        return float(strategy.state_bytes(cluster, options))


def plans_of_strategy(strategy: Strategy, job: Job, options: Options, fabric: Fabric) -> Mapping[str, Plan]:
    """The candidate plans of a strategy by their labels. fabric: the job's, of which `job` may note that a strategy
    has asked for it.

    Raises InputFault for what is not a mapping of labels to plans, and for a plan whose messages have classes that the
    fabric lacks; PlanError for references to what is not there, which estimates, that come before the other checks,
    could not follow. OverflowError, of ops that are too large to count, is the caller's.
    """
    try:
        with _blaming(strategy, "compile"):
            return _examined(strategy, strategy.compile(job, options), fabric)
    except TooManyOps as fault:
        if fault.name:
            raise  # a fault that is its own cause cannot be pickled by who pickles causes, as Dask does
        raise TooManyOps(strategy.name, fault.said) from fault


def _examined(strategy: Strategy, plans: Any, fabric: Fabric) -> Mapping[str, Plan]:
    if not isinstance(plans, Mapping) or not plans:
        returned = f"a {type(plans).__name__}" if not isinstance(plans, Mapping) else "an empty mapping"
        raise InputFault(
            f"{_compile_of(strategy)} returned {returned}: return plans by their labels, like "
            f"{{'{strategy.name}': plan}}"
        )
    for label, plan in plans.items():
        if not isinstance(label, str) or not isinstance(plan, Plan):
            raise InputFault(
                f"{_compile_of(strategy)} returned a mapping of {type(label).__name__} to {type(plan).__name__}: "
                "return plans by their "
                f"labels, like {{'{strategy.name}': plan}}"
            )
        check_references(plan)
        _refuse_missing_classes(strategy, plan, fabric)
    return plans


def _refuse_missing_classes(strategy: Strategy, plan: Plan, fabric: Fabric) -> None:
    highest = int(plan.ops.traffic_class.max(initial=0))
    if highest >= fabric.classes:
        raise InputFault(
            f"{_compile_of(strategy)} sends messages in class {highest}, and the network has "
            f"{'class 0 alone' if fabric.classes == 1 else f'classes 0 to {fabric.classes - 1}'}: give its Strategy "
            f"classes=lambda options: {highest + 1}"
        )


def _compile_of(strategy: Strategy) -> str:
    return f"strategy '{strategy.name}': its `compile`"


@contextmanager
def _blaming(strategy: Strategy, field: str) -> Iterator[None]:
    """Raises InputFault, with the place in the code, for what a strategy raises that is not gradwire's own."""
    if _is_own(strategy.compile):
        yield
        return

    def begins(error: BaseException) -> str:
        return f"strategy '{strategy.name}': its `{field}` failed{_place(strategy, error)}: "

    with running(begins, passing=(OverflowError,)):
        yield


def _is_own(function: Callable[..., Any]) -> bool:
    return str(getattr(_unwrap(function), "__module__", "")).partition(".")[0] == PACKAGE.name


def _unwrap(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _place(strategy: Strategy, error: BaseException) -> str:
    """The last line of the strategy's file that an error came through, or else the last one outside gradwire; "" if
    there is none."""
    code = getattr(_unwrap(strategy.compile), "__code__", None)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _lies_in_package(frame.filename)]
    own_frames = [frame for frame in frames if code is not None and frame.filename == code.co_filename] or frames
    return f" at {own_frames[-1].filename}:{own_frames[-1].lineno}, in {own_frames[-1].name}" if own_frames else ""


def _lies_in_package(file: str) -> bool:
    return Path(file).is_relative_to(PACKAGE)
