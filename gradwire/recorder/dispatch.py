"""The mode under which a script runs: it sees every operation, records it, and computes only what is small.

Large tensors have their memory, of which the system gives no page before it is touched, and no values: what an
operation would give is allocated in the shape that PyTorch's meta kernels say, and left as it is. So a model of a
thousand ranks' size runs in seconds, and C++ such as DDP's reducer, which wants real memory, works as it does anywhere
(it refuses PyTorch's fake tensors). Small tensors and integers are computed, because scripts and PyTorch itself decide
by them how to continue: indices, sizes, step counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._C._distributed_c10d import _create_work_from_future
from torch._subclasses.fake_tensor import FakeTensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from gradwire.recorder.communications import (
    NAMESPACES,
    Communication,
    answer,
    arguments_of,
    c10d_call,
    flat,
    functional_call,
)
from gradwire.recorder.timeline import Timeline

SMALL = 4096
"""Elements up to which tensors of any type have values."""
SMALL_INTEGERS = 1 << 24
"""Elements up to which tensors of integers have values: tokens, indices and masks."""
MOST_FORGOTTEN = 20_000
"""Storages that are gone before they are looked for."""
HOST_READS = ("_local_scalar_dense", "is_nonzero", "equal")
COPY_OUTS = ("split_with_sizes_copy",)
"""FSDP's copies out of what was gathered, on the stream that computes (fully_shard/_fsdp_collectives.py of PyTorch)."""
OVERWRITES = ("copy_", "zero_", "fill_")
CPU_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"


class DispatchRecording(TorchDispatchMode):
    """Records operations into a timeline. As a mode, it is entered once and never left."""

    supports_higher_order_operators = True

    def __init__(self, timeline: Timeline, values: bool) -> None:
        """values: whether large tensors are computed as well."""
        super().__init__()
        self.timeline, self.values = timeline, values
        #: What was guessed, and how often.
        self.guesses: dict[str, int] = {}
        #: Operations that communicate, and that are not known.
        self.unknown: set[str] = set()
        #: FLOPs by the type of the first operand.
        self.flops_of_type: dict[str, int] = {}
        #: Bytes that operations without FLOPs read and write.
        self.moved_bytes = 0
        #: Name of a process group's ranks in the file; and what knows a rank by its place in the group.
        self.name_group: Callable[[Any], str] = str
        self.rank_in: Callable[[Any, int], int] = lambda _, place: place
        self._pid = os.getpid()
        self._storages: dict[int, StorageWeakRef] = {}
        self._look_at = MOST_FORGOTTEN
        self._schemas: dict[Any, _Effects] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Carries out an operation, as far as it is, and records it."""
        kwargs = kwargs or {}
        if os.getpid() != self._pid or FakeTensor in types or not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        if any(kind not in (torch.Tensor, torch.nn.Parameter) for kind in types):
            return NotImplemented  # DTensors and the like become operations on plain tensors, which come here again
        tensors = flat_tensors((args, kwargs))
        if any(tensor.device.type != "cpu" for tensor in tensors):
            return func(*args, **kwargs)  # PyTorch asks what shape something would have
        if func.namespace in NAMESPACES:
            said = arguments_of(func, args, kwargs)
            if "process_group" in said or "group_name" in said:
                return self._communicate(func, args, kwargs, said)
            if func._overloadpacket.__name__ == "wait_tensor":
                return args[0]
        out = self._carry_out(func, args, kwargs, tensors)
        self._record(func, args, kwargs, tensors, out)
        return out

    def _record(self, func: Any, args: Any, kwargs: Any, tensors: list[torch.Tensor], out: Any) -> None:
        name, effects = func._overloadpacket.__name__, self._effects(func)
        reads = [_address(tensor) for tensor in tensors]
        if name in HOST_READS:
            self.timeline.see(reads)
            return
        if name in COPY_OUTS:
            self.timeline.wait(reads)
        if effects.is_view:
            return
        changed = effects.changed(args, kwargs)
        outputs = changed or flat_tensors(out)
        writes = self._written(outputs)
        flops = self._flops(func, args, kwargs, out)
        if flops:
            kind = str(tensors[0].dtype).replace("torch.", "")
            self.flops_of_type[kind] = self.flops_of_type.get(kind, 0) + flops
            self.timeline.compute(reads, writes, flops)
            return
        self.moved_bytes += sum(tensor.numel() * tensor.element_size() for tensor in (*tensors, *outputs))
        if changed and not (name in OVERWRITES and _is_whole(changed[0])):
            self.timeline.pass_on(reads, writes)
        else:
            inputs = reads[1:] if changed else reads
            self.timeline.overwrite(inputs, writes)

    def _flops(self, func: Any, args: Any, kwargs: Any, out: Any) -> int:
        name = func._overloadpacket.__name__
        if name.startswith(CPU_ATTENTION):
            return _attention_flops(args, backward=name.endswith("backward"))
        formula = flop_registry.get(func._overloadpacket)
        return int(formula(*args, **kwargs, out_val=out)) if formula is not None else 0

    def _carry_out(self, func: Any, args: Any, kwargs: Any, tensors: list[torch.Tensor]) -> Any:
        """Returns the result of an operation: with values if the script needs them or they are few, and otherwise
        tensors of the right shape whose content is not computed."""
        effects = self._effects(func)
        if self.values or effects.is_view or (tensors and all(map(_is_small, tensors))):
            return func(*args, **kwargs)
        if effects.returned is not None:
            return effects.returned(args, kwargs)
        return self._shaped(func, args, kwargs)

    def _shaped(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Memory in the shape of what the operation would give."""
        try:
            out = func(*tree_map_only(torch.Tensor, _meta, _on_meta(args)), **_of_meta(func, kwargs))
        except (NotImplementedError, RuntimeError):
            return func(*args, **kwargs)  # without a meta kernel, or an error that is the script's
        given = flat_tensors(out)
        if not flat_tensors((args, kwargs)) and all(map(_is_small, given)):
            return func(*args, **kwargs)
        return tree_map_only(torch.Tensor, _allocated, out)

    def _communicate(self, func: Any, args: Any, kwargs: Any, said: dict[str, Any]) -> Any:
        name = func._overloadpacket.__name__
        if func.namespace == "c10d":
            call = c10d_call(name, said)
            # Not carried out: even the fake process group copies what is gathered.
            out = _returned(func, args, call.writes if call is not None else [])
        else:
            effects = self._effects(func)
            out = effects.returned(args, kwargs) if effects.returned else self._shaped(func, args, kwargs)
            call = functional_call(name, said, flat_tensors(out))
        if call is None:
            self.unknown.add(str(func))
            return out
        self._take(call)
        if all(map(_is_small, (*call.reads, *call.writes))):
            answer(call)
        return out

    def _take(self, call: Communication) -> None:
        """Records a communication."""
        reads = [_address(tensor) for tensor in call.reads]
        writes = self._written(call.writes)
        if call.group.size() < 2:
            self.timeline.pass_on(reads, writes)
            return
        if call.guess:
            self.guess(call.guess)
        size = call.size_bytes
        if call.kind in ("all-to-all", "reduce-scatter"):  # what is divided among the ranks has whole elements for each
            size -= size % (call.element_bytes * call.group.size())
        said: dict[str, Any] = {"kind": call.kind, "bytes": size, "element_bytes": call.element_bytes}
        if call.kind in ("send", "recv"):
            said.update(peer=self.rank_in(call.group, call.other or 0), tag=call.tag)
        else:
            said["group"] = self.name_group(call.group)
            if call.other is not None:
                said["root"] = self.rank_in(call.group, call.other)
        self.timeline.call(said, reads, writes)

    def guess(self, what: str) -> None:
        """Notes something that the script itself does not say."""
        self.guesses[what] = self.guesses.get(what, 0) + 1

    def _written(self, tensors: Iterable[torch.Tensor]) -> list[int]:
        """Addresses of storages that are written, which are not given to others while this remembers them."""
        keys = []
        for tensor in tensors:
            storage = tensor.untyped_storage()
            keys.append(storage._cdata)
            if storage._cdata not in self._storages:
                self._storages[storage._cdata] = StorageWeakRef(storage)
        if len(self._storages) > self._look_at:
            gone = [key for key, storage in self._storages.items() if storage.expired()]
            self.timeline.forget(gone)
            for key in gone:
                del self._storages[key]
            self._look_at = len(self._storages) + MOST_FORGOTTEN
        return keys

    def _effects(self, func: Any) -> _Effects:
        if func not in self._schemas:
            self._schemas[func] = _Effects(func)
        return self._schemas[func]


class _Effects:
    """The effects of an operation on its arguments, read from its schema."""

    def __init__(self, func: Any) -> None:
        schema = func._schema
        self._written = [
            (place, argument.name)
            for place, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        aliases = any(value.alias_info is not None and not value.alias_info.is_write for value in schema.returns)
        #: Whether the operation returns another view of the same memory, or changes a tensor's shape in place, and so
        #: moves no data.
        self.is_view = (aliases and not self._written) or torch.Tag.inplace_view in func.tags
        self._returns = len(schema.returns)
        #: Returns its result if it is not carried out; None if that has to be allocated.
        self.returned: Callable[[Any, Any], Any] | None = self._unchanged if self._written else None

    def changed(self, args: Any, kwargs: Any) -> list[torch.Tensor]:
        """The tensors that it writes."""
        found = [args[place] if place < len(args) else kwargs.get(name) for place, name in self._written]
        return flat(found)

    def _unchanged(self, args: Any, kwargs: Any) -> Any:
        given = [args[place] if place < len(args) else kwargs.get(name) for place, name in self._written]
        if not self._returns:
            return None
        return given[0] if self._returns == 1 else tuple(given[: self._returns])


def flat_tensors(value: Any) -> list[torch.Tensor]:
    """All tensors in a structure."""
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def _address(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _is_small(tensor: torch.Tensor) -> bool:
    exact = not (tensor.is_floating_point() or tensor.is_complex())
    return int(tensor.numel()) <= (SMALL_INTEGERS if exact else SMALL)


def _is_whole(tensor: torch.Tensor) -> bool:
    return bool(tensor.numel() * tensor.element_size() >= tensor.untyped_storage().nbytes())


def _meta(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")


def _on_meta(value: Any) -> Any:
    return tree_map_only(torch.device, lambda _: torch.device("meta"), value)


def _of_meta(func: Any, kwargs: Any) -> Any:
    moved = dict(tree_map_only(torch.Tensor, _meta, _on_meta(kwargs)))
    if any(argument.name == "device" for argument in func._schema.arguments) and not any(
        argument.type.kind() == "TensorType" for argument in func._schema.arguments
    ):
        moved["device"] = torch.device("meta")
    moved.pop("pin_memory", None)
    return moved


def _allocated(tensor: torch.Tensor) -> torch.Tensor:
    make = torch.zeros if tensor.numel() <= SMALL else torch.empty
    if tensor.is_contiguous():
        return make(tensor.size(), dtype=tensor.dtype, device="cpu")
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu")


def _returned(func: Any, args: Any, tensors: list[torch.Tensor]) -> Any:
    """Returns the result of an operation of c10d: its outputs, which are its first argument, and a Work that has ended.

    The future of the Work has the tensors, as DDP's reducer wants it; that of PyTorch's fake process group has none.
    """
    if not func._schema.returns:
        return None
    future: Any = torch.futures.Future()
    future.set_result(list(tensors))
    work = _create_work_from_future(future).boxed()
    return work if len(func._schema.returns) == 1 else (args[0], work)


def _attention_flops(args: Any, *, backward: bool) -> int:
    """Returns the FLOPs of attention as CPUs carry it out, for which torch has no formula; counted as torch counts
    those of GPUs."""
    if backward:
        grad, query, key, value = (tensor.shape for tensor in args[:4])
        return int(sdpa_backward_flop_count(grad, query, key, value))
    query, key, value = (tensor.shape for tensor in args[:3])
    return int(sdpa_flop_count(query, key, value))
