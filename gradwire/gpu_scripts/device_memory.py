"""Which storages of the script are a device's memory, and how much that is."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

BLOCK_BYTES = 512
"""PyTorch's allocator rounds up to multiples of it (kMinBlockSize of c10/cuda/CUDACachingAllocator.cpp)."""

PLAIN = (torch.Tensor, torch.nn.Parameter)
WRAPPED = ("_local_tensor", "elem")
"""Attributes with what a tensor wraps: of DTensor, and of AsyncCollectiveTensor."""


class DeviceMemory:
    """The memory of a device: storages of tensors, as torch's allocator counts them. What libraries take for themselves is not in it."""

    def __init__(self, capacity_bytes: Callable[[], int]) -> None:
        self._storages: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._capacity_bytes = capacity_bytes
        self.allocated_bytes = 0
        self.most_bytes = 0
        #: Also before the script counted anew.
        self.peak_bytes = 0

    def has(self, tensor: Any) -> bool:
        """Whether a tensor is a device's; of one that wraps another, whether that is."""
        if type(tensor) not in PLAIN:
            for name in WRAPPED:
                if hasattr(tensor, name):
                    return self.has(getattr(tensor, name))
        if tensor.layout is not torch.strided or tensor.is_meta:
            return False
        storage = tensor.untyped_storage()
        known = self._storages.get(id(storage))
        return known is not None and known[0]() is storage

    def add(self, tensor: Any) -> None:
        """Makes a tensor's storage a device's. Raises OutOfMemoryError if it does not fit."""
        if tensor.layout is not torch.strided:
            raise NotImplementedError(f"gradwire: a tensor of layout {tensor.layout} on a GPU that is not there")
        storage = tensor.untyped_storage()
        known = self._storages.get(id(storage))
        if known is None or known[0]() is not storage:
            self._note(storage)

    def resized(self, storage: Any) -> None:
        """A storage may have another size now."""
        known = self._storages.get(id(storage))
        if known is not None and known[1] != _rounded(storage.nbytes()):
            self.allocated_bytes -= known[1]
            self._note(storage)

    def reset_most(self) -> None:
        """Counts the most from now on."""
        self.most_bytes = self.allocated_bytes

    def _note(self, storage: Any) -> None:
        key, size_bytes = id(storage), _rounded(storage.nbytes())
        if self.allocated_bytes + size_bytes > self._capacity_bytes():
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {size_bytes / 2**20:.2f} MiB. The device has "
                f"{self._capacity_bytes() / 2**30:.2f} GiB, of which {self.allocated_bytes / 2**30:.2f} GiB are allocated."
            )
        self._storages[key] = (weakref.ref(storage, lambda _: self._forget(key)), size_bytes)
        self.allocated_bytes += size_bytes
        self.most_bytes = max(self.most_bytes, self.allocated_bytes)
        self.peak_bytes = max(self.peak_bytes, self.most_bytes)

    def _forget(self, key: int) -> None:
        _, size_bytes = self._storages.pop(key)
        self.allocated_bytes -= size_bytes


def _rounded(size_bytes: int) -> int:
    return -(-size_bytes // BLOCK_BYTES) * BLOCK_BYTES
