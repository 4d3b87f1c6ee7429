"""Calls of PyTorch's functions that name the device `cuda`."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gradwire.gpu_scripts.device import ScriptDevice, making

ONLY_NAMES = (torch.device, torch._C._nn._parse_to)
"""Functions that take and give names of devices, and make nothing."""


def names_cuda(value: Any) -> bool:
    """Whether a value names the device."""
    if isinstance(value, str):
        return value.split(":")[0] == "cuda"
    return isinstance(value, torch.device) and value.type == "cuda"


def names_cpu(value: Any) -> bool:
    """Whether a value names the host."""
    if isinstance(value, str):
        return value.split(":")[0] == "cpu"
    return isinstance(value, torch.device) and value.type == "cpu"


class PresentedCalls(TorchFunctionMode):
    """Carries out calls that name `cuda` on the CPU, and notes whose memory the results are."""

    def __init__(self, device: ScriptDevice) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """See TorchFunctionMode."""
        kwargs = kwargs or {}
        if func in ONLY_NAMES:
            return func(*args, **kwargs)
        if any(map(names_cuda, args)) or any(map(names_cuda, kwargs.values())):
            for value in (*args, *kwargs.values()):
                if names_cuda(value):
                    self._device.choose(value)
            args = tuple("cpu" if names_cuda(value) else value for value in args)
            kwargs = {name: "cpu" if names_cuda(value) else value for name, value in kwargs.items()}
            with making(self._device, on_device=True):
                return func(*args, **kwargs)
        if names_cpu(kwargs.get("device")):
            with making(self._device, on_device=False):
                return func(*args, **kwargs)
        return func(*args, **kwargs)
