"""The plan of a model that is served: an iteration is all of its requests, from the first one's arrival to the last one's last token.

1. A request arrives at all workers of its instance after so much time, which passes in a stream in which nothing computes.
2. The instance prefills it, and sends its cache of keys and values to the replica that decodes it: of each layer as soon as it is computed,
   or all of it at the end (Splitwise, ISCA 2024, section 4.3, has both). Its first token follows the prefill.
3. The replica's first step with the request waits for the cache and for the first token. In each step, workers that share products sum
   activations behind both halves of a block, by rings: over the network as messages; within a machine, the time of that is part of the
   computation. Replicas that divide experts send each other their tokens by all-to-alls before each layer of experts and behind it
   (DeepSeek-V3, 2024, section 3.4.2).
4. When all requests have their last tokens, workers begin anew together, so that iterations do not overlap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil

from gradwire.datatypes.plan import CONTROL_CLASS, LATENCY_LANE, Combine, Moment, Plan, Role
from gradwire.workloads.builder import CONTROL_BYTES, PlanBuilder
from gradwire.workloads.engines.allreduce_transfers import GATE_LANE
from gradwire.workloads.engines.parallel.worker_programs import GroupCollectives, Series, WorkerProgram
from gradwire.workloads.engines.serving.batching import CacheWay, DecodingStep, ServingPace, Timetable, timetable
from gradwire.workloads.engines.serving.deployment import Deployment, Replica, line_between, ring_s, shares_of_cache
from gradwire.workloads.engines.serving.model_work import Batch, Leg, ModelWork, ProductShare
from gradwire.workloads.engines.serving.requests import Request
from gradwire.workloads.job import Job

ARRIVAL_LANE = LATENCY_LANE + 1
"""The stream in which requests arrive. The one before is that of latencies of calls."""
ACTIVATION_BYTES = 2
"""16 bits."""
AT_ONCE = CacheWay(0.0, 0.0, ())


@dataclass(frozen=True)
class Service:
    """The service of a model: who serves it, and what is asked."""

    deployment: Deployment
    requests: Sequence[Request]
    #: Most requests of a replica's batch.
    batch: int
    #: Whether each layer's cache is sent when it is there, or the whole cache at the end.
    by_layer: bool
    #: Bytes of a token's activations on the way to an expert, and back, for each of its features.
    dispatch_bytes: float
    combine_bytes: float
    #: Whether tokens are also brought to experts that all of them share.
    route_shared: bool
    #: Seconds that a step computes, whatever its batch; None: as the device's rates have it.
    step_s: float | None
    memory_bytes_per_s: float
    #: Traffic class of caches.
    cache_class: int


class ServingPlan:
    """The plan under construction."""

    def __init__(self, job: Job, name: str, work: ModelWork, service: Service) -> None:
        self.job, self.work, self.service = job, work, service
        deployment, cluster = service.deployment, job.cluster
        deployment.check(cluster)
        self.prefills, self.decodes = deployment.prefill_replicas(cluster), deployment.decode_replicas(cluster)
        self.builder = PlanBuilder(name)
        self.hosts = [cluster.worker_host(worker) for worker in range(cluster.workers)]
        self.ranks = [self.builder.rank(Role.WORKER, host) for host in self.hosts]
        self.begins = [self.builder.compute(rank) for rank in self.ranks]
        self.programs = [WorkerProgram(rank, self.begins[rank]) for rank in self.ranks]
        self.collectives = GroupCollectives(self.builder, job)
        self._queues: dict[tuple[int, int, int], int] = {}
        self._series: dict[Replica, Series] = {}
        self._computed_s = [0.0] * len(self.ranks)
        #: The last arrival at each instance that prefills, or at each replica that decodes: op of each rank, and time.
        self._arrived: dict[Replica, tuple[list[int], int]] = {}
        #: Each request's first token, where it is decoded.
        self._first_tokens: dict[int, int] = {}
        #: When each request's further tokens would be there by computation alone.
        self._alone: list[deque[float]] = []
        #: Messages and chunks of each request's cache, by receiving rank.
        self._caches: dict[int, dict[int, list[tuple[int, int]]]] = {}

    def compile(self) -> Plan:
        """Builds the plan."""
        self._expect_least()
        table, alone = self._timetable(network=True), self._timetable(network=False)
        self._alone = [deque(tokens) for tokens in alone.tokens_s()]
        for prefill in table.prefills:
            target = self.decodes[table.replica[prefill.request]] if table.replica[prefill.request] >= 0 else None
            self._prefill(prefill.request, self.prefills[prefill.instance], target)
        arriving = self._arrive_decoding(table) if not table.prefills else {}
        for step in table.steps:
            self._step(step, arriving)
        for series in self._series.values():
            self.collectives.transfer(series)
        self._begin_together()
        return self.builder.build(min(self._computed_s), len(self.service.requests))

    # Time

    @cached_property
    def prompt_legs(self) -> list[Leg]:
        """The legs of a prompt, in order."""
        sums = any(replica.is_spread for replica in self.prefills)
        return self.work.legs(1, sums=sums, caches=self.service.by_layer)

    @cached_property
    def step_legs(self) -> list[Leg]:
        """The legs of a step, in order."""
        sums = any(replica.is_spread for replica in self.decodes)
        return self.work.legs(
            self.service.deployment.experts, sums=sums, caches=False, route_shared=self.service.route_shared
        )

    def _timetable(self, *, network: bool) -> Timetable:
        """The timetable by which requests are placed, or the one without a network, in which messages take no time."""
        service, deployment = self.service, self.service.deployment
        pace = ServingPace(self._prompt_s, self._cache_way, service.by_layer, self._counted(self._step_s))
        if not network:
            pace = ServingPace(self._prompt_computed_s, lambda *_: AT_ONCE, service.by_layer, self._step_computed_s)
        return timetable(
            service.requests, deployment.prefills, deployment.decodes, deployment.experts, service.batch, pace
        )

    def _expect_least(self) -> None:
        """Says the least number of ops before any is made: prompts, and as many steps as the longest answer, or as all tokens in full
        batches, have. What a timetable has beyond that, `_counted` says."""
        requests, deployment = self.service.requests, self.service.deployment
        first = 1 if deployment.prefills else 0
        tokens = [request.output_tokens - first for request in requests]
        replicas = deployment.decodes * deployment.experts
        steps = max(*tokens, -(-sum(tokens) // (self.service.batch * replicas)), 0)
        prompts = len(requests) * len(self.prompt_legs) * deployment.prefill_tensor if deployment.prefills else 0
        self.builder.expect(prompts + steps * len(self.step_legs) * deployment.experts * deployment.decode_tensor)

    def _counted(self, step_s: Callable[[Sequence[Batch]], float]) -> Callable[[Sequence[Batch]], float]:
        """Returns the same time of a step, and has the builder expect, step by step, what replicas compute in it and send to experts."""
        tensor, ops = self.service.deployment.decode_tensor, 0
        routed = sum(leg.routed > 0 for leg in self.step_legs)

        def counted_s(batches: Sequence[Batch]) -> float:
            nonlocal ops
            senders = sum(batch.requests > 0 for batch in batches)
            ops += tensor * (len(self.step_legs) * len(batches) + 4 * routed * senders * (len(batches) - 1))
            self.builder.expect(ops)
            return step_s(batches)

        return counted_s

    def _prompt_s(self, tokens: int) -> float:
        sums_s = (self._sum_s(leg, self.prefills[0], tokens) for leg in self.prompt_legs)
        return self._prompt_computed_s(tokens) + sum(sums_s)

    def _prompt_computed_s(self, tokens: int) -> float:
        return sum(self._prompt_leg_s(leg, tokens) for leg in self.prompt_legs)

    def _prompt_leg_s(self, leg: Leg, tokens: int) -> float:
        """Computation of a leg, with sums that stay within the machine."""
        tensor = self.service.deployment.prefill_tensor
        return self.work.prompt_s(leg, tokens, tensor) + self._inner_sums_s(leg, self.prefills[0], tokens)

    def _inner_sums_s(self, leg: Leg, replica: Replica, tokens: int) -> float:
        """Time of the sums of a leg among workers of one machine."""
        if leg.ends_with_sum or len(replica.ranks) == 1:
            return 0.0
        size_bytes = tokens * self.work.width * ACTIVATION_BYTES
        return leg.sums * ring_s(size_bytes, len(replica.ranks), line_between(self.job, inside=True))

    def _sum_s(self, leg: Leg, replica: Replica, tokens: int) -> float:
        """Time of a sum over the network behind a leg, by itself."""
        if not leg.ends_with_sum:
            return 0.0
        size_bytes = tokens * self.work.width * ACTIVATION_BYTES
        return ring_s(size_bytes, len(replica.ranks), line_between(self.job, inside=False))

    def _cache_way(self, tokens: int, instance: int, replica: int) -> CacheWay:
        """Returns the way of a cache to the replica that decodes it, between the ports of both's first workers."""
        source, target = self.prefills[instance].ranks[0], self.decodes[replica].ranks[0]
        inside = self.hosts[source] == self.hosts[target]
        line = line_between(self.job, inside=inside)
        layers = self.work.attention_layers
        size_bytes = layers * self.work.cache_bytes * tokens
        by_ports = (
            1
            if self.job.cluster.nics_per_host == 1
            else min(len(self.prefills[0].ranks), self.job.cluster.nics_per_host)
        )
        alone_s = size_bytes / by_ports / line.bytes_per_s
        ports = [(way, self.job.cluster.worker_port(worker)) for way, worker in (("out", source), ("in", target))]
        return CacheWay(alone_s, alone_s / layers if self.service.by_layer else alone_s, () if inside else tuple(ports))

    def _step_s(self, batches: Sequence[Batch]) -> float:
        routed_line = line_between(self.job, inside=len({self.hosts[each.ranks[0]] for each in self.decodes}) == 1)
        requests = max(batch.requests for batch in batches)
        total_s = self._step_computed_s(batches)
        for leg in self.step_legs:
            sent = [
                self._routed_bytes(leg, requests, size)
                for size in (self.service.dispatch_bytes, self.service.combine_bytes)
            ]
            total_s += self._sum_s(leg, self.decodes[0], requests)
            total_s += (len(batches) - 1) * sum(sent) / routed_line.bytes_per_s
        return total_s

    def _step_computed_s(self, batches: Sequence[Batch]) -> float:
        slowest = max(batches, key=lambda batch: (batch.requests, batch.cached_tokens))
        return sum(self._step_leg_s(leg, slowest, batches) for leg in self.step_legs)

    def _step_leg_s(self, leg: Leg, own: Batch, batches: Sequence[Batch]) -> float:
        """Computation of a leg of a step, with sums that stay within the machine."""
        deployment = self.service.deployment
        inner_s = self._inner_sums_s(leg, self.decodes[0], own.requests)
        if self.service.step_s is not None:
            return self.service.step_s * self.work.forward_share(leg) + inner_s
        # Experts get an even share of all replicas' tokens.
        brought = Batch(-(-sum(batch.requests for batch in batches) // len(batches)), 0) if leg.routed else own
        share = ProductShare(deployment.decode_tensor, deployment.experts)
        return self.work.step_s(leg, brought, share, self.service.memory_bytes_per_s) + inner_s

    # Prefill

    def _prefill(self, number: int, replica: Replica, target: Replica | None) -> None:
        """A request's turn, and its cache on its way."""
        request = self.service.requests[number]
        self._arrive(number, replica)
        for leg in self.prompt_legs:
            self._compute(replica, self._prompt_leg_s(leg, request.prompt_tokens))
            if leg.caches and target is not None and self.service.by_layer:
                self._send_cache(number, replica, target, leg.caches)
            if leg.ends_with_sum:
                self._sum(replica, request.prompt_tokens)
        if target is not None and not self.service.by_layer:
            self._send_cache(number, replica, target, sum(leg.caches for leg in self.prompt_legs))
        last = self.programs[replica.ranks[0]].last
        self._token(number, last)
        if target is not None:
            self._first_tokens[number] = self._tell(replica.ranks[0], target.ranks[0], last)

    def _arrive(self, number: int, replica: Replica) -> list[int]:
        """The request's arrival at each worker of a replica, which its next op waits for."""
        at_ns = round(self.service.requests[number].arrival_s * 1e9)
        before, before_ns = self._arrived.get(replica, ([self.begins[rank] for rank in replica.ranks], 0))
        arrivals = [self.builder.compute(rank, (at_ns - before_ns) / 1e9, lane=ARRIVAL_LANE) for rank in replica.ranks]
        for rank, op, previous in zip(replica.ranks, arrivals, before, strict=True):
            self.builder.depend(op, previous)
            self.programs[rank].arrivals.append(op)
        self._arrived[replica] = arrivals, at_ns
        self.builder.moment(arrivals[0], Moment.ARRIVED, number, self.service.requests[number].arrival_s)
        return arrivals

    def _send_cache(self, number: int, source: Replica, target: Replica, layers: int) -> None:
        """The cache of the layers of attention that were computed last."""
        size_bytes = layers * self.service.requests[number].prompt_tokens * self.work.cache_bytes
        tensor = self.builder.tensor(f"cache of request {number}")
        if number not in self._caches:
            self.builder.moment(self.programs[source.ranks[0]].last, Moment.SENT, number, 0.0)
        there = self._caches.setdefault(number, {rank: [] for rank in target.ranks})
        pairs = shares_of_cache(len(source.ranks), len(target.ranks), divided=self.work.divides_cache)
        for src, dst, share in pairs:
            sender, receiver = source.ranks[src], target.ranks[dst]
            chunk = self.builder.chunk(tensor, ceil(size_bytes * share), [sender], [receiver])
            last = self.programs[sender].last
            self.builder.produces(last, chunk)
            there[receiver].append((self._send((sender, receiver), chunk, last, self.service.cache_class), chunk))

    # Decoding

    def _arrive_decoding(self, table: Timetable) -> dict[int, list[int]]:
        """Arrivals of requests whose caches are where they are decoded, by request."""
        arrivals = {}
        for number, replica in enumerate(table.replica):
            arrivals[number] = self._arrive(number, self.decodes[replica])
        for program in self.programs:
            program.arrivals = []  # each is waited for by the step that it joins
        return arrivals

    def _step(self, step: DecodingStep, arriving: dict[int, list[int]]) -> None:
        experts = self.service.deployment.experts
        replicas = self.decodes[step.instance * experts : (step.instance + 1) * experts]
        for replica, batch in zip(replicas, step.batches, strict=True):
            for number in batch:
                if number in step.joined:
                    self._join(number, replica, arriving)
        for leg in self.step_legs:
            if leg.routed:
                self._exchange(replicas, step, leg, self.service.dispatch_bytes, to_experts=True)
            for replica, own in zip(replicas, step.work, strict=True):
                self._compute(replica, self._step_leg_s(leg, own, step.work))
            if leg.routed:
                self._exchange(replicas, step, leg, self.service.combine_bytes, to_experts=False)
            if leg.ends_with_sum:
                for replica, own in zip(replicas, step.work, strict=True):
                    self._sum(replica, max(1, own.requests))
        for replica, batch in zip(replicas, step.batches, strict=True):
            ends = self._close(replica)
            for number in batch:
                self._token(number, ends)

    def _join(self, number: int, replica: Replica, arriving: dict[int, list[int]]) -> None:
        """Makes the next step of a replica wait for a request's cache; its workers begin it together."""
        gates = []
        for index, rank in enumerate(replica.ranks):
            gate = self.builder.compute(rank, lane=GATE_LANE)
            self.builder.depend(gate, *(arriving[number][index : index + 1] if arriving else ()))
            self.builder.depend(
                gate, *(self._first_tokens[number],) if rank == replica.ranks[0] and not arriving else ()
            )
            for recv, chunk in self._caches.get(number, {}).get(rank, ()):
                self.builder.depend(gate, recv)
                self.builder.needs(gate, chunk)
            gates.append(gate)
        all_there = self._meet(replica.ranks, gates)
        for rank, op in zip(replica.ranks, all_there, strict=True):
            self.programs[rank].arrivals.append(op)
        if not arriving:
            self.builder.moment(all_there[0], Moment.CACHED, number, 0.0)

    def _exchange(
        self, replicas: Sequence[Replica], step: DecodingStep, leg: Leg, feature_bytes: float, *, to_experts: bool
    ) -> None:
        """An all-to-all among the workers with the same share of the replicas' products."""
        tensor = self.builder.tensor(f"tokens {'to' if to_experts else 'from'} experts")
        lasts = {rank: self.programs[rank].last for replica in replicas for rank in replica.ranks}
        for src, source in enumerate(replicas):
            # Each begins with the one behind it, so that no two begin with the same.
            for dst in (*range(src + 1, len(replicas)), *range(src)):
                # A token goes from its replica to an expert, and comes back from there.
                target, owner = replicas[dst], src if to_experts else dst
                size_bytes = self._routed_bytes(leg, step.work[owner].requests, feature_bytes)
                if not size_bytes:
                    continue
                for sender, receiver in zip(source.ranks, target.ranks, strict=True):
                    chunk = self.builder.chunk(tensor, size_bytes, [sender], [receiver])
                    self.builder.produces(lasts[sender], chunk)
                    recv = self._send((sender, receiver), chunk, lasts[sender], 0)
                    self.programs[receiver].arrivals.append(recv)
                    self.programs[receiver].pending.append(chunk)

    def _routed_bytes(self, leg: Leg, requests: int, feature_bytes: float) -> int:
        """Bytes that a worker sends to one other for its experts, or gets back."""
        deployment = self.service.deployment
        values = requests * leg.routed * self.work.width / deployment.experts / deployment.decode_tensor
        return ceil(values * feature_bytes)

    def _close(self, replica: Replica) -> int:
        """The op of the replica's first worker that ends a step: it also waits for tokens that come back from experts."""
        for rank in replica.ranks:
            program = self.programs[rank]
            if program.arrivals:
                program.follow(self.builder, self.builder.compute(rank, lane=GATE_LANE))
        return self.programs[replica.ranks[0]].last

    # Ops

    def _token(self, number: int, op: int) -> None:
        """A request's next token."""
        self.builder.moment(op, Moment.TOKEN, number, self._alone[number].popleft())

    def _compute(self, replica: Replica, duration_s: float) -> None:
        for rank in replica.ranks:
            op = self.builder.compute(rank, duration_s * self.job.relative_time(rank))
            self._computed_s[rank] += duration_s
            self.programs[rank].follow(self.builder, op)

    def _sum(self, replica: Replica, tokens: int) -> None:
        """A ring allreduce of activations over the network; its workers continue when they have the sum."""
        series = self._series.setdefault(replica, Series(list(replica.ranks)))
        share_bytes = -(-tokens * self.work.width // len(replica.ranks)) * ACTIVATION_BYTES
        started = [self.programs[rank].last for rank in replica.ranks]

        def needed(rank: int, chunk: int) -> None:
            self.programs[rank].pending.append(chunk)

        self.collectives.add(series, -1, "sum of activations", share_bytes, started, needed)
        for rank, done in zip(replica.ranks, series.done[-1], strict=True):
            self.programs[rank].last = done

    def _send(self, pair: tuple[int, int], chunk: int, after: int, traffic_class: int) -> int:
        """A message by the pair's queue of that class; returns its RECV."""
        size_bytes = int(self.builder.chunk_sizes([chunk])[0])
        inside = self.hosts[pair[0]] == self.hosts[pair[1]]
        latency_s = self.job.costs.message_s(size_bytes, inside=inside)
        send, recv = self.builder.message(
            self._queue(pair, traffic_class),
            pair[1],
            size_bytes,
            chunk=chunk,
            combine=Combine.COPY,
            traffic_class=traffic_class,
            latency_s=latency_s,
        )
        self.builder.depend(send, after)
        return recv

    def _queue(self, pair: tuple[int, int], traffic_class: int) -> int:
        key = (*pair, traffic_class)
        if key not in self._queues:
            self._queues[key] = self.builder.queue(pair[0])
        return self._queues[key]

    def _meet(self, ranks: Sequence[int], after: Sequence[int]) -> list[int]:
        """Tokens by which ranks wait for an op of each of them; returns what each waits for. The first rank hears of all."""
        first, *others = ranks
        met = self.builder.compute(first, lane=GATE_LANE)
        self.builder.depend(met, after[0])
        found = [met]
        for rank, op in zip(others, after[1:], strict=True):
            self.builder.depend(met, self._tell(rank, first, op))
            found.append(self._tell(first, rank, met))
        return found

    def _tell(self, src: int, dst: int, after: int) -> int:
        """A token without data from one rank to another; returns its RECV."""
        send, told = self.builder.message(self._queue((src, dst), CONTROL_CLASS), dst, CONTROL_BYTES)
        self.builder.depend(send, after)
        return told

    def _begin_together(self) -> None:
        """Ends each worker's iteration when all have ended theirs."""
        closed = []
        for program in self.programs:
            end = self.builder.compute(program.rank, lane=GATE_LANE)
            program.follow(self.builder, end)
            closed.append(end)
        for rank, met in zip(self.ranks, self._meet(self.ranks, closed), strict=True):
            end = self.builder.compute(rank)
            self.builder.depend(end, met)
            self.builder.depend(self.begins[rank], end, lag=1)
            self.builder.iteration(rank, self.begins[rank], end)
