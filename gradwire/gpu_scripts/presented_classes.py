"""Parts of PyTorch that name the device below its overridable functions, and parts that are not there without a GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from gradwire.gpu_scripts.device import ScriptDevice, making
from gradwire.gpu_scripts.presented_calls import PresentedCalls, names_cuda
from gradwire.gpu_scripts.process_group import DEFAULT_TIMEOUT, ProcessGroupNCCL


def present_classes(device: ScriptDevice) -> None:
    """Changes classes and functions of PyTorch, once."""
    _present_backend()
    _present_ddp(device)
    _present_autocast()
    _present_backward(device)
    _present_storages(device)
    _present_loading()
    torch.compile = _refuse_compile


def _present_backend() -> None:
    c10d: Any = distributed_c10d
    c10d.ProcessGroupNCCL = ProcessGroupNCCL
    c10d._NCCL_AVAILABLE = True
    c10d.default_pg_nccl_timeout = DEFAULT_TIMEOUT
    dist.ProcessGroupNCCL = ProcessGroupNCCL
    destroy, send_batch = c10d.destroy_process_group, c10d.batch_isend_irecv

    def destroy_process_group(group: Any = None) -> None:
        if group is None or group is dist.GroupMember.WORLD:
            for each in list(c10d._world.pg_map):
                if isinstance(each, ProcessGroupNCCL):
                    each.shutdown()
        destroy(group)

    def batch_isend_irecv(operations: Any) -> Any:
        group = operations[0].group or c10d._get_default_group() if operations else None
        if not isinstance(group, ProcessGroupNCCL):
            return send_batch(operations)
        group._start_coalescing()
        for each in operations:
            peer = {"group_dst" if each.op is dist.isend else "group_src": each.group_peer}
            each.op(each.tensor, group=each.group, tag=each.tag, **peer)
        return [group._end_coalescing()]

    replace_everywhere(destroy, destroy_process_group)
    replace_everywhere(send_batch, batch_isend_irecv)


def _present_ddp(device: ScriptDevice) -> None:
    """DDP's buckets are made in C++, which takes them for memory of the host."""
    made: Any = dist.Reducer
    verify = dist._verify_params_across_processes

    class Reducer(made):
        """A reducer whose buckets are where the parameters are."""

        def __init__(self, parameters: Any, *given: Any, **named: Any) -> None:
            self._on_device = device.memory.has(parameters[0])
            with making(device, on_device=self._on_device):
                super().__init__(parameters, *given, **named)

        def _rebuild_buckets(self) -> bool:
            with making(device, on_device=self._on_device):
                return bool(super()._rebuild_buckets())

    def verify_params_across_processes(group: Any, parameters: Any, *rest: Any) -> Any:
        with making(device, on_device=device.memory.has(parameters[0])):
            return verify(group, parameters, *rest)

    dist.Reducer = Reducer
    replace_everywhere(verify, verify_params_across_processes)


def _present_autocast() -> None:
    begin = torch.autocast.__init__

    def init(this: Any, device_type: str, dtype: Any = None, *given: Any, **named: Any) -> None:
        if names_cuda(device_type):
            device_type, dtype = "cpu", dtype or torch.float16  # CUDA's default
        begin(this, device_type, dtype, *given, **named)

    torch.autocast.__init__ = init
    for name in ("is_autocast_enabled", "get_autocast_dtype", "set_autocast_enabled", "set_autocast_dtype"):
        setattr(torch, name, _with_cpu(getattr(torch, name)))


def _present_backward(device: ScriptDevice) -> None:
    """Backward passes begin in functions that scripts may override, below which calls are not presented: what scripts put into them is."""
    run: Any = torch.autograd.graph._engine_run_backward

    def run_backward(*given: Any, **named: Any) -> Any:
        with PresentedCalls(device):
            return run(*given, **named)

    replace_everywhere(run, run_backward)


def _present_storages(device: ScriptDevice) -> None:
    resize: Any = torch.UntypedStorage.resize_
    wrap: Any = torch.Tensor._make_wrapper_subclass
    generator: Any = torch.Generator

    def resize_(this: Any, size_bytes: int) -> Any:
        resized = resize(this, size_bytes)
        device.memory.resized(this)
        return resized

    class OfCpu(type):
        """Makes generators of the CPU, and knows all generators."""

        def __call__(cls, device: Any = "cpu") -> Any:
            """A generator for a device."""
            return generator("cpu" if names_cuda(device) else device)

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, generator)

    torch.UntypedStorage.resize_ = resize_
    torch.Tensor._make_wrapper_subclass = staticmethod(_with_cpu(wrap))
    torch.Generator = OfCpu("Generator", (), {})


def _present_loading() -> None:
    from torch.utils import data  # noqa: PLC0415 (only to change it)

    loader: Any = data.DataLoader
    make, load = loader.__init__, torch.load

    def init(this: Any, *given: Any, **named: Any) -> None:
        named["pin_memory"] = False  # all of the host's memory is as quick here
        make(this, *given, **named)

    def load_(file: Any, map_location: Any = None, **named: Any) -> Any:
        if names_cuda(map_location):
            raise NotImplementedError(
                'gradwire: torch.load(map_location="cuda"): load to "cpu", and move what was loaded'
            )
        return load(file, map_location=map_location, **named)

    loader.__init__ = init
    torch.load = load_


def _with_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the CPU in place of `cuda` in its arguments."""

    def called(*given: Any, **named: Any) -> Any:
        given = tuple("cpu" if names_cuda(value) else value for value in given)
        return function(*given, **{name: _as_cpu(name, value) for name, value in named.items()})

    return called


def _as_cpu(name: str, value: Any) -> Any:
    if not names_cuda(value):
        return value
    return torch.device("cpu") if name == "device" else "cpu"


def _refuse_compile(*_: Any, **__: Any) -> Any:
    raise NotImplementedError(
        "gradwire: torch.compile is not there for a GPU that is not there: run the script without it"
    )


def replace_everywhere(old: Any, new: Any) -> None:
    """Puts another function in the place of one, in all modules that have imported it by its name."""
    for module in list(sys.modules.values()):
        names = [name for name, value in list(getattr(module, "__dict__", {}).items()) if value is old]
        for name in names:
            setattr(module, name, new)
