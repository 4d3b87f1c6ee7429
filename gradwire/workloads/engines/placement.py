"""Placement of data: how tensors are cut into shards and slices, and which server holds which chunk."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gradwire.faults import InputFault
from gradwire.workloads.job import BYTES_PER_PARAMETER
from gradwire.workloads.models.profile import Profile, Tensor
from gradwire.workloads.plan_size import MostOps


@dataclass(frozen=True)
class Piece:
    """The part of a tensor that travels together: a future chunk. Tensor, layer and server go by number."""

    tensor: int
    layer: int
    server: int
    parameters: int

    @property
    def size_bytes(self) -> int:
        """Bytes on the wire at fp32."""
        return self.parameters * BYTES_PER_PARAMETER


KVSTORE_PRIME = 9973
"""MXNet's KVStore puts key k whole on server k * 9973 mod n."""
SHARE_ROUNDING = 0.01
"""Printed shares are rounded, so their sum may miss 1 by this much; they are then scaled."""


def refuse_pieces(counts: Iterable[int], workers: int) -> None:
    """Raises TooManyOps, before they are made, for tensors in so many pieces each, of which every worker gets each by a
    message."""
    MostOps.here().refuse("", 2 * workers * sum(counts))


def even_cut(parameters: int, parts: int) -> list[int]:
    """Cuts into at most `parts` non-empty parts whose sizes differ by one at most."""
    parts = min(parts, parameters)
    size, larger = divmod(parameters, parts)
    return [size + 1] * larger + [size] * (parts - larger)


def slices(parameters: int, threshold: int) -> list[int]:
    """Cuts into the fewest even slices of at most `threshold` parameters."""
    return even_cut(parameters, -(-parameters // threshold))


def whole_tensors(profile: Profile, servers: int) -> list[Piece]:
    """TensorFlow's default: whole tensors, round robin over the servers in creation order (replica_device_setter)."""
    return [
        Piece(number, layer, number % servers, tensor.parameters)
        for number, (layer, tensor) in enumerate(zip(profile.tensor_layer, profile.tensors, strict=True))
    ]


def whole_variables(profile: Profile, servers: int) -> list[Piece]:
    """Whole tensors, round robin over the servers as TensorFlow creates all its variables, those that are not trained
    included.

    replica_device_setter gives every variable the next server. Moving means and variances take turns as well,
    which decides where weights go: with weights, beta, mean and variance for each convolution, four servers put all
    weights on the first one. This rule, and TF-slim's lists of variables, give the shares that NetOps measured (Table
    7), where trained tensors alone do not.
    """
    pieces: list[Piece] = []
    turn = tensor = 0
    for number, layer in enumerate(profile.layers):
        for held in layer.tensors:
            pieces.append(Piece(tensor, number, turn % servers, held.parameters))
            turn, tensor = turn + 1, tensor + 1
        turn += layer.untrained
    return pieces


def partitioned(profile: Profile, servers: int, workers: int = 1) -> list[Piece]:
    """Every tensor cut into one even shard per server (NetOps, sections 8.2.1 and 9.1).

    Tensors with fewer parameters than servers take the next servers in turn, so that no server is favoured.
    """
    refuse_pieces((min(tensor.parameters, servers) for tensor in profile.tensors), workers)
    pieces: list[Piece] = []
    turn = 0
    for number, (layer, tensor) in enumerate(zip(profile.tensor_layer, profile.tensors, strict=True)):
        shards = even_cut(tensor.parameters, servers)
        first = 0 if len(shards) == servers else turn
        turn += len(shards) % servers
        for shard, parameters in enumerate(shards):
            pieces.append(Piece(number, layer, (first + shard) % servers, parameters))
    return pieces


def in_rows(profile: Profile, servers: int, slice_parameters: int | None = None, workers: int = 1) -> list[Piece]:
    """Geryon, section IV, with TensorFlow's fixed_size_partitioner: a tensor's rows (its first axis) are dealt into
    one shard per server, and shards above the threshold into slices, all of whole rows.

    A 3x3 kernel has three rows, so it becomes three shards and nothing more, and a 1x1 kernel stays whole. Geryon's
    numbers of slices confirm it: 328, 440 and 672 of VGG-19 for thresholds of 1024K, 512K and 256K, where it prints
    320, 440 and 680; shards of any size would be 408, 520 and 808. Shards go round the servers in turn, as
    replica_device_setter deals variables.
    """

    def most_rows_of(tensor: Tensor) -> int:
        return max(1, slice_parameters // (tensor.parameters // tensor.rows)) if slice_parameters else tensor.rows

    refuse_pieces(
        (max(min(tensor.rows, servers), -(-tensor.rows // most_rows_of(tensor))) for tensor in profile.tensors), workers
    )
    pieces: list[Piece] = []
    turn = 0
    for number, (layer, tensor) in enumerate(zip(profile.tensor_layer, profile.tensors, strict=True)):
        width, most_rows = tensor.parameters // tensor.rows, most_rows_of(tensor)
        for shard in even_cut(tensor.rows, servers):
            pieces.extend(Piece(number, layer, turn % servers, rows * width) for rows in slices(shard, most_rows))
            turn += 1
    return pieces


def slices_of_layers(pieces: Sequence[Piece]) -> Counter[int]:
    """Returns, for each layer, the number of slices of those of its shards that were cut into several."""
    shards = Counter((piece.layer, piece.tensor, piece.server) for piece in pieces)
    slices_of: Counter[int] = Counter()
    for (layer, _, _), count in shards.items():
        slices_of[layer] += count if count > 1 else 0
    return slices_of


def kvstore_keys(profile: Profile, servers: int, split_parameters: int, workers: int = 1) -> list[Piece]:
    """MXNet's KVStore (P3, section 4.1): large tensors cut evenly over all servers, others whole on server key * 9973
    mod n.

    split_parameters: a tensor is large from this many parameters on. A tensor's key is its number.
    """
    large = (tensor.parameters for tensor in profile.tensors if tensor.parameters >= split_parameters)
    refuse_pieces((min(parameters, servers) for parameters in large), workers)
    pieces: list[Piece] = []
    for number, (layer, tensor) in enumerate(zip(profile.tensor_layer, profile.tensors, strict=True)):
        if tensor.parameters >= split_parameters:
            cut = even_cut(tensor.parameters, servers)
            pieces.extend(Piece(number, layer, server, size) for server, size in enumerate(cut))
        else:
            pieces.append(Piece(number, layer, number * KVSTORE_PRIME % servers, tensor.parameters))
    return pieces


def full_slices(profile: Profile, servers: int, slice_parameters: int, workers: int = 1) -> list[Piece]:
    """P3, section 4.2: slices of `slice_parameters` and the rest of each tensor, all of them round robin over the
    servers.

    0 parameters: no slices, whole tensors. The turn carries over from tensor to tensor, as in MXNet's P3Store: if it
    began anew with each, the first server would hold all the small ones.
    """
    if slice_parameters:
        refuse_pieces((-(-tensor.parameters // slice_parameters) for tensor in profile.tensors), workers)
    pieces: list[Piece] = []
    for number, (layer, tensor) in enumerate(zip(profile.tensor_layer, profile.tensors, strict=True)):
        size = slice_parameters or tensor.parameters
        for first in range(0, tensor.parameters, size):
            pieces.append(Piece(number, layer, len(pieces) % servers, min(size, tensor.parameters - first)))
    return pieces


def greedy_by_size(profile: Profile, servers: int) -> list[Piece]:
    """Whole tensors, largest first, each to the server that holds the least: as even as possible without cutting."""
    held = [0] * servers
    pieces = whole_tensors(profile, servers)
    for piece in sorted(pieces, key=lambda piece: -piece.parameters):
        server = min(range(servers), key=held.__getitem__)
        held[server] += piece.parameters
        pieces[piece.tensor] = replace(piece, server=server)
    return pieces


def by_shares(profile: Profile, servers: int, shares: Sequence[float]) -> list[Piece]:
    """Gives each server its share of the parameters, such as those that NetOps measured (Table 7).

    Largest tensors first, each to the server with the most left to hold; what does not fit there is cut off and goes
    on to the next, so that the shares come out to the parameter. Raises InputFault if there is not one share per
    server or they do not sum to 1.
    """
    if len(shares) != servers:
        raise InputFault(f"strategy.options.shares = {list(shares)}: must be one share for each of {servers} servers")
    if min(shares) < 0 or abs(sum(shares) - 1) > SHARE_ROUNDING:
        raise InputFault(
            f"strategy.options.shares = {list(shares)}: must not be negative and sum to 1, not {sum(shares):g}"
        )
    left = _whole_numbers(profile.parameters, shares)
    pieces: list[Piece] = []
    for piece in sorted(whole_tensors(profile, servers), key=lambda piece: -piece.parameters):
        rest = piece.parameters
        while rest:
            server = max(range(servers), key=left.__getitem__)
            taken = min(rest, left[server])
            left[server] -= taken
            rest -= taken
            pieces.append(replace(piece, server=server, parameters=taken))
    return sorted(pieces, key=lambda piece: piece.tensor)


def _whole_numbers(total: int, shares: Sequence[float]) -> list[int]:
    """Whole numbers in proportion to `shares` that sum to `total`."""
    bounds = [round(total * sum(shares[:count]) / sum(shares)) for count in range(len(shares) + 1)]
    return [after - before for before, after in itertools.pairwise(bounds)]


def in_messages(pieces: list[Piece], message_parameters: int, workers: int = 1) -> list[Piece]:
    """Cuts each piece, in its place, into even messages of at most `message_parameters` (NetOps, section 9.2); 0 cuts
    none."""
    if not message_parameters:
        return pieces
    refuse_pieces((-(-piece.parameters // message_parameters) for piece in pieces), workers)
    return [
        replace(piece, parameters=size) for piece in pieces for size in slices(piece.parameters, message_parameters)
    ]


def in_turn(pieces: Sequence[Piece], workers: int) -> list[list[int]]:
    """Round-robin distribution (NetOps, sections 6 and 9.4): for each worker, the position of each piece among all
    that are sent.

    A parameter goes to worker 0 as a whole, then to worker 1, and so on; only then comes the next one. The messages
    that it may be cut into stay together.
    """
    places: list[list[int]] = [[] for _ in range(workers)]
    for _, group in itertools.groupby(pieces, key=lambda piece: (piece.tensor, piece.server)):
        messages, first = len(list(group)), len(places[0]) * workers
        for worker in range(workers):
            places[worker] += range(first + worker * messages, first + (worker + 1) * messages)
    return places
