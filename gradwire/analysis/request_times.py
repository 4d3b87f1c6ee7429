"""Times of requests to a model that is served: until the first token, between tokens, and until the cache is where it is decoded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np
import numpy.typing as npt

from gradwire.analysis.iterations import times_of_ops_ns
from gradwire.datatypes.plan import Moment, OpKind, Plan
from gradwire.datatypes.plan_of_job import moments_of_job
from gradwire.datatypes.records import OpLog

Float64 = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
TAIL_PERCENT = 99
REQUEST_COLUMNS = (
    "iteration",
    "warmup",
    "request",
    "first_token_s",
    "cache_behind_s",
    "mean_between_tokens_s",
    "longest_between_tokens_s",
)
"""Columns of requests.csv."""


@dataclass(frozen=True)
class RequestSpread:
    """The median of times in seconds, and what 99 % of them do not exceed."""

    median_s: float
    tail_s: float

    @staticmethod
    def of(times_s: Float64) -> RequestSpread | None:
        """Takes times of any shape; returns None if there are none."""
        if not times_s.size:
            return None
        return RequestSpread(float(np.median(times_s)), float(np.percentile(times_s, TAIL_PERCENT)))


@dataclass(frozen=True)
class RequestTimes:
    """Times of all requests of some iterations; None where no request has such a time."""

    #: Number of requests, of all iterations together.
    requests: int
    #: From a request's arrival to its first token.
    first_token: RequestSpread | None
    #: From each token of a request to its next one.
    between_tokens: RequestSpread | None
    #: From the moment at which the first part of a request's cache is sent until all of it, and the first token, are where it is decoded.
    cache: RequestSpread | None
    #: From a request's first token, the end of its prefill, until then: next to nothing for a cache that is there before.
    behind: RequestSpread | None


def mean_times(times: Sequence[RequestTimes | None]) -> RequestTimes | None:
    """Returns the means over several runs of the same requests; None if one of the runs has none."""
    known = [each for each in times if each is not None]
    if not known or len(known) < len(times):
        return None
    spreads = {
        name: _mean_spread([getattr(each, name) for each in known])
        for name in ("first_token", "between_tokens", "cache", "behind")
    }
    return RequestTimes(known[0].requests, **spreads)


def _mean_spread(spreads: Sequence[RequestSpread | None]) -> RequestSpread | None:
    known = [each for each in spreads if each is not None]
    if not known:
        return None
    return RequestSpread(*(float(np.mean([astuple(each)[place] for each in known])) for place in (0, 1)))


def plans_of_requests(plan: Plan) -> list[tuple[str, Plan]]:
    """The plan with the requests of one of its jobs, by the name of each job that serves some; "" where there is a single job."""
    if not plan.jobs:
        return [("", plan)] if len(plan.moments) else []
    of_jobs = [(job.name, replace(plan, moments=moments_of_job(plan, job))) for job in plan.jobs]
    return [(name, one) for name, one in of_jobs if len(one.moments)]


def arrival_ops(plan: Plan) -> Bools:
    """Which ops of a plan are the time until a request arrives: those of the streams on which requests do."""
    found = np.zeros(len(plan.ops), np.bool_)
    spans = [(job.first_op, job.end_op) for job in plan.jobs] or [(0, len(plan.ops))]
    for first, last in spans:
        of_job = (plan.moments[:, 0] >= first) & (plan.moments[:, 0] < last)
        arrived = plan.moments[of_job & (plan.moments[:, 1] == Moment.ARRIVED), 0]
        streams = np.isin(plan.ops.lane[first:last], plan.ops.lane[arrived])
        found[first:last] = streams & (plan.ops.kind[first:last] == OpKind.COMPUTE)
    return found


def logged_request_times(plan: Plan, log: OpLog, warmup: int, iterations: int) -> RequestTimes:
    """Times of the requests of a run. iterations: all, of which the first `warmup` do not count.

    Raises InternalFault if the log lacks an op.
    """
    return _request_times(plan, _logged_s(plan, log, iterations)[warmup:])


def _logged_s(plan: Plan, log: OpLog, iterations: int) -> Float64:
    """Times of the plan's moments, shape (iterations, moments), of each of which several may be of one op."""
    ops = np.unique(plan.moments[:, 0])
    ended_ns = times_of_ops_ns(log, log.end_ns, ops, iterations)
    found: Float64 = ended_ns[:, np.searchsorted(ops, plan.moments[:, 0])] / 1e9
    return found


def replayed_request_times(plan: Plan, op_end_s: Float64) -> RequestTimes:
    """Times of the requests of an estimate, from the ends of ops, shape (iterations, ops)."""
    return _request_times(plan, op_end_s[:, plan.moments[:, 0]])


def request_rows(
    plan: Plan, log: OpLog, warmup: int, iterations: int
) -> list[tuple[int, bool, int, float, float, float, float]]:
    """REQUEST_COLUMNS of each request of a run, in seconds; nan for what a request does not have.

    Raises InternalFault if the log lacks an op.
    """
    at_s = _logged_s(plan, log, iterations)
    order = np.argsort(plan.moments[:, 2], kind="stable")
    starts = np.flatnonzero(np.diff(plan.moments[order, 2], prepend=-1))
    rows = []
    for iteration in range(iterations):
        for number, of_request in enumerate(np.split(order, starts[1:])):
            moment, when_s = plan.moments[of_request, 1], at_s[iteration, of_request]
            arrived_s, cached_s = (_first_s(when_s[moment == each]) for each in (Moment.ARRIVED, Moment.CACHED))
            tokens_s = when_s[moment == Moment.TOKEN]
            gaps_s = np.diff(tokens_s)
            mean_s, longest_s = (float(gaps_s.mean()), float(gaps_s.max())) if len(gaps_s) else (math.nan, math.nan)
            first_s = float(tokens_s[0])
            rows.append(
                (iteration, iteration < warmup, number, first_s - arrived_s, cached_s - first_s, mean_s, longest_s)
            )
    return rows


def _first_s(times_s: Float64) -> float:
    return float(times_s[0]) if len(times_s) else math.nan


def computed_request_times(plan: Plan) -> RequestTimes:
    """Times of the requests by computation alone, in one iteration; of their caches, nothing."""
    found = _request_times(plan, plan.moments[None, :, 3] / 1e9)
    return replace(found, cache=None, behind=None)


def _request_times(plan: Plan, at_s: Float64) -> RequestTimes:
    """at_s: times of the plan's moments, shape (iterations, moments)."""
    order = np.argsort(plan.moments[:, 2], kind="stable")
    moment, request, at_s = plan.moments[order, 1], plan.moments[order, 2], at_s[:, order]
    count = int(request.max()) + 1
    tokens = np.flatnonzero(moment == Moment.TOKEN)
    _, firsts = np.unique(request[tokens], return_index=True)
    first_s = at_s[:, tokens[firsts]]
    same = np.flatnonzero(request[tokens[1:]] == request[tokens[:-1]])
    sent, cached = (np.flatnonzero(moment == each) for each in (Moment.SENT, Moment.CACHED))
    return RequestTimes(
        count * len(at_s),
        RequestSpread.of(first_s - at_s[:, moment == Moment.ARRIVED]),
        RequestSpread.of(at_s[:, tokens[same + 1]] - at_s[:, tokens[same]]),
        RequestSpread.of(at_s[:, cached] - at_s[:, sent]),
        RequestSpread.of(at_s[:, cached] - first_s[:, request[cached]]),
    )
