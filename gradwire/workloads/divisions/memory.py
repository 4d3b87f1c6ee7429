"""Memory that a GPU needs for its piece of a divided model: parameters, gradients, the optimizer's states, and
activations.

Sources: Rajbhandari et al., ZeRO, SC 2020 (states of mixed-precision Adam: 12 bytes for each parameter); Megatron-LM's
distributed optimizer (parameters in bf16, gradients in fp32: 6 + 12 / d bytes for each parameter and d replicas);
Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, 2022, sections 4.1 to 4.3 and 5
(activations). Their accounting is followed layer by layer, so that it holds for gated feed-forward parts and
grouped-query attention too: a product keeps its input, attention its queries, keys and values, a non-linearity its
input, a normalisation its input, all of two bytes; the loss keeps logits of four. Of GPT that makes 32 of the 34 s b h
bytes of a block; the other two are dropout's masks, which today's language models do not have. Scores, 5 a s² b bytes,
are not kept: a fused attention computes them again in its backward pass (Dao et al., FlashAttention, 2022). With
sequence parallelism all of that is divided by the tensor group (their equation 4); what is gathered for a product is not
kept, but gathered once more. Context parallelism divides activations by tokens, and expert parallelism the experts'
states; each of its workers computes as many tokens' choices as before.

Left out: buffers of libraries, what allocators lose, and gradients' buckets under way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gradwire.datatypes.plan import Int64
from gradwire.workloads.divisions.choices import DivisionChoice
from gradwire.workloads.engines.parallel.division import passes_of_stage
from gradwire.workloads.engines.parallel.segments import LayerSegment, activation_values
from gradwire.workloads.models.profile import Layer, LayerKind, Profile

PARAMETER_BYTES, GRADIENT_BYTES, OPTIMIZER_BYTES = 2, 4, 12
ACTIVATION_BYTES, LOGIT_BYTES = 2, 4
FRAGMENTS = 0.0
"""Share of what is needed that fragments take on top. Nobody prints one that holds for all: PyTorch's allocator grows its segments where
they end (`expandable_segments`, https://pytorch.org/docs/stable/notes/cuda.html), and the published runs that
tests/unit/workloads/divisions/test_published_memory.py holds this account to leave room for a few per cent at most."""
KEEPS_OUTPUT = ("/qkv", "/query_up", "/kv_up", "/up")
"""Products whose outputs are kept as well: attention and non-linearities need them."""


def kept_bytes(layer: Layer, tokens: int) -> float:
    """Returns the bytes of a token's activations that a layer keeps for its backward pass. tokens: of a sample."""
    if layer.name.endswith("/experts"):
        return _experts_bytes(layer, tokens)
    if layer.kind is LayerKind.NORM:
        return ACTIVATION_BYTES * (layer.elements_in / tokens or sum(t.parameters for t in layer.tensors[:1]))
    if layer.kind is LayerKind.EMBEDDING or not layer.tensors:
        return 0.0
    products = [tensor for tensor in layer.tensors if tensor.parameters > tensor.rows]
    if not products:
        return 0.0
    outputs = sum(tensor.parameters // tensor.rows for tensor in products)
    kept = ACTIVATION_BYTES * products[0].rows
    if layer.name == "lm_head":
        return kept + LOGIT_BYTES * outputs
    return kept + (ACTIVATION_BYTES * outputs if layer.name.endswith(KEEPS_OUTPUT) else 0)


def _experts_bytes(layer: Layer, tokens: int) -> float:
    """Returns the bytes that the experts of a token keep: for each, its input, the inputs of the non-linearity, and the
    second product's input."""
    weights = [tensor for tensor in layer.tensors if tensor.name.endswith("weights")]
    of_one = [tensor for tensor in weights if "/expert0/" in tensor.name]
    # Where the matrices of all experts are one tensor, experts are its first axis.
    sizes = [t.parameters for t in of_one] or [t.parameters // t.rows for t in weights]
    width = of_one[0].rows if of_one else layer.elements_in / tokens
    per_token = layer.flops / (2 * tokens * sum(sizes))
    return per_token * ACTIVATION_BYTES * (width + sum(sizes) / width)


@dataclass(frozen=True)
class Memory:
    """Bytes of a GPU at its fullest."""

    weights_bytes: float
    gradients_bytes: float
    optimizer_bytes: float
    activations_bytes: float
    #: What a strategy gathers or sums beside them.
    buffers_bytes: float = 0.0
    #: Whether replicas divide gradients; otherwise each has those of all its parameters.
    divides_gradients: bool = False

    @property
    def states_bytes(self) -> float:
        """Returns the bytes of weights, gradients and the optimizer's states."""
        return self.weights_bytes + self.gradients_bytes + self.optimizer_bytes

    @property
    def total_bytes(self) -> float:
        """Returns all bytes, with what fragments take of them (`FRAGMENTS`)."""
        needed = self.states_bytes + self.activations_bytes + self.buffers_bytes
        return needed * (1 + FRAGMENTS)


@dataclass(frozen=True)
class PieceSizes:
    """The sizes that decide how much memory a piece of the model takes."""

    #: Parameters, without experts' and of experts.
    values: int
    expert_values: int
    #: Bytes that a token of a microbatch keeps while it is under way, by the kind of recomputation.
    kept_bytes: dict[str, float]
    #: Bytes that a token of one block needs in addition while they are computed again.
    again_bytes: dict[str, float]


def sizes_of(profile: Profile, pieces: Sequence[Sequence[LayerSegment]], tokens: int) -> list[PieceSizes]:
    """Returns the sizes of each piece of the model, as `cut` has them. tokens: of a sample."""
    kept = [kept_bytes(layer, tokens) for layer in profile.layers]
    between_bytes = ACTIVATION_BYTES * activation_values(profile) / tokens
    found = []
    for piece in pieces:
        of_blocks: dict[int, float] = {}
        for segment in piece:
            of_segment = sum(kept[layer] for layer in segment.layers)
            of_blocks[segment.block] = of_blocks.get(segment.block, 0.0) + of_segment
        outside = of_blocks.pop(-1, 0.0)
        whole, inputs = outside + sum(of_blocks.values()), outside + between_bytes * len(of_blocks)
        experts = sum(segment.values for segment in piece if segment.routed_values)
        values = sum(segment.values for segment in piece) - experts
        again = {"none": 0.0, "full": max(of_blocks.values(), default=0.0)}
        found.append(PieceSizes(values, experts, {"none": whole, "full": inputs}, again))
    return found


def memory_of(
    choice: DivisionChoice,
    sizes: Sequence[PieceSizes],
    tokens: int,
    *,
    divides_optimizer: bool = True,
    divides_gradients: bool = False,
) -> Memory:
    """Memory of the stage that needs most. sizes: of the model's pieces; tokens: of a sample.

    divides_gradients: among replicas, as Llama 3 was trained ("shards optimizer states and gradients", The Llama 3 Herd of Models,
    2024, section 3.3.2).
    """
    shared = choice.tensor * choice.context
    stages: list[Memory] = []
    for stage in range(choice.pipeline):
        of_stage = sizes[stage :: choice.pipeline]
        plain = sum(piece.values for piece in of_stage) / choice.tensor
        experts = sum(piece.expert_values for piece in of_stage) / choice.experts / choice.tensor
        divided = plain / choice.holders + experts / choice.expert_holders
        whole = plain + experts
        flights = in_flight(choice.pipeline, stage, choice.microbatches, choice.chunks)
        most = float((flights @ np.array([piece.kept_bytes[choice.recompute] for piece in of_stage])).max())
        again = max(piece.again_bytes[choice.recompute] for piece in of_stage)
        stages.append(
            Memory(
                weights_bytes=whole * PARAMETER_BYTES,
                gradients_bytes=(divided if divides_gradients else whole) * GRADIENT_BYTES,
                optimizer_bytes=(divided if divides_optimizer else whole) * OPTIMIZER_BYTES,
                activations_bytes=(most + again) * tokens * choice.samples / shared,
                divides_gradients=divides_gradients,
            )
        )
    return max(stages, key=lambda each: each.total_bytes)


@lru_cache(maxsize=4096)
def in_flight(stages: int, stage: int, microbatches: int, chunks: int) -> Int64:
    """Microbatches whose activations a stage keeps of each of its chunks, a row for each moment when it begins to give
    some back. The schedule repeats after the first ones, so that more than four rounds of stages add nothing."""
    counted = min(microbatches, 4 * stages)
    now, found = [0] * chunks, set[tuple[int, ...]]()
    for one in passes_of_stage("1f1b", stages, stage, counted, chunks):
        if not one.forward:
            found.add(tuple(now))
        now[one.chunk] += 1 if one.forward else -1
    return np.array(sorted(found), np.int64)
