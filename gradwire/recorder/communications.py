"""The communication operations of PyTorch's dispatcher: what a call moves, in which group, and where it leaves what.

Scripts, DDP and FSDP call them as `c10d::` (torch/csrc/distributed/c10d/Ops.cpp), DTensor and functional collectives
as `_c10d_functional::` (Functional.cpp there). Arguments are found by the names that their schemas give them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

NAMESPACES = ("c10d", "_c10d_functional", "_c10d_functional_autograd")
UNEVEN = "an all-to-all has parts of different sizes, which depend on the data: taken as alike, with the same sum"
ANY_SOURCE = "a receive from any rank: taken as from the next rank of its group"


@dataclass
class Communication:
    """One rank's part in a communication, of PyTorch's objects."""

    kind: str
    group: Any
    reads: list[torch.Tensor] = field(default_factory=list)
    writes: list[torch.Tensor] = field(default_factory=list)
    #: Tensors whose bytes together are the size (gradwire/workloads/traces/workload.py says which those are).
    sized: list[torch.Tensor] = field(default_factory=list)
    #: Rank in the group: of the root, or of the other end of a message.
    other: int | None = None
    tag: int = 0
    #: What about the communication was guessed; "" for nothing.
    guess: str = ""

    @property
    def size_bytes(self) -> int:
        """Bytes, as the kind counts them."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.sized)

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return self.sized[0].element_size() if self.sized else 1


def arguments_of(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments of an operation by the names of its schema."""
    said = dict(kwargs or {})
    for place, argument in enumerate(func._schema.arguments):
        if place < len(args):
            said[argument.name] = args[place]
    return said


def flat(value: Any) -> list[torch.Tensor]:
    """The tensors in lists of lists."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for part in value for tensor in flat(part)] if isinstance(value, (list, tuple)) else []


def group_of(said: dict[str, Any]) -> Any:
    """The process group that a call names."""
    group = said.get("process_group", said.get("group_name"))
    if isinstance(group, str):
        return distributed_c10d._resolve_process_group(group)
    return group if isinstance(group, dist.ProcessGroup) else dist.ProcessGroup.unbox(group)


def c10d_call(name: str, said: dict[str, Any]) -> Communication | None:
    """Returns the communication that an operation of `c10d::` carries out; None for one that moves no data."""
    make = C10D.get(name.rstrip("_"))
    return make(said) if make is not None else None


def _in_place(kind: str) -> Callable[[dict[str, Any]], Communication]:
    """All ranks' tensors are replaced."""

    def make(said: dict[str, Any]) -> Communication:
        tensors = flat(said["tensors"])
        return Communication(kind, group_of(said), tensors, tensors, tensors, said.get("root_rank"))

    return make


def _from_to(kind: str, inputs: str, outputs: str, sized: str = "") -> Callable[[dict[str, Any]], Communication]:
    """Returns a function that makes a communication of an operation's arguments, from the input tensors to the output
    tensors. sized: the tensors that the size counts, if not the inputs."""

    def make(said: dict[str, Any]) -> Communication:
        reads, writes = flat(said[inputs]), flat(said[outputs])
        guess = UNEVEN if kind == "all-to-all" and _are_uneven(said) else ""
        counted = flat(said[sized]) if sized else reads
        return Communication(kind, group_of(said), reads, writes, counted, said.get("root_rank"), guess=guess)

    return make


def _are_uneven(said: dict[str, Any]) -> bool:
    sizes = [said.get("output_split_sizes") or (), said.get("input_split_sizes") or ()]
    if "input_tensors" in said:
        sizes += [[tensor.numel() for tensor in flat(said[name])] for name in ("input_tensors", "output_tensors")]
    return any(len(set(split)) > 1 for split in sizes)


def _send(said: dict[str, Any]) -> Communication:
    tensors = flat(said["tensors"])
    return Communication("send", group_of(said), tensors, [], tensors, said["dst"], said["tag"])


def _receive(said: dict[str, Any]) -> Communication:
    tensors, group = flat(said["tensors"]), group_of(said)
    guess = "" if "src" in said else ANY_SOURCE
    source = said.get("src", (group.rank() + 1) % group.size())
    return Communication("recv", group, [], tensors, tensors, source, said["tag"], guess)


def _barrier(said: dict[str, Any]) -> Communication:
    return Communication("barrier", group_of(said))


C10D: dict[str, Callable[[dict[str, Any]], Communication]] = {
    "allreduce": _in_place("all-reduce"),
    "allreduce_coalesced": _in_place("all-reduce"),
    "broadcast": _in_place("broadcast"),
    "reduce": _in_place("reduce"),
    "allgather": _from_to("all-gather", "input_tensors", "output_tensors"),
    "allgather_coalesced": _from_to("all-gather", "input_list", "output_lists"),
    "_allgather_base": _from_to("all-gather", "input_tensor", "output_tensor"),
    "allgather_into_tensor_coalesced": _from_to("all-gather", "inputs", "outputs"),
    "reduce_scatter": _from_to("reduce-scatter", "input_tensors", "output_tensors"),
    "_reduce_scatter_base": _from_to("reduce-scatter", "input_tensor", "output_tensor"),
    "reduce_scatter_tensor_coalesced": _from_to("reduce-scatter", "inputs", "outputs"),
    "alltoall": _from_to("all-to-all", "input_tensors", "output_tensors"),
    "alltoall_base": _from_to("all-to-all", "input", "output"),
    "gather": _from_to("gather", "input_tensors", "output_tensors"),
    "scatter": _from_to("scatter", "input_tensors", "output_tensors", sized="output_tensors"),
    "send": _send,
    "recv": _receive,
    "recv_any_source": _receive,
    "barrier": _barrier,
    "monitored_barrier": _barrier,
}
"""Operations by name, without the underscore that some end in."""

FUNCTIONAL_KINDS = {
    "all_reduce": "all-reduce",
    "all_gather_into_tensor": "all-gather",
    "reduce_scatter_tensor": "reduce-scatter",
    "all_to_all_single": "all-to-all",
    "broadcast": "broadcast",
    "isend": "send",
    "irecv": "recv",
}


def functional_call(name: str, said: dict[str, Any], outputs: list[torch.Tensor]) -> Communication | None:
    """Returns the communication that an operation of `_c10d_functional::` carries out, given the tensors that it
    returns; None for one that moves no data."""
    kind = FUNCTIONAL_KINDS.get(name.rstrip("_").replace("_coalesced", "").replace("_out", ""))
    if kind is None:
        return None
    tensors = flat(said.get("input", said.get("inputs", said.get("tensor"))))
    guess = UNEVEN if kind == "all-to-all" and _are_uneven(said) else ""
    reads, writes = ([] if kind == "recv" else tensors), ([] if kind == "send" else [*outputs, *_out(said)])
    other = said.get("src", said.get("dst"))
    return Communication(kind, group_of(said), reads, writes, tensors, other, said.get("tag", 0), guess)


def _out(said: dict[str, Any]) -> list[torch.Tensor]:
    return flat(said.get("out", ()))


def answer(communication: Communication) -> None:
    """Fills small tensors with the result of a collective in which all ranks put in the same: scripts decide by such
    values how to continue."""
    size = communication.group.size()
    with torch.no_grad():
        if communication.kind == "all-gather":
            for place, tensor in enumerate(communication.writes):
                source = communication.reads[place % len(communication.reads)]
                whole = source.reshape(-1).repeat(max(1, tensor.numel() // max(1, source.numel())))
                if whole.numel() == tensor.numel():
                    tensor.copy_(whole.reshape(tensor.shape))
        elif communication.kind in ("all-to-all", "reduce-scatter", "scatter"):
            for read, write in zip(communication.reads, communication.writes):  # noqa: B905 (Python 3.9)
                if read.numel() == write.numel():
                    write.copy_(read.reshape(write.shape))
                elif read.numel() == write.numel() * size:
                    write.copy_(read.reshape(-1)[: write.numel()].reshape(write.shape))
