"""Which instance prefills a request, which replica decodes it, and in which steps: decided before anything runs.

A plan says what waits for what, and not who happens to come first. So requests are placed by a timetable, in which computation takes its
time and every transfer has the line for itself. What the network adds later delays steps and does not change which requests are in them.

Requests are prefilled first come, first served, one at a time, each by the instance that is free first. Replicas that decode take requests
in turn. A step adds a token to each request of its batch. A request joins the first step that begins when its cache is there, if its
replica's batch has room, and leaves with its last token (continuous batching: Yu et al., Orca, OSDI 2022).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gradwire.workloads.engines.serving.model_work import Batch
from gradwire.workloads.engines.serving.requests import Request


@dataclass(frozen=True)
class Prefill:
    """A request's turn at an instance."""

    request: int
    instance: int
    #: End of it in the timetable, and when its cache is at the replica that decodes it.
    ended_s: float
    cached_s: float


@dataclass(frozen=True)
class Step:
    """A step of the replicas of an instance that go together."""

    instance: int
    #: Requests of each replica, by their numbers.
    batches: tuple[tuple[int, ...], ...]
    #: Those among them whose first step it is.
    joined: frozenset[int]
    #: What each replica's batch is, for its computation.
    work: tuple[Batch, ...]


@dataclass(frozen=True)
class Timetable:
    """Prefills in the order of their requests, and the steps of each instance in order."""

    prefills: tuple[Prefill, ...]
    #: The replica that decodes each request, counted over all instances.
    replica: tuple[int, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Pace:
    """What the timetable needs to know of time."""

    #: Seconds that a prompt of so many tokens takes, and that its cache takes on the line.
    prompt_s: Callable[[int], float]
    cache_s: Callable[[int], float]
    #: Seconds of a step with these batches of an instance's replicas.
    step_s: Callable[[Sequence[Batch]], float]


def timetable(
    requests: Sequence[Request], prefills: int, decodes: int, replicas: int, most: int, pace: Pace
) -> Timetable:
    """Places requests, which are in the order of their arrivals.

    prefills, decodes: instances; without the former, requests arrive with their caches. replicas: of each instance that decodes, which go
    together. most: requests of a replica's batch.
    """
    placed = _prefills(requests, prefills, pace)
    there_s = [each.cached_s for each in placed] if placed else [request.arrival_s for request in requests]
    first = 1 if placed else 0
    lasting = [number for number, request in enumerate(requests) if request.output_tokens > first]
    replica = [-1] * len(requests)
    for turn, number in enumerate(lasting):
        replica[number] = turn % (decodes * replicas)
    steps: list[Step] = []
    for instance in range(decodes):
        own = [number for number in lasting if replica[number] // replicas == instance]
        queue = _Queue(requests, sorted(own, key=lambda number: there_s[number]), there_s, first)
        steps += queue.steps(
            instance, [replica[number] % replicas for number in range(len(requests))], replicas, most, pace
        )
    return Timetable(tuple(placed), tuple(replica), tuple(steps))


def _prefills(requests: Sequence[Request], instances: int, pace: Pace) -> list[Prefill]:
    free_s, line_s = [0.0] * instances, [0.0] * instances
    found = []
    for number, request in enumerate(requests if instances else ()):
        instance = min(range(instances), key=lambda each: (max(free_s[each], request.arrival_s), each))
        ended_s = max(free_s[instance], request.arrival_s) + pace.prompt_s(request.prompt_tokens)
        free_s[instance] = ended_s
        line_s[instance] = max(line_s[instance], ended_s) + pace.cache_s(request.prompt_tokens)
        found.append(Prefill(number, instance, ended_s, line_s[instance]))
    return found


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

    def steps(self, instance: int, replica: Sequence[int], replicas: int, most: int, pace: Pace) -> list[Step]:
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
            found.append(Step(instance, tuple(map(tuple, batches)), frozenset(joined), work))
            now_s += pace.step_s(work)
            for batch in batches:
                for number in batch:
                    self._left[number] -= 1
                batch[:] = [number for number in batch if self._left[number]]
        return found

    def _cached_tokens(self, number: int) -> int:
        """Tokens that a step looks back at, for a request."""
        request = self.requests[number]
        return request.prompt_tokens + request.output_tokens - self._left[number]
