"""`torch.cuda` as scripts know it, for the device of this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch

from gradwire.gpu_scripts.device import ScriptDevice
from gradwire.gpu_scripts.device_clock import StreamClock
from gradwire.gpu_scripts.rccl import library

NS_PER_MS = 1e6
CAPABILITY = (9, 0)
"""Of gfx9, as PyTorch's build for ROCm says it of the devices that RCCL 2.13 has code for."""
REFUSED = (
    "CUDAGraph",
    "graph",
    "make_graphed_callables",
    "graph_pool_handle",
    "MemPool",
    "memory_snapshot",
    "ExternalStream",
    "_sleep",
)
"""Names of torch.cuda that scripts may call, and that end with their name here."""


def present_module(device: ScriptDevice) -> None:
    """Makes the functions and classes of torch.cuda those of this device."""
    cuda: Any = torch.cuda
    functions = {**_devices(device), **_streams(device), **_memory(device), **_random_numbers()}
    for name, function in functions.items():
        setattr(cuda, name, function)
    cuda.nccl.version = lambda: library().version
    present_accelerator(device)
    for name in REFUSED:
        refusing = _refusing(f"torch.cuda.{name}")
        setattr(cuda, name, type(name, (), {"__new__": refusing}) if name[0].isupper() else refusing)


def present_accelerator(device: ScriptDevice) -> None:
    """The names that are the same for devices of all kinds."""
    accelerator: Any = torch.accelerator
    for name, answer in (("is_available", True), ("device_count", device.count)):
        setattr(accelerator, name, _answering(answer))
    accelerator.current_accelerator = _answering(torch.device("cuda"))
    accelerator.current_device_index = lambda: device.index
    accelerator.set_device_index = device.choose
    accelerator.current_stream = lambda _=None: torch.cuda.current_stream()
    accelerator.set_stream = torch.cuda.set_stream
    accelerator.synchronize = lambda _=None: device.synchronize()
    torch._C._get_accelerator = _answering(torch.device("cuda"))


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"gradwire: {name} is not there for a GPU that is not there")

    return refuse


def _answering(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def _devices(device: ScriptDevice) -> dict[str, Any]:
    @contextmanager
    def chosen(index: Any) -> Iterator[None]:
        device.choose(index)
        yield

    def properties(_: Any = None) -> Any:
        return SimpleNamespace(
            name=os.environ["GRADWIRE_GPU_NAME"],
            total_memory=int(os.environ["GRADWIRE_GPU_MEMORY_BYTES"]),
            major=CAPABILITY[0],
            minor=CAPABILITY[1],
            multi_processor_count=int(os.environ["GRADWIRE_GPU_UNITS"]),
            warp_size=64,
            gcnArchName=os.environ["GRADWIRE_GPU_ARCHITECTURE"],
        )

    return {
        "is_available": _answering(True),
        "is_initialized": _answering(True),
        "init": _answering(None),
        "_lazy_init": _answering(None),
        "_lazy_call": lambda call, **_: call(),
        "_is_in_bad_fork": _answering(False),
        "device_count": lambda: device.count,
        "current_device": lambda: device.index,
        "set_device": device.choose,
        "device": chosen,
        "device_of": _answering(chosen(None)),
        "synchronize": lambda _=None: device.synchronize(),
        "get_device_name": lambda _=None: os.environ["GRADWIRE_GPU_NAME"],
        "get_device_properties": properties,
        "get_device_capability": _answering(CAPABILITY),
        "is_bf16_supported": _answering(True),
        "ipc_collect": _answering(None),
        "is_current_stream_capturing": _answering(False),
        "can_device_access_peer": _answering(True),
    }


def _streams(device: ScriptDevice) -> dict[str, Any]:
    clock = device.clock

    class Stream:
        """See torch.cuda.Stream."""

        def __init__(self, device: Any = None, priority: int = 0, *, clock_of: StreamClock | None = None) -> None:
            self.clock = clock_of or clock.new_stream()
            self.priority, self._name = priority, device

        @property
        def device(self) -> torch.device:
            """The device that it is of."""
            return device.name

        @property
        def cuda_stream(self) -> int:
            """A number that no other stream has."""
            return 0 if self.clock is clock.default else id(self.clock)

        stream_id = cuda_stream

        def synchronize(self) -> None:
            """Returns when all that is in it has ended."""
            clock.sleep_until(self.clock.end_ns)

        def query(self) -> bool:
            """Returns whether all that is in it has ended."""
            return clock.now_ns() >= self.clock.end_ns

        def is_capturing(self) -> bool:
            """There are no graphs."""
            return False

        def wait_stream(self, other: Stream) -> None:
            """Has what follows wait for all that is in another."""
            self.clock.wait(other.clock.end_ns)

        def wait_event(self, event: Event) -> None:
            """Has what follows wait for an event."""
            self.clock.wait(event.reached_ns or 0)

        def record_event(self, event: Event | None = None) -> Event:
            """Records an event."""
            event = event or Event()
            event.record(self)
            return event

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Stream) and other.clock is self.clock

        def __hash__(self) -> int:
            return id(self.clock)

        def __enter__(self) -> Stream:
            self._before = clock.current
            clock.current = self.clock
            return self

        def __exit__(self, *_: Any) -> None:
            clock.current = self._before

    class Event:
        """See torch.cuda.Event."""

        def __init__(self, enable_timing: bool = False, _: bool = False, interprocess: bool = False, **__: Any) -> None:
            if interprocess:
                _refusing("torch.cuda.Event(interprocess=True)")()
            self._is_timed = enable_timing
            self.reached_ns: int | None = None

        def record(self, stream: Stream | None = None) -> None:
            """Is reached when all that is in a stream now has ended."""
            self.reached_ns = clock.reached(stream.clock if stream else clock.current)

        def wait(self, stream: Stream | None = None) -> None:
            """Has what follows in a stream wait for it."""
            (stream.clock if stream else clock.current).wait(self.reached_ns or 0)

        def query(self) -> bool:
            """Returns whether it is reached."""
            return clock.now_ns() >= (self.reached_ns or 0)

        def synchronize(self) -> None:
            """Returns when it is reached."""
            clock.sleep_until(self.reached_ns or 0)

        def elapsed_time(self, end: Event) -> float:
            """Milliseconds from it to another."""
            if not self._is_timed or not end._is_timed:
                raise ValueError("Both events must be created with argument 'enable_timing=True'.")
            if self.reached_ns is None or end.reached_ns is None:
                raise ValueError("Both events must be recorded before calculating elapsed time.")
            if not end.query():
                raise RuntimeError("CUDA error: device not ready")
            return (end.reached_ns - self.reached_ns) / NS_PER_MS

    @contextmanager
    def entered(stream: Stream | None) -> Iterator[None]:
        before = clock.current
        clock.current = stream.clock if stream is not None else before
        try:
            yield
        finally:
            clock.current = before

    def set_stream(stream: Stream | None) -> None:
        clock.current = stream.clock if stream is not None else clock.current

    return {
        "Stream": Stream,
        "Event": Event,
        "stream": entered,
        "StreamContext": entered,
        "set_stream": set_stream,
        "current_stream": lambda _=None: Stream(clock_of=clock.current),
        "default_stream": lambda _=None: Stream(clock_of=clock.default),
    }


def _memory(device: ScriptDevice) -> dict[str, Any]:
    memory = device.memory

    def stats(_: Any = None) -> dict[str, int]:
        return {
            "allocated_bytes.all.current": memory.allocated_bytes,
            "allocated_bytes.all.peak": memory.most_bytes,
            "num_alloc_retries": 0,
        }

    def free_and_total(_: Any = None) -> tuple[int, int]:
        total = int(os.environ["GRADWIRE_GPU_MEMORY_BYTES"])
        return total - memory.allocated_bytes, total

    return {
        "memory_allocated": lambda _=None: memory.allocated_bytes,
        "max_memory_allocated": lambda _=None: memory.most_bytes,
        "memory_reserved": lambda _=None: memory.allocated_bytes,
        "max_memory_reserved": lambda _=None: memory.most_bytes,
        "reset_peak_memory_stats": lambda _=None: memory.reset_most(),
        "reset_max_memory_allocated": lambda _=None: memory.reset_most(),
        "memory_stats": stats,
        "mem_get_info": free_and_total,
        "empty_cache": _answering(None),
        "set_per_process_memory_fraction": _refusing("torch.cuda.set_per_process_memory_fraction"),
    }


def _random_numbers() -> dict[str, Any]:
    """The device's numbers are drawn from the host's generator."""
    return {
        "manual_seed": torch.default_generator.manual_seed,
        "manual_seed_all": torch.default_generator.manual_seed,
        "seed": torch.default_generator.seed,
        "seed_all": torch.default_generator.seed,
        "initial_seed": torch.initial_seed,
        "get_rng_state": lambda _=None: torch.get_rng_state(),
        "set_rng_state": lambda state, _=None: torch.set_rng_state(state),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "set_rng_state_all": lambda states: torch.set_rng_state(states[0]),
    }
