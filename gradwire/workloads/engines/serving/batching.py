"""Decides, before anything runs, which instance prefills a request, which replica decodes it, and in which steps.

A plan says what waits for what, and not who happens to come first. So requests are placed by a timetable, in which computation takes its
time, caches share the ports of their machines evenly, and all else has the line for itself. What the network adds later delays steps and
does not change which requests are in them.

Requests are prefilled first come, first served, one at a time, each by the instance that is free first. Replicas that decode take requests
in turn. A step adds a token to each request of its batch. A request joins the first step that begins when its cache is there, if its
replica's batch has room, and leaves with its last token (continuous batching: Yu et al., Orca, OSDI 2022).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

from gradwire.workloads.engines.serving.model_work import Batch
from gradwire.workloads.engines.serving.requests import Request

ROUNDING = 1e-9
"""Share of a transfer that is left by rounding."""


@dataclass(frozen=True)
class Prefill:
    """A request's turn at an instance."""

    request: int
    instance: int
    #: Begin and end of it in the timetable.
    begun_s: float
    ended_s: float


@dataclass(frozen=True)
class DecodingStep:
    """A step of the replicas of an instance that go together."""

    instance: int
    #: Requests of each replica, by their numbers.
    batches: tuple[tuple[int, ...], ...]
    #: Those among them whose first step it is.
    joined: frozenset[int]
    #: What each replica's batch is, for its computation.
    work: tuple[Batch, ...]
    #: End of it in the timetable.
    ended_s: float


@dataclass(frozen=True)
class Timetable:
    """Prefills in the order of their requests, and the steps of each instance in order."""

    prefills: tuple[Prefill, ...]
    #: The replica that decodes each request, counted over all instances.
    replica: tuple[int, ...]
    steps: tuple[DecodingStep, ...]

    def tokens_s(self) -> list[list[float]]:
        """Moments at which each request has its tokens, in seconds."""
        found: list[list[float]] = [[] for _ in self.replica]
        for prefill in self.prefills:
            found[prefill.request].append(prefill.ended_s)
        for step in self.steps:
            for number in (number for batch in step.batches for number in batch):
                found[number].append(step.ended_s)
        return found


@dataclass(frozen=True)
class CacheWay:
    """The way of a cache that travels by itself."""

    #: Seconds that it takes by itself, and those of its last part.
    alone_s: float
    last_s: float
    #: Ports that it passes, by any names; none inside a machine.
    ports: tuple[object, ...]


@dataclass(frozen=True)
class ServingPace:
    """The times that a timetable is made of."""

    #: Seconds that a prompt of so many tokens takes.
    prompt_s: Callable[[int], float]
    #: The way of a cache of so many tokens, from an instance to a replica.
    cache: Callable[[int, int, int], CacheWay]
    #: Whether a cache is sent while it is computed.
    by_layer: bool
    #: Seconds of a step with these batches of an instance's replicas.
    step_s: Callable[[Sequence[Batch]], float]


def timetable(
    requests: Sequence[Request], prefills: int, decodes: int, replicas: int, most: int, pace: ServingPace
) -> Timetable:
    """Places requests, which are in the order of their arrivals.

    prefills, decodes: instances; without the former, requests arrive with their caches. replicas: of each instance that decodes, which go
    together. most: requests of a replica's batch.
    """
    placed = _prefills(requests, prefills, pace)
    first = 1 if placed else 0
    lasting = [number for number, request in enumerate(requests) if request.output_tokens > first]
    replica = [-1] * len(requests)
    for turn, number in enumerate(lasting):
        replica[number] = turn % (decodes * replicas)
    there_s = _cached_s(requests, placed, replica, pace) if placed else [request.arrival_s for request in requests]
    steps: list[DecodingStep] = []
    for instance in range(decodes):
        own = [number for number in lasting if replica[number] // replicas == instance]
        queue = _Queue(requests, sorted(own, key=lambda number: there_s[number]), there_s, first)
        steps += queue.steps(
            instance, [replica[number] % replicas for number in range(len(requests))], replicas, most, pace
        )
    return Timetable(tuple(placed), tuple(replica), tuple(steps))


def _prefills(requests: Sequence[Request], instances: int, pace: ServingPace) -> list[Prefill]:
    free_s = [0.0] * instances
    found = []
    for number, request in enumerate(requests if instances else ()):
        instance = min(range(instances), key=lambda each: (max(free_s[each], request.arrival_s), each))
        begun_s = max(free_s[instance], request.arrival_s)
        free_s[instance] = begun_s + pace.prompt_s(request.prompt_tokens)
        found.append(Prefill(number, instance, begun_s, free_s[instance]))
    return found


def _cached_s(
    requests: Sequence[Request], prefills: Sequence[Prefill], replica: Sequence[int], pace: ServingPace
) -> list[float]:
    """Returns the moment at which each request's cache is where it is decoded; without one, that of its prefill's end."""
    ends_s = [each.ended_s for each in prefills]
    sent = [each for each in prefills if replica[each.request] >= 0]
    ways = [pace.cache(requests[each.request].prompt_tokens, each.instance, replica[each.request]) for each in sent]
    starts_s = [each.begun_s if pace.by_layer else each.ended_s for each in sent]
    for each, way, end_s in zip(sent, ways, shared_ends_s(starts_s, ways), strict=True):
        ends_s[each.request] = max(end_s, each.ended_s + way.last_s)
    return ends_s


def shared_ends_s(starts_s: Sequence[float], ways: Sequence[CacheWay]) -> list[float]:
    """Returns the ends of transfers that share each port evenly, and go as fast as the port of theirs that has the most."""
    order = deque(sorted(range(len(ways)), key=lambda each: starts_s[each]))
    left_s: dict[int, float] = {}
    ends_s, now_s = list(starts_s), 0.0
    while order or left_s:
        now_s = max(now_s, starts_s[order[0]]) if not left_s else now_s
        while order and starts_s[order[0]] <= now_s:
            left_s[order[0]] = ways[order[0]].alone_s
            order.popleft()
        at_port = Counter(port for each in left_s for port in ways[each].ports)
        slower = {each: max((at_port[port] for port in ways[each].ports), default=1) for each in left_s}
        last_s = min(left_s[each] * slower[each] for each in left_s)
        arrival_s = starts_s[order[0]] if order else inf
        # Spans, and not moments: late moments are rounded to more than what is left.
        span_s = min(last_s, arrival_s - now_s)
        now_s = arrival_s if span_s < last_s else now_s + span_s
        for each in list(left_s):
            if left_s[each] * slower[each] <= span_s * (1 + ROUNDING):
                ends_s[each] = now_s
                del left_s[each]
            else:
                left_s[each] -= span_s / slower[each]
    return ends_s


@dataclass
class _Queue:
    """Requests of one instance."""

    requests: Sequence[Request]
    #: Numbers of those that have not joined, by the times at which they are there.
    waiting: list[int]
    there_s: Sequence[float]
    #: Tokens that requests have when they join.
    first: int
    _left: dict[int, int] = field(default_factory=dict)

    def steps(
        self, instance: int, replica: Sequence[int], replicas: int, most: int, pace: ServingPace
    ) -> list[DecodingStep]:
        """All steps of the instance."""
        now_s, found = 0.0, []
        waiting = [deque(number for number in self.waiting if replica[number] == each) for each in range(replicas)]
        batches: list[list[int]] = [[] for _ in range(replicas)]
        while any(waiting) or any(batches):
            if not any(batches):
                now_s = max(now_s, min(self.there_s[queue[0]] for queue in waiting if queue))
            joined = []
            for queue, batch in zip(waiting, batches, strict=True):
                while queue and len(batch) < most and self.there_s[queue[0]] <= now_s:
                    joined.append(queue.popleft())
                    batch.append(joined[-1])
                    self._left[joined[-1]] = self.requests[joined[-1]].output_tokens - self.first
            work = tuple(Batch(len(batch), sum(map(self._cached_tokens, batch))) for batch in batches)
            now_s += pace.step_s(work)
            found.append(DecodingStep(instance, tuple(map(tuple, batches)), frozenset(joined), work, now_s))
            for batch in batches:
                for number in batch:
                    self._left[number] -= 1
                batch[:] = [number for number in batch if self._left[number]]
        return found

    def _cached_tokens(self, number: int) -> int:
        """Tokens that a step looks back at, for a request."""
        request = self.requests[number]
        return request.prompt_tokens + request.output_tokens - self._left[number]
