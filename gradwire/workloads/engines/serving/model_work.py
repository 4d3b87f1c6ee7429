"""The work of a served model: how long its layers compute on a prompt, and in a step that adds a token to each of a batch; and how large
its cache of keys and values is.

A prompt takes the device's time of training's forward pass, per token, and per pair of tokens where tokens look at one another. What is
behind the last block is computed for the last token alone. A step takes the longer of two: its operations at the same speed, or reading
the weights and the caches of its batch once from the device's memory at the rate of its data sheet (the two limits of Pope et al.,
Efficiently Scaling Transformer Inference, MLSys 2023, section 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradwire.faults import InputFault
from gradwire.workloads.engines.parallel.ring_attention import QKV, key_value_values
from gradwire.workloads.engines.parallel.segments import LayerSegment, activation_values, cut, experts_of
from gradwire.workloads.job import Job
from gradwire.workloads.models.profile import LayerKind, Profile
from gradwire.workloads.models.resized import BLOCK, SCORES, block_count, sample_tokens

EXPERTS = "/experts"
LATENT = "/kv_down"
"""Endings of the names of the layers that have a mixture's experts, and that yield what latent attention keeps."""
ATTENDS = (SCORES, "/select")


@dataclass(frozen=True)
class Leg:
    """Layers that follow one another without an exchange."""

    layers: tuple[int, ...]
    #: Layers of attention among them, whose keys and values are there at the end.
    caches: int
    #: Sums of what workers yield that share the layers, and whether the one behind them goes over the network.
    sums: int
    ends_with_sum: bool
    #: Experts that each token is brought to before the layers, and back from behind them; 0 if it stays.
    routed: int = 0


@dataclass(frozen=True)
class Batch:
    """The requests that a step of one replica adds tokens to."""

    requests: int
    #: Tokens of all caches together.
    cached_tokens: int


@dataclass(frozen=True)
class ProductShare:
    """A worker's share of a model."""

    #: Workers that share each product.
    tensor: int
    #: Replicas that experts are divided among.
    experts: int = 1


class ModelWork:
    """The work of the model of a job. Raises InputFault for a model that is not a language model of one stack of blocks."""

    def __init__(self, job: Job, *, weight_bytes: float, cache_bytes: float) -> None:
        """weight_bytes, cache_bytes: of each parameter, and of each value of a cache."""
        self.job, self.profile = job, job.profile
        if not block_count(self.profile):
            raise InputFault(
                f"model.name = '{self.profile.name}': is not a language model; take one, such as llama3-8b"
            )
        self.tokens = sample_tokens(self.profile)
        self.width = activation_values(self.profile) // self.tokens
        self._weight_bytes = weight_bytes
        self.divides_cache = not any(layer.name.endswith(LATENT) for layer in self.profile.layers)
        #: Bytes of one token's keys and values of one layer of attention.
        self.cache_bytes = cache_values(self.profile, self.width) * cache_bytes
        self._behind = 1 + max(number for number, layer in enumerate(self.profile.layers) if BLOCK.match(layer.name))

    def legs(self, experts: int, *, sums: bool, caches: bool, route_shared: bool = False) -> list[Leg]:
        """The model in order. experts: replicas that experts are divided among. sums: whether workers that share products exchange sums
        over the network; caches: whether a leg ends with each layer of attention. route_shared: whether tokens are also brought to the
        experts that all of them share."""
        found: list[Leg] = []
        joined: list[LayerSegment] = []
        (segments,) = cut(self.profile, 1, experts).stages
        for segment in segments:
            if segment.routed_values:
                found += self._leg(joined) if joined else []
                shared = route_shared and any(
                    "/shared/" in self.profile.layers[layer].name for layer in _half(segments, segment)
                )
                routed = segment.per_token + int(shared)
                found += self._leg([segment], routed=routed)
                joined = []
                continue
            joined.append(segment)
            ends = (sums and segment.sums_outputs) or (caches and self._caches(segment.layers))
            if ends:
                found += self._leg(joined, ends_with_sum=sums and segment.sums_outputs)
                joined = []
        return found + (self._leg(joined) if joined else [])

    @property
    def attention_layers(self) -> int:
        """Layers that keep keys and values."""
        return self._caches(range(len(self.profile.layers)))

    def _leg(self, segments: Sequence[LayerSegment], *, ends_with_sum: bool = False, routed: int = 0) -> list[Leg]:
        layers = tuple(layer for segment in segments for layer in segment.layers)
        sums = sum(segment.sums_outputs for segment in segments)
        return [Leg(layers, self._caches(layers), sums, ends_with_sum, routed)]

    def _caches(self, layers: Sequence[int]) -> int:
        return sum(self._attends(layer) for layer in layers)

    def _attends(self, layer: int) -> bool:
        return self.profile.layers[layer].name.endswith(ATTENDS)

    def prompt_s(self, leg: Leg, tokens: int, tensor: int) -> float:
        """Seconds that one of so many workers computes on a prompt."""
        total_s = 0.0
        for layer in leg.layers:
            ratio = (1 if layer >= self._behind else tokens) / self.tokens
            total_s += self._sample_s(layer) * (ratio * ratio if self._attends(layer) else ratio)
        return total_s / tensor

    def _sample_s(self, layer: int) -> float:
        """Seconds of a layer's forward pass over a sample."""
        return self.job.compute.forward_s[layer] / self.job.batch

    def step_s(self, leg: Leg, batch: Batch, share: ProductShare, memory_bytes_per_s: float) -> float:
        """Seconds that one worker computes in a step."""
        computed_s = 0.0
        read_bytes = leg.caches * batch.cached_tokens * self.cache_bytes / (share.tensor if self.divides_cache else 1)
        for layer in leg.layers:
            sample_s = self._sample_s(layer) / share.tensor
            pairs = batch.cached_tokens / self.tokens**2 if self._attends(layer) else batch.requests / self.tokens
            computed_s += sample_s * pairs
            read_bytes += self._read_parameters(layer, batch.requests, share) * self._weight_bytes
        return max(computed_s, read_bytes / memory_bytes_per_s)

    def _read_parameters(self, number: int, requests: int, share: ProductShare) -> float:
        """Parameters of a layer that a worker reads in a step: of experts no more than tokens are brought to it, and of an embedding a row
        for each token, which is too little to count."""
        layer = self.profile.layers[number]
        if layer.kind is LayerKind.EMBEDDING:
            return 0.0
        parameters: float = layer.parameters
        if not parameters and layer.kind is LayerKind.FC:  # an output with the embedding's own weights
            parameters = layer.flops / (2 * self.tokens)
        if layer.name.endswith(EXPERTS):
            count, taken = experts_of(self.profile, number)
            # Of all replicas' tokens, a replica's experts get as many as it sends.
            parameters *= min(count / share.experts, requests * taken) / count
        return parameters / share.tensor

    def forward_share(self, leg: Leg) -> float:
        """Share of a forward pass's time that a leg has."""
        forward_s = self.job.compute.forward_s
        return sum(forward_s[layer] for layer in leg.layers) / sum(forward_s)


def _half(segments: Sequence[LayerSegment], one: LayerSegment) -> Sequence[int]:
    """The layers of the block that a segment belongs to."""
    return [layer for segment in segments if segment.block == one.block for layer in segment.layers]


def cache_values(profile: Profile, width: int) -> int:
    """Values that a layer of attention keeps of each token: keys and values or, of latent attention, what both are made from.

    Raises InputFault for a model of which this is not known.
    """
    for layer in profile.layers:
        if layer.name.endswith(LATENT):
            weights = max(layer.tensors, key=lambda tensor: tensor.parameters)
            return weights.parameters // weights.rows
    if not any(layer.name.endswith(QKV) for layer in profile.layers):
        raise InputFault(
            f"model.name = '{profile.name}': has no layers of keys and values to keep; take one, such as llama3-8b"
        )
    return key_value_values(profile, width)
