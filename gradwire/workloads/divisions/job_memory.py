"""The memory that a worker of a job needs by its strategy: the account of `plan`, `estimate` and `compare` alike.

`megatron` is counted piece by piece (workloads/divisions/memory.py). A worker of other strategies has all layers: the states
that the strategy says for each parameter, a transformer's activations of its batch, and what FSDP gathers beside them,
which are the units that `prefetch` permits, the root, and a unit's gradients before they are scattered. Activations of
models without blocks are not counted. What is served has weights and, counted as activations, the caches of a batch.
With `tensor`, activations are counted as with `sequence_parallel`.
"""

from __future__ import annotations

from gradwire.faults import InputFault
from gradwire.workloads.called_strategy import state_bytes_of
from gradwire.workloads.divisions.choices import DivisionChoice
from gradwire.workloads.divisions.memory import Memory, kept_bytes, memory_of, sizes_of
from gradwire.workloads.divisions.sharded_choices import ShardedChoice
from gradwire.workloads.engines.allreduce_plan import BYTES_ON_WIRE
from gradwire.workloads.engines.parallel.segments import cut
from gradwire.workloads.engines.parallel.sharded import ROOT, units_of
from gradwire.workloads.job import Job
from gradwire.workloads.models.profile import Profile
from gradwire.workloads.models.resized import sample_tokens
from gradwire.workloads.strategies.fsdp import FsdpOptions
from gradwire.workloads.strategies.megatron import MegatronOptions
from gradwire.workloads.strategies.serve import ServingOptions, serving_memory_bytes
from gradwire.workloads.strategy import ADAM_BYTES, STATE_BYTES, Options, Strategy


def job_memory(job: Job, strategy: Strategy, options: Options) -> Memory:
    """Returns the memory of the worker that needs most. Raises InputFault as the strategy's division does."""
    if isinstance(options, MegatronOptions):
        return _of_division(job, options)
    if isinstance(options, ServingOptions):
        weights_bytes, cache_bytes = serving_memory_bytes(job, options)
        return Memory(weights_bytes, 0.0, 0.0, cache_bytes)
    state_bytes = state_bytes_of(strategy, job.cluster, options)
    tokens = _tokens(job)
    if state_bytes == STATE_BYTES and tokens:
        state_bytes = ADAM_BYTES
    # Of what a strategy keeps for each parameter, it says only how much it is together.
    states_bytes = job.profile.parameters * state_bytes
    if isinstance(options, FsdpOptions):
        activations_bytes = _kept_bytes(job.profile, tokens, options.recompute) * job.batch / options.microbatches
        return Memory(0.0, 0.0, states_bytes, activations_bytes, _gathered_bytes(job.profile, options))
    return Memory(0.0, 0.0, states_bytes, _kept_bytes(job.profile, tokens) * job.batch)


def sharded_memory(profile: Profile, choice: ShardedChoice) -> Memory:
    """Returns the memory of a GPU of fully sharded data parallelism."""
    states_bytes = profile.parameters * ADAM_BYTES / choice.shard
    activations_bytes = _kept_bytes(profile, sample_tokens(profile), choice.recompute) * choice.samples
    gathered_bytes = _gathered_bytes(profile, FsdpOptions(**choice.options))
    return Memory(0.0, 0.0, states_bytes, activations_bytes, gathered_bytes)


def _kept_bytes(profile: Profile, tokens: int, recompute: str = "none") -> float:
    """Returns the bytes of a sample's activations; 0 for models without tokens."""
    if not tokens:
        return 0.0
    if recompute == "none":
        return sum(kept_bytes(layer, tokens) for layer in profile.layers) * tokens
    (sizes,) = sizes_of(profile, cut(profile, 1).stages, tokens)
    return (sizes.kept_bytes[recompute] + sizes.again_bytes[recompute]) * tokens


def _tokens(job: Job) -> int:
    """Tokens of a sample; 0 for models that are no transformers."""
    try:
        return sample_tokens(job.profile)
    except InputFault:
        return 0


def _gathered_bytes(profile: Profile, options: FsdpOptions) -> float:
    units = units_of(profile)
    root = sum(unit.values for unit in units if unit.name == ROOT)
    blocks = sorted((unit.values for unit in units if unit.name != ROOT), reverse=True)
    held = sum(blocks if not options.reshard_after_forward else blocks[: 1 + options.prefetch])
    gradients = max(blocks[:1], default=root)
    return (root + held) * BYTES_ON_WIRE[options.parameters] + gradients * BYTES_ON_WIRE[options.gradients]


def _of_division(job: Job, options: MegatronOptions) -> Memory:
    replica = options.tensor * options.context * options.stages
    data = max(1, job.cluster.workers // replica)
    samples = options.replica_batch or job.batch * replica
    choice = DivisionChoice(
        data=data,
        tensor=options.tensor,
        pipeline=options.stages,
        chunks=options.chunks,
        samples=max(1, samples // options.microbatches),
        microbatches=options.microbatches,
        recompute="full" if options.recompute == "full" else "none",
        ends=(options.first_blocks, options.last_blocks),
        context=options.context,
        experts=options.experts,
    )
    pieces = cut(job.profile, options.stages, options.experts, options.chunks, choice.ends).stages
    tokens = sample_tokens(job.profile)
    sizes = sizes_of(job.profile, pieces, tokens)
    return memory_of(choice, sizes, tokens, divides_optimizer=options.sharded_optimizer)
