"""A transformer cut as tensor and pipeline parallelism cut it: into the halves of its blocks, between which workers
exchange activations; and how many of the tokens the experts of each worker get.

Sources: Shoeybi et al., Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism, 2019;
Lepikhin et al., GShard, 2020 (experts on different workers, with an all-to-all before and behind them).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from gradwire.faults import InputFault
from gradwire.workloads.models.profile import Profile

HALF = re.compile(r"(block(\d+)/(?:attention|ffn|both))/")
"""Pattern of the names that models give the layers of a transformer's blocks. Halves that are parallel (GPT-J, Falcon)
are one: workers sum what both yield at once, as Mesh Transformer JAX does."""


@dataclass(frozen=True)
class LayerSegment:
    """Layers that follow one another without an exchange of activations."""

    name: str
    #: Numbers of the layers, in forward order.
    layers: tuple[int, ...]
    #: Number of parameters.
    values: int
    #: Whether workers that share the layers sum its outputs in the forward pass, and the gradients of its inputs in
    #: the backward pass.
    sums_outputs: bool = True
    sums_gradients: bool = True
    #: Values of one sample's tokens that are brought to the experts of the segment, and back; 0 if it has no experts
    #: to bring them to.
    routed_values: int = 0
    #: Experts of the segment, and how many of them a token goes to; 0 if it has none to bring tokens to.
    experts: int = 0
    per_token: int = 0
    #: Number of the block that it belongs to; -1 for none.
    block: int = -1


@dataclass(frozen=True)
class Cut:
    """A model in segments, by stage.

    Where stages have chunks, stages take turns: first the first chunk of each, then the second.
    """

    stages: tuple[tuple[LayerSegment, ...], ...]
    #: Values that one sample's activations have between segments; 0 if the model is one segment.
    activation_values: int


def uncut(profile: Profile) -> Cut:
    """The whole model as one segment, for replicas of one worker each."""
    whole = LayerSegment(profile.name, tuple(range(len(profile.layers))), profile.parameters, False, False)
    return Cut(((whole,),), 0)


def piece_blocks(blocks: int, pieces: int, first: int | None = None, last: int | None = None) -> list[int] | None:
    """Blocks of each piece: those given of the first and the last one, and as many in each other; None where the others
    do not divide evenly."""
    given = {number: count for number, count in ((0, first), (pieces - 1, last)) if count is not None}
    left, others = blocks - sum(given.values()), pieces - len(given)
    if left < 0 or (left % others if others else left) or (others and left == 0):
        return None
    return [given[number] if number in given else left // others for number in range(pieces)]


def cut(
    profile: Profile,
    stages: int,
    experts: int = 1,
    chunks: int = 1,
    ends: tuple[int | None, int | None] = (None, None),
) -> Cut:
    """Halves of blocks, with what is before the first block (the embedding) and behind the last one (the output) as
    separate segments.

    With `experts`, the workers that experts are divided among, the experts of a mixture are a separate segment
    between the router and whatever follows. With `chunks`, each stage has so many pieces of the model, a round of
    stages apart: the cut is in `stages` times `chunks` pieces. Blocks are divided evenly; the first piece has the
    embedding as well and the last one the output. Workers that share the embedding sum its outputs, and those that
    share the output its inputs' gradients.

    Raises InputFault for a model that is not a transformer, or without experts if they are to be divided, and for
    blocks or experts that do not divide.
    """
    matches = [HALF.match(layer.name) for layer in profile.layers]
    blocks = sorted({int(match[2]) for match in matches if match})
    if not blocks:
        raise InputFault(
            f"model.name = '{profile.name}': has no blocks of attention and feed-forward layers, by which it is "
            "divided, run "
            "again or summed; take a transformer, such as llama3-8b, or leave out strategy.options.tensor, stages, "
            "experts, "
            "recompute and overlap_gradients"
        )
    pieces = stages * chunks
    sizes = piece_blocks(len(blocks), pieces, *ends)
    if sizes is None:
        times = f" times strategy.options.chunks = {chunks}" if chunks > 1 else ""
        if ends == (None, None):
            raise InputFault(
                f"strategy.options.stages = {stages}{times}: must divide the {len(blocks)} blocks of '{profile.name}'"
            )
        raise InputFault(
            f"strategy.options.stages = {stages}{times}: the {len(blocks)} blocks of '{profile.name}' without "
            "strategy.options.first_blocks and last_blocks must divide among the other pieces of the model"
        )
    piece_of = [piece for piece, count in enumerate(sizes) for _ in range(count)]
    by_piece: list[list[LayerSegment]] = [[] for _ in range(pieces)]
    numbered = groupby(enumerate(matches), key=lambda pair: pair[1][1] if pair[1] else "")
    for name, members in numbered:
        layers = tuple(number for number, _ in members)
        values = _parameters(profile, layers)
        match = matches[layers[0]]
        is_first = layers[0] == 0
        # A user's model may count its blocks from 1.
        piece = piece_of[blocks.index(int(match[2]))] if match else 0 if is_first else pieces - 1
        segment = LayerSegment(
            name or profile.layers[layers[0]].name,
            layers,
            values,
            sums_outputs=bool(match) or is_first,
            sums_gradients=bool(match) or not is_first,
            block=int(match[2]) if match else -1,
        )
        by_piece[piece] += _around_experts(profile, segment, experts) if experts > 1 else [segment]
    if experts > 1 and not any(segment.routed_values for segments in by_piece for segment in segments):
        raise InputFault(
            f"strategy.options.experts = {experts}: '{profile.name}' has no experts; take a mixture, such as "
            "mixtral-8x7b"
        )
    return Cut(tuple(map(tuple, by_piece)), activation_values(profile))


def _around_experts(profile: Profile, segment: LayerSegment, workers: int) -> list[LayerSegment]:
    """A segment in up to three: up to the router, the experts, and the rest.

    Raises InputFault if the workers do not divide the experts.
    """
    at = [layer for layer in segment.layers if profile.layers[layer].name.endswith("/experts")]
    if not at:
        return [segment]
    (experts,) = at
    first, last = segment.layers[0], segment.layers[-1]
    # A router has a column for each expert, as long as a token is wide.
    width = profile.layers[experts - 1].tensors[0].rows
    count, taken = experts_of(profile, experts)
    if count % workers:
        raise InputFault(f"strategy.options.experts = {workers}: must divide the {count} experts of '{profile.name}'")
    tokens = activation_values(profile) // width
    parts = (range(first, experts), range(experts, experts + 1), range(experts + 1, last + 1))
    names = ("router", "experts", "rest")
    pieces = [
        LayerSegment(
            f"{segment.name} {name}", tuple(part), _parameters(profile, part), False, False, block=segment.block
        )
        for name, part in zip(names, parts, strict=True)
    ]
    pieces[0] = replace(pieces[0], sums_gradients=segment.sums_gradients)
    pieces[1] = replace(pieces[1], routed_values=taken * tokens * width, experts=count, per_token=taken)
    pieces[2] = replace(pieces[2], sums_outputs=segment.sums_outputs)
    return pieces


def experts_of(profile: Profile, number: int) -> tuple[int, int]:
    """Returns how many experts a layer of experts has, and to how many of them a token goes."""
    router, layer = profile.layers[number - 1], profile.layers[number]
    width = router.tensors[0].rows
    count = router.tensors[0].parameters // width
    tokens = activation_values(profile) // width
    return count, round(layer.flops / (2 * tokens * layer.parameters / count))


def _parameters(profile: Profile, layers: Iterable[int]) -> int:
    return sum(profile.layers[layer].parameters for layer in layers)


def activation_values(profile: Profile) -> int:
    """Returns the number of values of a sample's activations between blocks: those of the first residual sum, which
    costs one operation for each."""
    return next(
        round(layer.flops) for layer in profile.layers if HALF.match(layer.name) and layer.name.endswith("/add")
    )


def shares_of_workers(segment: LayerSegment, workers: int, skew: float | None) -> list[float] | None:
    """The share of the tokens' choices that falls on each of the workers that have a segment's experts; None: all
    shares are the same.

    skew: the share that falls on the first expert, the hottest; the others get the same of what is left. So the first
    worker is the hottest one, in every block and microbatch, whichever worker the tokens come from.

    Raises InputFault for a share that is less than an even one, or more than one expert can get when a token goes to
    several.
    """
    if skew is None:
        return None
    count = segment.experts
    if not 1 / count <= skew <= 1 / segment.per_token:
        raise InputFault(
            f"strategy.options.token_skew = {skew:g}: must be from 1/{count} (all {count} experts get as much) to "
            f"1/{segment.per_token} "
            f"(each token goes to {segment.per_token}, and each time to the hottest)"
        )
    other = (1 - skew) / (count - 1) if count > 1 else 0.0
    per_worker = count // workers
    return [skew + (per_worker - 1) * other, *[per_worker * other] * (workers - 1)]


def least_share(segment: LayerSegment, workers: int, skew: float | None) -> float:
    """The smallest of the workers' shares, as a multiple of an even one; 1 for a segment without experts that tokens
    are brought to."""
    shares = shares_of_workers(segment, workers, skew) if segment.routed_values else None
    return min(shares) * workers if shares else 1.0
