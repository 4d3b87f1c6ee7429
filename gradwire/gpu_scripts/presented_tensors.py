"""Tensors as scripts know them: which device they are on, and how they move.

These are methods of torch.Tensor itself. Code that PyTorch calls from within its own functions, such as hooks of saved
tensors, finds them too.
"""

from __future__ import annotations

from typing import Any

import torch

from gradwire.gpu_scripts.device import ScriptDevice, making
from gradwire.gpu_scripts.presented_calls import names_cpu, names_cuda

Base: Any = torch._C.TensorBase


def present_tensors(device: ScriptDevice) -> None:
    """Changes torch.Tensor, once."""
    tensor: Any = torch.Tensor
    has, moves = device.memory.has, _Moves(device)
    real = Base.device.__get__

    def numpy(this: Any, **named: Any) -> Any:
        if has(this):
            raise TypeError(
                f"can't convert {device.name} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
            )
        return Base.numpy(this, **named)

    tensor.device = property(lambda this: device.name if has(this) else real(this))
    tensor.is_cuda = property(has)
    tensor.is_cpu = property(lambda this: not has(this) and real(this).type == "cpu")
    tensor.get_device = lambda this: device.index if has(this) else -1
    tensor.cuda, tensor.cpu, tensor.to = moves.cuda, moves.cpu, moves.to
    tensor.numpy = numpy
    tensor.pin_memory = lambda this, *_: this
    tensor.is_pinned = lambda this, *_: not has(this)
    tensor.record_stream = lambda *_: (
        None
    )  # memory is given back when the host is done with it, and so is the device then


class _Moves:
    """The methods that move a tensor."""

    def __init__(self, device: ScriptDevice) -> None:
        self._device = device
        moves = self

        def cuda(this: Any, device: Any = None, *_: Any, memory_format: Any = None, **__: Any) -> Any:
            moves._device.choose(device)
            named = {} if memory_format is None else {"memory_format": memory_format}
            return moves._moved(this, to_device=True, named=named)

        def cpu(this: Any, **named: Any) -> Any:
            return moves._moved(this, to_device=False, named=named)

        def to(this: Any, *given: Any, **named: Any) -> Any:
            return moves._to(this, *given, **named)

        self.cuda, self.cpu, self.to = cuda, cpu, to

    def _to(self, tensor: Any, *given: Any, **named: Any) -> Any:
        """`Tensor.to` takes a device, a type, both, or another tensor for both."""
        target, rest = named.pop("device", None), list(given)
        if "other" in named:
            rest.insert(0, named.pop("other"))
        if rest and isinstance(rest[0], torch.Tensor):
            target, rest[0] = rest[0].device, rest[0].dtype
        elif rest and (rest[0] is None or isinstance(rest[0], str | torch.device | int)):
            target = rest.pop(0) if target is None else target
        if rest and (rest[0] is None or isinstance(rest[0], torch.dtype)):
            named["dtype"] = rest.pop(0)
        if named.get("dtype", torch.float32) is None:
            del named["dtype"]
        named.update(zip(("non_blocking", "copy"), rest, strict=False))
        if target is None:
            return Base.to(tensor, **named) if named else tensor
        if isinstance(target, int) or names_cuda(target):
            self._device.choose(target)
            return self._moved(tensor, to_device=True, named=named)
        if names_cpu(target):
            return self._moved(tensor, to_device=False, named=named)
        return Base.to(tensor, target, **named)

    def _moved(self, tensor: Any, *, to_device: bool, named: dict[str, Any]) -> Any:
        """A tensor in the other memory, converted; itself, if it is there and as asked."""
        device = self._device
        if tensor.is_meta:
            return Base.to(tensor, "cpu", **named)
        if device.memory.has(tensor) is to_device:
            return Base.to(tensor, **named) if named else tensor
        with making(device, on_device=to_device):
            return Base.to(tensor, "cpu", **{**named, "copy": True})
