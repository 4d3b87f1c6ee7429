"""Searches the fastest divisions of a model: all are bounded, and those that may be among the best are estimated.

A bound (workloads/divisions/least_time.py) takes milliseconds, and an estimate by classes of ranks seconds. Divisions
are estimated in the order of their bounds, until a bound is not below the time of the last of the best: none of the
others can be faster.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heapify, heappop, heappush

from gradwire.faults import InputFault
from gradwire.runs.comparing.division_question import Choice, DivisionQuestion
from gradwire.runs.compiling.by_class import by_class, with_fabric
from gradwire.runs.compiling.ideal_times import held_rule
from gradwire.runs.compiling.many_points import side_by_side
from gradwire.scenario.resolution.compilation import ResolvedPoint
from gradwire.scenario.resolution.transport_fit import buffer_bytes
from gradwire.scenario.schema import PointSection
from gradwire.workloads.divisions.choices import choices
from gradwire.workloads.divisions.job_memory import sharded_memory
from gradwire.workloads.divisions.least_time import LeastTime, busiest_s, least_time
from gradwire.workloads.divisions.memory import Memory, PieceSizes, memory_of, sizes_of
from gradwire.workloads.divisions.sharded_choices import sharded_choices, sharded_least_time
from gradwire.workloads.engines.parallel.segments import Cut, cut

BEST = 10
"""Divisions that are shown."""
FACTORS = (1.0, 0.5, 2.0)
"""Rates of the network at which divisions are estimated, as multiples of the one that is asked about."""
MOST_FURTHER = 10
"""Divisions that are estimated at another rate alone, because they might be the fastest there."""
MEMORY = "need more memory than a GPU has"


@dataclass(frozen=True)
class Candidate:
    """A division that fits into memory."""

    choice: Choice
    memory: Memory
    #: The bound at a payload rate of a NIC, as a chain through the schedule; and a weaker one, which takes no time.
    least_time: Callable[[float], LeastTime]
    quick_time_s: Callable[[float], float]
    rate_bytes_per_s: float
    _least: dict[float, LeastTime] = field(default_factory=dict)

    def least(self, factor: float) -> LeastTime:
        """The bound at a multiple of the rate."""
        if factor not in self._least:
            self._least[factor] = self.least_time(self.rate_bytes_per_s * factor)
        return self._least[factor]

    def quick_s(self, factor: float) -> float:
        """The weaker bound at a multiple of the rate."""
        return self.quick_time_s(self.rate_bytes_per_s * factor)


@dataclass(frozen=True)
class Estimated:
    """A division whose iteration was estimated."""

    candidate: Candidate
    #: Iteration time by factor of the rate.
    times_s: dict[float, float]

    @property
    def time_s(self) -> float:
        """Iteration time on the network that is asked about."""
        return self.times_s[1.0]

    @property
    def exposed_s(self) -> float:
        """Seconds by which the iteration would be shorter if the network, and links inside machines, cost
        nothing."""
        return max(0.0, self.time_s - self.candidate.least(1.0).compute_and_bubble_s)

    @property
    def bubble_s(self) -> float:
        """Seconds that the busiest stage waits for others in an iteration without communication."""
        least = self.candidate.least(1.0)
        return least.compute_and_bubble_s - least.compute_s


@dataclass(frozen=True)
class FoundDivisions:
    """The result of a search."""

    question: DivisionQuestion
    #: All that were estimated, the fastest first.
    estimated: tuple[Estimated, ...]
    #: Divisions that fit into memory, estimated or not.
    candidates: int
    #: Number of divisions that are left out before anything is estimated, by reason.
    left_out: Counter[str]
    #: Reasons why divisions could not be estimated, by their names.
    refused: dict[str, str]
    #: Whether all that might be the fastest at another rate were estimated there, by factor.
    complete: dict[float, bool]
    cpu_s: float

    @property
    def best(self) -> tuple[Estimated, ...]:
        """The divisions that are shown, the fastest first; behind them the fastest of each family that is not there."""
        best = self.estimated[:BEST]
        families = {each.candidate.choice.family for each in best}
        others = {each.candidate.choice.family: each for each in reversed(self.estimated[BEST:])}
        further = [each for family, each in others.items() if family not in families]
        return (*best, *sorted(further, key=lambda each: each.time_s))

    def fastest_at(self, factor: float) -> Estimated:
        """The fastest division at another rate."""
        return min(self.estimated, key=lambda each: each.times_s[factor])

    def mfu(self, each: Estimated) -> float | None:
        """Share of the GPUs' peak rate that the model's operations take: three forward passes (recomputation does not
        count; no mask is deducted from attention). None where the peak is not known."""
        job, peak = self.question.resolved.job, self._peak_flops_per_s
        if peak is None:
            return None
        return 3 * job.profile.flops * self.question.batch / (each.time_s * self.question.gpus * peak)

    @property
    def _peak_flops_per_s(self) -> float | None:
        device, catalogue = self.question.section.model.device or "", self.question.resolved.catalogue
        return catalogue.device(device).flops_per_s if device in catalogue.devices else None


def search(
    question: DivisionQuestion,
    jobs: int,
    on_done: Callable[[str], None] = lambda _: None,
) -> FoundDivisions:
    """Searches all divisions, in up to `jobs` processes; `on_done` is called with the progress. Raises InputFault if no
    division fits."""
    begun_s = time.process_time()
    on_done("bounding divisions")
    fitting, left_out = candidates(question)
    if not fitting:
        reasons = "; ".join(f"{count:,} {reason}" for reason, count in left_out.items())
        raise InputFault(f"--gpus {question.gpus}: no division of {question.model} fits: {reasons}")
    estimates = _CandidateEstimates(question, jobs, on_done, len(fitting))
    estimates.until_sure(fitting, 1.0, BEST)
    for family in sorted({each.choice.family for each in fitting} - {""}):
        estimates.until_sure([each for each in fitting if each.choice.family == family], 1.0, 1, family=family)
    complete = {factor: estimates.until_sure(fitting, factor, 1, MOST_FURTHER) for factor in FACTORS[1:]}
    if not estimates.done:
        reasons = "; ".join(dict.fromkeys(estimates.refused.values()))
        raise InputFault(f"--gpus {question.gpus}: no division of {question.model} can be estimated: {reasons}")
    found = sorted(estimates.done, key=lambda each: each.time_s)
    spent_s = time.process_time() - begun_s + estimates.others_cpu_s
    return FoundDivisions(question, tuple(found), len(fitting), left_out, estimates.refused, complete, spent_s)


def candidates(question: DivisionQuestion) -> tuple[list[Candidate], Counter[str]]:
    """The divisions that fit into memory, and how many are left out, by reason."""
    found, left_out = choices(question.asked())
    job, limit_bytes = question.resolved.job, question.memory()
    fabric = question.resolved.fabric
    payload_bytes_per_s = fabric.rate_bps / 8 * fabric.goodput_share()
    cuts: dict[tuple[int, int, int], Cut] = {}
    sizes: dict[tuple[int, int, int], list[PieceSizes]] = {}
    fitting = []
    for choice in found:
        shape = choice.pipeline, choice.chunks, choice.experts
        if shape not in cuts:
            cuts[shape] = cut(job.profile, choice.pipeline, choice.experts, choice.chunks, choice.ends)
            sizes[shape] = sizes_of(job.profile, cuts[shape].stages, question.sample_tokens)
        memory = memory_of(choice, sizes[shape], question.sample_tokens)
        if memory.total_bytes > limit_bytes:
            memory = memory_of(choice, sizes[shape], question.sample_tokens, divides_gradients=True)
        if memory.total_bytes > limit_bytes:
            left_out[MEMORY] += 1
            continue
        bound, quick = partial(least_time, job, choice, cuts[shape]), partial(busiest_s, job, choice, cuts[shape])
        fitting.append(Candidate(choice, memory, bound, quick, payload_bytes_per_s))
    sharded, more_left_out = _sharded(question, limit_bytes, payload_bytes_per_s)
    return fitting + sharded, left_out + more_left_out


def _sharded(
    question: DivisionQuestion, limit_bytes: float, payload_bytes_per_s: float
) -> tuple[list[Candidate], Counter[str]]:
    """The ways to shard that fit into memory, and how many are left out, by reason."""
    found, left_out = sharded_choices(question.asked())
    job, fitting = question.resolved.job, []
    for choice in found:
        memory = sharded_memory(job.profile, choice)
        if memory.total_bytes > limit_bytes:
            left_out[MEMORY] += 1
            continue
        bound = partial(sharded_least_time, job, choice)
        fitting.append(Candidate(choice, memory, bound, _whole(bound), payload_bytes_per_s))
    return fitting, left_out


def _whole(bound: Callable[[float], LeastTime]) -> Callable[[float], float]:
    return lambda rate_bytes_per_s: bound(rate_bytes_per_s).iteration_s


@dataclass
class _CandidateEstimates:
    """Estimates as far as they have been made."""

    question: DivisionQuestion
    jobs: int
    on_done: Callable[[str], None]
    candidates: int

    def __post_init__(self) -> None:
        self.done: list[Estimated] = []
        self.refused: dict[str, str] = {}
        self.others_cpu_s = 0.0
        self._tried: set[Choice] = set()

    def until_sure(
        self,
        fitting: Sequence[Candidate],
        factor: float,
        best: int,
        most: int | None = None,
        family: str | None = None,
    ) -> bool:
        """Estimates candidates in the order of their bounds until none of the others can be among the best, or the best of a
        family; returns whether that came before `most` were estimated.

        A candidate's weaker bound stands for its better one until that decides.
        """
        left = [
            (each.quick_s(factor), number, False)
            for number, each in enumerate(fitting)
            if each.choice not in self._tried
        ]
        heapify(left)
        batch: list[Candidate] = []
        made = 0
        while left and left[0][0] < self._limit_s(factor, best, family):
            _, number, is_chain = heappop(left)
            if not is_chain:
                heappush(left, (fitting[number].least(factor).iteration_s, number, True))
                continue
            if most is not None and made >= most:
                return False
            batch.append(fitting[number])
            made += 1
            if len(batch) == self.jobs:
                self._estimate(batch)
                batch = []
        if batch:
            self._estimate(batch)
        return True

    def _limit_s(self, factor: float, best: int, family: str | None) -> float:
        times = sorted(
            each.times_s[factor] for each in self.done if family is None or each.candidate.choice.family == family
        )
        return times[best - 1] if len(times) >= best else float("inf")

    def _estimate(self, batch: Sequence[Candidate]) -> None:
        self.on_done(f"estimating divisions: {len(self.done)} done, {self.candidates:,} fit into memory")
        self._tried |= {each.choice for each in batch}
        sections = [self.question.section_of(each.choice) for each in batch]
        for candidate, result in zip(batch, side_by_side(estimated_times, sections, self.jobs), strict=True):
            if isinstance(result, str):
                self.refused[str(candidate.choice)] = result
            else:
                times_s, cpu_s = result
                self.done.append(Estimated(candidate, times_s))
                self.others_cpu_s += cpu_s if self.jobs > 1 and len(batch) > 1 else 0.0


def estimated_times(section: PointSection) -> tuple[dict[float, float], float] | str:
    """Iteration times at all rates, and the CPU time that they took; or why there are none."""
    begun_s = time.process_time()
    try:
        point = ResolvedPoint(section)
        found = by_class(point)
    except InputFault as fault:
        return str(fault)
    if found is None:
        return "its ranks have no classes"
    times_s = {}
    for factor in FACTORS:
        fabric = replace(point.fabric, rate_bps=point.fabric.rate_bps * factor)
        rule = held_rule(point.unsent_bytes, fabric, buffer_bytes(point.section, fabric))
        times_s[factor] = with_fabric(found, fabric).times(rule).iteration_s
    return times_s, time.process_time() - begun_s
