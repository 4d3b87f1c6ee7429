"""Scripts for GPUs on a machine that has none: the CPU stands in for the device `cuda`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

NOTE = "the CPU stood in for the device `cuda`, which this process does not see"
CONSTANTS: dict[str, Any] = {
    "set_device": None,
    "synchronize": None,
    "empty_cache": None,
    "manual_seed": None,
    "manual_seed_all": None,
    "reset_peak_memory_stats": None,
    "memory_allocated": 0,
    "max_memory_allocated": 0,
    "memory_reserved": 0,
    "max_memory_reserved": 0,
    "current_device": 0,
    "memory_stats": {},
    "get_device_capability": (9, 0),
    "get_device_name": "cuda, for which the CPU stands in",
}
"""Results of functions of torch.cuda that scripts call whether or not there is a device."""


def _is_cuda(value: Any) -> bool:
    return (isinstance(value, str) and value.split(":")[0] == "cuda") or (
        isinstance(value, torch.device) and value.type == "cuda"
    )


class _OnCpu(TorchFunctionMode):
    """Replaces the device in calls that name it."""

    def __init__(self, used: Callable[[], None]) -> None:
        super().__init__()
        self._used = used

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls the function with the CPU in place of a GPU."""
        kwargs = kwargs or {}
        if func is torch.Tensor.cuda:
            self._used()
            return args[0]
        named = func is not torch.device  # which is only a name: PyTorch makes such ones itself
        if named and (any(map(_is_cuda, args)) or any(map(_is_cuda, kwargs.values()))):
            self._used()
            args = tuple("cpu" if _is_cuda(value) else value for value in args)
            kwargs = {name: "cpu" if _is_cuda(value) else value for name, value in kwargs.items()}
        return func(*args, **kwargs)


class _NoEvent:
    """Stands in for torch.cuda.Event, and takes no time."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def elapsed_time(self, _: Any) -> float:
        """Returns 0 ms."""
        return 0.0

    def query(self) -> bool:
        """Returns whether the event has happened, which is always so."""
        return True

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def redirect(note: Callable[[str], None]) -> None:
    """Makes the CPU stand in for torch.cuda from now on, unless there is a device. note: is called when a script first
    asks for the device."""
    if torch.cuda.is_available():
        return
    told: list[bool] = []

    def used() -> None:
        if not told:
            told.append(True)
            note(NOTE)

    for name, value in CONSTANTS.items():
        setattr(torch.cuda, name, _answering(value))
    torch.cuda.Event = _NoEvent
    torch.cuda.stream = lambda *_, **__: nullcontext()
    torch.cuda.current_stream = lambda *_, **__: _NoEvent()
    torch.cuda.Stream = _NoEvent
    _redirect_modules(used)
    _redirect_mesh(used)
    _OnCpu(used).__enter__()


def _answering(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def _redirect_modules(used: Callable[[], None]) -> None:
    """`module.cuda()`, `module.to("cuda")`, DDP's `device_ids`, and autocast."""
    from torch.nn.parallel import DistributedDataParallel  # noqa: PLC0415 (only to change it)

    module: Any = torch.nn.Module
    move, wrap, cast = module.to, DistributedDataParallel.__init__, torch.autocast.__init__

    def cuda(this: Any, *_: Any, **__: Any) -> Any:
        used()
        return this

    def to(this: Any, *given: Any, **named: Any) -> Any:
        given = tuple("cpu" if _is_cuda(value) or type(value) is int else value for value in given)
        return move(this, *given, **{name: "cpu" if _is_cuda(value) else value for name, value in named.items()})

    def init(this: Any, *given: Any, **named: Any) -> None:
        named.update(device_ids=None, output_device=None)
        wrap(this, *given[:2], **named)

    def autocast(this: Any, device_type: str, *given: Any, **named: Any) -> None:
        kind = "cpu" if _is_cuda(device_type) else device_type
        if kind != device_type and named.get("dtype") is None and not given:
            named["dtype"] = torch.bfloat16
        cast(this, kind, *given, **named)

    module.cuda, module.to = cuda, to
    DistributedDataParallel.__init__ = init
    torch.autocast.__init__ = autocast


def _redirect_mesh(used: Callable[[], None]) -> None:
    from torch.distributed import device_mesh  # noqa: PLC0415 (only to change it)

    mesh: Any = device_mesh.DeviceMesh
    make, build = mesh.__init__, device_mesh.init_device_mesh

    def init(this: Any, device_type: str, *given: Any, **named: Any) -> None:
        make(this, "cpu" if _is_cuda(device_type) else device_type, *given, **named)

    def init_device_mesh(device_type: str, *given: Any, **named: Any) -> Any:
        if _is_cuda(device_type):
            used()
        return build("cpu" if _is_cuda(device_type) else device_type, *given, **named)

    mesh.__init__ = init
    device_mesh.init_device_mesh = init_device_mesh
    torch.distributed.init_device_mesh = init_device_mesh
