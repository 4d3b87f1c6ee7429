"""RCCL as the script's machine has it, and the stand-in for its runtime, by ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

RUNTIME, LIBRARY = "libamdhip64.so.5", "librccl.so.1"
ID_BYTES = 128
NON_BLOCKING = 1
TYPES = {
    torch.int8: 0,
    torch.uint8: 1,
    torch.bool: 1,
    torch.int32: 2,
    torch.int64: 4,
    torch.float16: 6,
    torch.float32: 7,
    torch.float64: 8,
    torch.bfloat16: 9,
}
"""ncclDataType_t by type (nccl.h of RCCL 2.13)."""
OPERATIONS = {"SUM": 0, "PRODUCT": 1, "MAX": 2, "MIN": 3, "AVG": 4}
"""ncclRedOp_t by the name of torch's ReduceOp."""


class UniqueId(ctypes.Structure):
    """ncclUniqueId."""

    _fields_ = (("content", ctypes.c_char * ID_BYTES),)


class Rccl:
    """The two libraries. Raises RuntimeError, with the function's name, if a call fails."""

    def __init__(self) -> None:
        try:
            self.hip = ctypes.CDLL(RUNTIME, ctypes.RTLD_GLOBAL)
            self.nccl = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise RuntimeError(
                f'gradwire: backend "nccl" needs {LIBRARY}, which you install (docs/gpus.md): {error}'
            ) from error
        self.nccl.ncclGetErrorString.restype = ctypes.c_char_p

    def call(self, name: str, *words: Any) -> None:
        """Calls a function of either."""
        library = self.nccl if name.startswith("nccl") else self.hip
        result = getattr(library, name)(*words)
        if result:
            why = self.nccl.ncclGetErrorString(result).decode() if library is self.nccl else f"error {result}"
            raise RuntimeError(f"NCCL error in {name}: {why}")

    def new_id(self) -> bytes:
        """What the ranks of a communicator know in common."""
        made = UniqueId()
        self.call("ncclGetUniqueId", ctypes.byref(made))
        return bytes(ctypes.string_at(ctypes.byref(made), ID_BYTES))

    @property
    def version(self) -> tuple[int, int, int]:
        """As torch.cuda.nccl.version has it."""
        found = ctypes.c_int()
        self.call("ncclGetVersion", ctypes.byref(found))
        major, rest = divmod(found.value, 10000)  # NCCL_VERSION of nccl.h
        return major, rest // 100, rest % 100


@cache
def library() -> Rccl:
    """RCCL, loaded when it is first needed."""
    return Rccl()


class Communicator:
    """A communicator of RCCL, with the stream that its collectives are in."""

    def __init__(self, library: Rccl, device: int, identity: bytes, size: int, rank: int) -> None:
        self._library, self._device = library, device
        library.call("hipSetDevice", device)
        self._comm, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        unique = UniqueId.from_buffer_copy(identity)
        library.call("ncclCommInitRank", ctypes.byref(self._comm), ctypes.c_int(size), unique, ctypes.c_int(rank))
        library.call("hipStreamCreateWithFlags", ctypes.byref(self.stream), NON_BLOCKING)

    def launch(
        self, begin_ns: int, calls: Sequence[Callable[[Communicator], None]], tensors: Sequence[Any]
    ) -> Recording:
        """Puts calls into the stream, as one, to begin at a time. tensors: whose memory they read and write."""
        library = self._library
        library.call("hipSetDevice", self._device)  # of this thread
        lent = sorted({each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in tensors}.items())
        for address, size_bytes in lent:
            library.call("gradwire_lend_memory", ctypes.c_void_p(address), ctypes.c_size_t(size_bytes))
        library.call("gradwire_hold_stream", self.stream, ctypes.c_int64(begin_ns))
        library.call("ncclGroupStart")
        for call in calls:
            call(self)
        library.call("ncclGroupEnd")
        return Recording(library, self.stream, [address for address, _ in lent], tensors)

    def drain(self) -> None:
        """Returns when all that is in the stream has ended."""
        self._library.call("hipStreamSynchronize", self.stream)

    def reduce_all(self, source: Any, target: Any, operation: int) -> None:
        """ncclAllReduce."""
        self._call("ncclAllReduce", _at(source), _at(target), _count(source), _type(source), operation)

    def reduce(self, source: Any, target: Any, operation: int, root: int) -> None:
        """ncclReduce."""
        self._call("ncclReduce", _at(source), _at(target), _count(source), _type(source), operation, root)

    def broadcast(self, tensor: Any, root: int) -> None:
        """ncclBroadcast."""
        self._call("ncclBroadcast", _at(tensor), _at(tensor), _count(tensor), _type(tensor), root)

    def gather_all(self, source: Any, target: Any) -> None:
        """ncclAllGather."""
        self._call("ncclAllGather", _at(source), _at(target), _count(source), _type(source))

    def reduce_scatter(self, source: Any, target: Any, operation: int) -> None:
        """ncclReduceScatter."""
        self._call("ncclReduceScatter", _at(source), _at(target), _count(target), _type(source), operation)

    def send(self, tensor: Any, peer: int) -> None:
        """ncclSend."""
        self._call("ncclSend", _at(tensor), _count(tensor), _type(tensor), peer)

    def receive(self, tensor: Any, peer: int) -> None:
        """ncclRecv."""
        self._call("ncclRecv", _at(tensor), _count(tensor), _type(tensor), peer)

    def _call(self, name: str, *words: Any) -> None:
        self._library.call(name, *words, self._comm, self.stream)


class Recording:
    """A mark in a stream. Keeps what was put there before it, until it is reached."""

    def __init__(self, library: Rccl, stream: Any, lent: Sequence[int], kept: Sequence[Any]) -> None:
        self._library, self._lent, self._kept = library, lent, kept
        self._event = ctypes.c_void_p()
        library.call("hipEventCreate", ctypes.byref(self._event))
        library.call("hipEventRecord", self._event, stream)

    def is_reached(self) -> bool:
        """Whether it is."""
        return bool(self._library.hip.hipEventQuery(self._event) == 0)

    def wait(self) -> None:
        """Returns when it is reached."""
        self._library.call("hipEventSynchronize", self._event)
        lent, self._lent, self._kept = self._lent, [], []
        for address in lent:
            self._library.call("hipFree", ctypes.c_void_p(address))


def _at(tensor: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def _count(tensor: Any) -> ctypes.c_size_t:
    return ctypes.c_size_t(tensor.numel())


def _type(tensor: Any) -> int:
    if tensor.dtype not in TYPES:
        raise NotImplementedError(f"gradwire: RCCL 2.13 has no type for {tensor.dtype}")
    return TYPES[tensor.dtype]
