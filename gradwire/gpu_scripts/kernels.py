"""Operations on the device: whatever PyTorch does below its differentiation, in a forward pass, a backward pass or an optimizer."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from gradwire.gpu_scripts.device import ScriptDevice, making
from gradwire.gpu_scripts.kernel_times import map_tensors, size_bytes, tensors_in

COLLECTIVES = frozenset(("c10d", "_c10d_functional", "_c10d_functional_autograd"))
"""Namespaces of operations whose time is the network's."""
aten = torch.ops.aten
ASKS = frozenset((aten._local_scalar_dense, aten.equal, aten.is_nonzero))
"""Operations that have the host wait for a number."""
PRODUCTS = frozenset(
    (
        *(aten.mm, aten.addmm, aten.bmm, aten.baddbmm, aten.convolution, aten.convolution_backward),
        aten._scaled_dot_product_flash_attention_for_cpu,
        aten._scaled_dot_product_flash_attention_for_cpu_backward,
    )
)
"""Operations that take most of a script's time on a CPU."""
LARGE_FLOPS = 100_000_000
"""What a processor does in some 10 ms."""


class Kernels(TorchDispatchMode):
    """Gives each operation on the device its time, and what it yields to the device's memory."""

    def __init__(self, device: ScriptDevice) -> None:
        super().__init__()
        self._device = device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """See TorchDispatchMode. Tensors that wrap others come here again with those."""
        if any(issubclass(kind, FakeTensor) for kind in types):  # of which PyTorch asks for shapes alone
            return func(*args, **(kwargs or {}))
        if any(kind not in (torch.Tensor, torch.nn.Parameter) for kind in types):
            return NotImplemented
        with torch._C.DisableTorchFunction():
            return self._carry_out(func, args, kwargs or {})

    def _carry_out(self, func: Any, args: Any, kwargs: Any) -> Any:
        device, packet = self._device, func._overloadpacket
        given = list(tensors_in((args, kwargs)))
        on_device = any(map(device.memory.has, given))
        if on_device and _asks(func):
            device.clock.sleep_until(device.clock.current.end_ns)
        is_made_there = on_device if device.makes is None else device.makes
        if packet is aten.copy_:
            is_made_there = device.memory.has(args[0])
            crosses = is_made_there is not device.memory.has(args[1])
        else:
            crosses = packet is aten._to_copy and is_made_there is not on_device
        if crosses and not is_made_there:
            device.clock.sleep_until(device.clock.current.end_ns)
        with making(device, on_device=True) if on_device and func.namespace in COLLECTIVES else nullcontext():
            try:
                out = self._result(func, args, kwargs, on_device=on_device)
            except NotImplementedError as error:
                raise NotImplementedError(f"gradwire: {func}, which PyTorch's build for CPUs does not have") from error
        if is_made_there:
            for each in tensors_in((out,)):
                if not each.is_meta:
                    device.add(each)
        if crosses:
            self._cross(out)
        elif is_made_there and func.namespace not in COLLECTIVES:
            reads = [
                *tensors_in(args),
                *tensors_in(value for name, value in kwargs.items() if not name.startswith("out")),
            ]
            device.clock.run(device.times.duration_ns(func, args, kwargs, out, reads))
        return out

    def _result(self, func: Any, args: Any, kwargs: Any, *, on_device: bool) -> Any:
        """What an operation yields. Large products are not computed without --gpu-data: they are zero."""
        device = self._device
        if device.computes or not on_device or func._overloadpacket not in PRODUCTS or func._schema.is_mutable:
            return func(*args, **kwargs)
        shapes = func(*map_tensors(args, _shape_of), **map_tensors(kwargs, _shape_of))
        if device.times.flops_of(func, args, kwargs, shapes) < LARGE_FLOPS:
            return func(*args, **kwargs)
        out = map_tensors(shapes, _zeros_of)
        device.count_invented(sum(map(size_bytes, tensors_in((out,)))))
        return out

    def _cross(self, target: Any) -> None:
        """A copy between the host and the device. To the host it is waited for, as of memory that is not pinned."""
        device = self._device
        device.clock.run(device.times.copy_ns(size_bytes(target)))
        if not device.memory.has(target):
            device.clock.sleep_until(device.clock.current.end_ns)


def _shape_of(tensor: Any) -> Any:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _zeros_of(shape: Any) -> Any:
    """Pages of it come when somebody writes to them."""
    return (
        torch.zeros(shape.shape, dtype=shape.dtype).as_strided(shape.shape, shape.stride())
        if shape.numel()
        else torch.empty_like(shape, device="cpu")
    )


def _asks(func: Any) -> bool:
    """Whether the host waits for the result, of which a size or a decision depends on it."""
    tags = func.tags
    return (
        func._overloadpacket in ASKS
        or torch.Tag.data_dependent_output in tags
        or torch.Tag.dynamic_output_shape in tags
    )
