"""The backend `nccl`: process groups whose collectives RCCL carries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from gradwire.gpu_scripts.device import ScriptDevice
from gradwire.gpu_scripts.rccl import OPERATIONS, Communicator, library
from gradwire.gpu_scripts.work import Completions, RcclWork

LAST_WORDS = timedelta(seconds=10)
"""How long a rank that ends waits for the others to end, so that RCCL's threads have sent what they have."""
DEFAULT_TIMEOUT = timedelta(minutes=10)
"""PyTorch's for NCCL (kProcessGroupNCCLDefaultTimeout)."""
Call = Callable[[Communicator], None]


class GroupOptions:
    """ProcessGroupNCCL.Options: what scripts set, none of which changes anything here."""

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        self.is_high_priority_stream = is_high_priority_stream
        self._timeout = DEFAULT_TIMEOUT
        self.config: Any = type("Config", (), {})()
        self.global_ranks_in_group: list[int] = []
        self.group_name = ""


class ProcessGroupNCCL(dist.ProcessGroup):
    """A process group over the devices of its ranks. Its communicator is made for its first collective, as torch does it;
    messages between two ranks have one of their own."""

    Options = GroupOptions
    supports_splitting = False
    supports_coalescing = True
    device: ScriptDevice
    """Of the process: `present` sets it."""
    modes: Callable[[], Sequence[Any]]

    def __init__(self, store: Any, rank: int, size: int, options: GroupOptions) -> None:
        super().__init__(rank, size)
        self._store, self._rank, self._size, self.options = store, rank, size, options
        self._name = self._description = ""
        self._made: dict[str, Communicator] = {}
        self._pending: list[RcclWork] = []
        self._completions = Completions(type(self).modes)
        self._batch: list[tuple[list[Call], list[Any], Callable[[], None] | None]] | None = None
        self._is_shut = False
        self.device.clock.drains.append(self._wait_for_pending_works)

    # What torch asks a group for.

    def getBackendName(self) -> str:  # noqa: N802 (torch's name)
        """See torch's."""
        return "nccl"

    def getGroupName(self) -> str:  # noqa: N802
        """See torch's."""
        return self._name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """See torch's."""
        self._name = name

    def getGroupDesc(self) -> str:  # noqa: N802
        """See torch's."""
        return self._description

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        """See torch's."""
        self._description = description

    def getRank(self) -> int:  # noqa: N802
        """See torch's."""
        return self._rank

    def getSize(self) -> int:  # noqa: N802
        """See torch's."""
        return self._size

    def get_group_store(self) -> Any:
        """See torch's."""
        return self._store

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cuda")]

    def _get_backend(self, _: Any) -> ProcessGroupNCCL:
        return self

    def _set_sequence_number_for_group(self) -> None:
        pass

    def _set_default_backend(self, _: Any) -> None:
        pass

    def _has_hooks(self) -> bool:
        return False

    # Collectives.

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        """See torch's."""
        operation = _operation(opts)
        return self._in_place(tensors, lambda flat, comm: comm.reduce_all(flat, flat, operation))

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Any:
        """See torch's."""
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: Any, opts: Any) -> Any:
        """See torch's."""
        operation, root = _operation(opts), opts.rootRank
        return self._in_place(tensors, lambda flat, comm: comm.reduce(flat, flat, operation, root))

    def broadcast(self, tensors: Any, opts: Any) -> Any:
        """See torch's."""
        root = opts.rootRank
        return self._in_place(tensors, lambda flat, comm: comm.broadcast(flat, root))

    def all_gather_single(self, target: Any, source: Any, opts: Any = None) -> Any:
        """See torch's."""
        return self.all_gather_single_coalesced([target], [source], opts)

    def all_gather_single_coalesced(self, targets: Any, sources: Any, opts: Any = None) -> Any:
        """See torch's."""
        pairs = [(source.contiguous(), _dense(target)) for source, target in zip(sources, targets, strict=True)]
        calls: list[Call] = [partial(_gather_all, source, target) for source, target in pairs]
        return self._issue(calls, targets, [each for pair in pairs for each in pair])

    def reduce_scatter_single(self, target: Any, source: Any, opts: Any = None) -> Any:
        """See torch's."""
        return self.reduce_scatter_single_coalesced([target], [source], opts)

    def reduce_scatter_single_coalesced(self, targets: Any, sources: Any, opts: Any = None) -> Any:
        """See torch's."""
        operation = _operation(opts)
        pairs = [(source.contiguous(), _dense(target)) for source, target in zip(sources, targets, strict=True)]
        calls: list[Call] = [partial(_reduce_scatter, source, target, operation) for source, target in pairs]
        return self._issue(calls, targets, [each for pair in pairs for each in pair])

    def allgather(self, target_lists: Any, sources: Any, opts: Any = None) -> Any:
        """See torch's. Like torch's own, ranks of one size are gathered in one piece and copied out, others broadcast."""
        (targets,), (source,) = target_lists, sources
        source = source.contiguous()
        if any(each.numel() != source.numel() for each in targets):
            targets[self._rank].copy_(source)
            return self._issue([partial(_broadcast, each, root) for root, each in enumerate(targets)], targets, targets)
        flat = source.new_empty((self._size, *source.shape))

        def copy_out() -> None:
            for target, part in zip(targets, flat, strict=True):
                target.copy_(part.view_as(target))

        return self._issue([partial(_gather_all, source, flat)], targets, [source, flat], copy_out)

    def reduce_scatter(self, targets: Any, source_lists: Any, opts: Any = None) -> Any:
        """See torch's."""
        (target,), (sources,) = targets, source_lists
        flat, operation = torch.stack([each.reshape(target.shape) for each in sources]), _operation(opts)
        return self._issue([partial(_reduce_scatter, flat, _dense(target), operation)], targets, [flat, target])

    def all_to_all_single(
        self, target: Any, source: Any, target_sizes: Any, source_sizes: Any, opts: Any = None
    ) -> Any:
        """See torch's."""
        source = source.contiguous()
        parts = _split(source, source_sizes, self._size), _split(_dense(target), target_sizes, self._size)
        return self._exchange(*parts, [target])

    def alltoall(self, targets: Any, sources: Any, opts: Any = None) -> Any:
        """See torch's."""
        return self._exchange([each.contiguous() for each in sources], list(map(_dense, targets)), targets)

    def gather(self, target_lists: Any, sources: Any, opts: Any) -> Any:
        """See torch's."""
        source, root = sources[0].contiguous(), opts.rootRank
        targets = list(target_lists[0]) if self._rank == root else []
        calls: list[Call] = [partial(_send, source, root)] if self._rank != root else []
        for peer, target in enumerate(targets):
            if peer == root:
                target.copy_(source)
            else:
                calls.append(partial(_receive, _dense(target), peer))
        return self._issue(calls, targets, [source, *targets])

    def scatter(self, targets: Any, source_lists: Any, opts: Any) -> Any:
        """See torch's."""
        target, root = _dense(targets[0]), opts.rootRank
        sources = [each.contiguous() for each in source_lists[0]] if self._rank == root else []
        calls: list[Call] = [partial(_receive, target, root)] if self._rank != root else []
        for peer, source in enumerate(sources):
            if peer == root:
                target.copy_(source)
            else:
                calls.append(partial(_send, source, peer))
        return self._issue(calls, targets, [target, *sources])

    def send(self, tensors: Any, peer: int, tag: int = 0) -> Any:
        """See torch's."""
        sent = [each.contiguous() for each in tensors]
        return self._message([partial(_send, each) for each in sent], tensors, sent, peer)

    def recv(self, tensors: Any, peer: int, tag: int = 0) -> Any:
        """See torch's."""
        return self._message([partial(_receive, _dense(each)) for each in tensors], tensors, tensors, peer)

    def recv_anysource(self, *_: Any) -> Any:
        """NCCL has none either."""
        raise RuntimeError("ProcessGroupNCCL does not support recvAnysource")

    def barrier(self, opts: Any = None) -> Any:
        """See torch's: an all-reduce of one element, for which the script waits."""
        with torch._C.DisableTorchFunction():
            flag = torch.zeros(1)
        self.device.add(flag)
        work = self.allreduce([flag])
        work.wait()
        return work

    # Several calls as one.

    def _start_coalescing(self, _: Any = None) -> None:
        self._batch = []

    def _end_coalescing(self, _: Any = None) -> Any:
        batch, self._batch = self._batch or [], None
        afters = [after for _, _, after in batch if after is not None]

        def after_all() -> None:
            for after in afters:
                after()

        tensors = [tensor for _, each, _ in batch for tensor in each]
        return self._issue([call for calls, _, _ in batch for call in calls], tensors, tensors, after_all)

    # How it ends.

    def _wait_for_pending_works(self) -> None:
        pending, self._pending = self._pending, []
        for work in pending:
            work.wait()

    def shutdown(self) -> None:
        """Waits for what is under way, and for the others: RCCL 2.13 stops without sending what it has left."""
        if self._is_shut or not self._made:
            return
        self._is_shut = True
        self._wait_for_pending_works()
        try:
            if self._store.add("gradwire ends", 1) == self._size:
                self._store.set("gradwire ended", "1")
            self._store.wait(["gradwire ended"], LAST_WORDS)
            if self._store.add("gradwire left", 1) == self._size:
                self._store.set("gradwire all left", "1")
            if self._rank == 0:  # which may have the store
                self._store.wait(["gradwire all left"], LAST_WORDS)
        except dist.DistError:
            return  # a rank has failed, and has told why

    def abort(self) -> None:
        """See torch's."""
        self._is_shut = True

    # How a call is made.

    def _in_place(self, tensors: Any, call: Callable[[Any, Communicator], None]) -> Any:
        """A call for each tensor. One that is not contiguous is copied before and after."""
        dense = [each.contiguous() for each in tensors]

        def copy_back() -> None:
            for tensor, copied in zip(tensors, dense, strict=True):
                if copied is not tensor:
                    tensor.copy_(copied)

        return self._issue([partial(call, each) for each in dense], tensors, dense, copy_back)

    def _exchange(self, sources: Sequence[Any], targets: Sequence[Any], results: Any) -> Any:
        calls: list[Call] = []
        for peer in range(self._size):
            calls += [partial(_send, sources[peer], peer), partial(_receive, targets[peer], peer)]
        return self._issue(calls, results, [*sources, *targets])

    def _message(self, calls: Sequence[Any], results: Any, tensors: Sequence[Any], peer: int) -> Any:
        if self._batch is not None:
            return self._issue([partial(call, peer) for call in calls], results, tensors)
        low, high = sorted((self._rank, peer))
        comm = self._communicator(f"{low}:{high}", 2, int(self._rank == high))
        return self._issue([partial(call, int(peer == high)) for call in calls], results, tensors, comm=comm)

    def _issue(
        self,
        calls: Sequence[Call],
        results: Iterable[Any],
        tensors: Sequence[Any],
        after: Callable[[], None] | None = None,
        comm: Communicator | None = None,
    ) -> Any:
        """Has RCCL carry out calls once all that the script's stream has got is done."""
        self._refuse_of_host(tensors)
        if self._batch is not None:
            self._batch.append((list(calls), list(tensors), after))
            return NoWork()
        comm = comm or self._communicator("all", self._size, self._rank)
        clock = self.device.clock
        recording = comm.launch(clock.reached(clock.current), calls, tensors)
        work = RcclWork(recording, list(results), after, self._completions)
        self._pending = [*(each for each in self._pending if not each.is_waited_for), work]
        return work

    def _refuse_of_host(self, tensors: Sequence[Any]) -> None:
        if self.device.makes:  # a functional collective, whose tensors PyTorch has just made
            return
        for tensor in tensors:
            if tensor.numel() and not self.device.memory.has(tensor):
                raise RuntimeError("No backend type associated with device type cpu")

    def _communicator(self, key: str, size: int, rank: int) -> Communicator:
        """The communicator of a key, whose first rank hands its identity to the others."""
        if key not in self._made:
            if rank == 0:
                self._store.set(f"gradwire {key}", library().new_id())
            identity = self._store.get(f"gradwire {key}")
            self._made[key] = Communicator(library(), self.device.index, identity, size, rank)
        return self._made[key]

    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single
    """Names that PyTorch before 2.13 has for them."""


class NoWork(dist.Work):
    """A part of a batch, which is waited for as a whole."""

    def wait(self, timeout: Any = None) -> bool:
        """Returns at once."""
        del timeout
        return True


def _operation(opts: Any) -> int:
    """RCCL's number of a reduction."""
    if opts is None:
        return OPERATIONS["SUM"]
    for name, number in OPERATIONS.items():
        if opts.reduceOp == getattr(dist.ReduceOp, name):
            return number
    raise NotImplementedError(f"gradwire: RCCL 2.13 carries no reduction {opts.reduceOp}")


def _dense(tensor: Any) -> Any:
    if not tensor.is_contiguous():
        raise ValueError("Tensors must be contiguous")
    return tensor


def _split(tensor: Any, sizes: Sequence[int], ranks: int) -> list[Any]:
    return list(tensor.split(list(sizes) if sizes else tensor.shape[0] // ranks))


def _gather_all(source: Any, target: Any, comm: Communicator) -> None:
    comm.gather_all(source, target)


def _reduce_scatter(source: Any, target: Any, operation: int, comm: Communicator) -> None:
    comm.reduce_scatter(source, target, operation)


def _broadcast(tensor: Any, root: int, comm: Communicator) -> None:
    comm.broadcast(tensor, root)


def _send(tensor: Any, peer: int, comm: Communicator) -> None:
    comm.send(tensor, peer)


def _receive(tensor: Any, peer: int, comm: Communicator) -> None:
    comm.receive(tensor, peer)
