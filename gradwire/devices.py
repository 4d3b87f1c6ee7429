"""Makes a PyTorch module take the time of a named device, in programs that `gradwire exec` runs.

Computation takes no time on the virtual clock, so a training script sends its gradients all at once. Two lines give
every layer its time:

    from gradwire.devices import takes_time_of
    takes_time_of(model, "v100", batch=32)

The module then sleeps where a device would compute. A layer sleeps for its forward time when its forward pass has
ended, and for its backward time before the gradients of its parameters are there: what the layers above it have
yielded is on its way meanwhile, as on a real device. The times are those of gradwire's plans
(workloads/models/compute_times.py). Where most FLOPs are convolutions, each layer takes what layers of its kind take
(workloads/models/layer_times.py). Otherwise the time of the device's facts or rate is divided among the layers in
proportion to their FLOPs. torch counts FLOPs, and sizes of activations, during the first pass.

A script's own Python needs torch and at least version 3.11; `gradwire exec` puts this package, and nothing else, on
its path.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from gradwire.faults import InputFault
from gradwire.workloads.models.catalogue import BUILT_IN
from gradwire.workloads.models.compute_times import TRAINING_PER_FORWARD, compute_time, goes_by_kind
from gradwire.workloads.models.device_facts import Device
from gradwire.workloads.models.layer_times import layer_times
from gradwire.workloads.models.profile import Layer, LayerKind, Profile, Tensor

LATENESS_NS = 2000
"""A computation that begins this long after the end of the one before, or less, begins at that end: the process woke
up late. Of 2,000 sleeps of 1 ms on each of eight hosts, half ended 32 ns late and the latest 1,040 ns. A program that
waits for the network waits longer: a burst of 64 KiB takes 5 us at 100 Gbit/s."""
CONVOLUTIONS = frozenset((torch.ops.aten.convolution, torch.ops.aten._convolution))
ADDITIONS = frozenset((torch.ops.aten.add, torch.ops.aten.add_))
"""Additions of residuals, each of which is a pass over memory."""
IMAGE_AXES = 3
"""An addition of so many axes or more is one of activations."""
POOLS = torch.nn.modules.pooling
PARAMETERS_TOLERANCE = 0.1
"""Implementations of one model differ by a few per cent of their parameters, such as in the last layer's classes;
other models by more."""


@dataclass
class Pace:
    """A device's one stream: computations in turn, each for its nominal time, so that lateness does not add up."""

    now_ns: Callable[[], int] = time.monotonic_ns
    sleep: Callable[[float], None] = time.sleep
    #: The nominal end of the last computation.
    end_ns: int = 0
    #: The latest that a computation ended after its nominal end.
    latest_ns: int = 0

    def compute(self, duration_s: float) -> None:
        """Returns when a computation of this duration has ended."""
        if duration_s <= 0:
            return
        now_ns = self.now_ns()
        begin_ns = self.end_ns if now_ns - self.end_ns <= LATENESS_NS else now_ns
        self.end_ns = begin_ns + round(duration_s * 1e9)
        while (left_ns := self.end_ns - self.now_ns()) > 0:
            self.sleep(left_ns / 1e9)
        self.latest_ns = max(self.latest_ns, -left_ns)


ONE_DEVICE = Pace()
"""A process has one device, however many of its modules take time."""


@dataclass(frozen=True)
class Speed:
    """The duration of a pass over the whole module: either given in seconds, or that of its FLOPs at a rate."""

    flops_per_s: float | None
    #: Seconds of the forward and of the backward pass, by number of samples. Unused for a device with a rate.
    passes_s: Callable[[int], tuple[float, float]] | None = None
    #: The device of the rate.
    device: Device | None = None

    def times(self, flops: float, samples: int) -> tuple[float, float]:
        """Seconds of the forward and the backward pass over `samples` samples, whose forward passes take `flops`
        together."""
        if self.flops_per_s is not None:
            forward_s = flops / self.flops_per_s
            return forward_s, forward_s * (TRAINING_PER_FORWARD - 1)
        assert self.passes_s is not None
        return self.passes_s(samples)


class LayerTimes:
    """The times that a module's layers take from its second pass on; its first pass takes the same in sum. Made by
    `takes_time_of`.

    forward_s and backward_s have the seconds of one call by the name of the layer, as `named_modules` has them. They
    are empty before the first pass, and have no layer that takes no time: where layers go by their FLOPs, these are
    normalisations, activations and poolings.
    """

    def __init__(self, model: torch.nn.Module, speed: Speed, batch: int | None, pace: Pace) -> None:
        self.forward_s: dict[str, float] = {}
        self.backward_s: dict[str, float] = {}
        self.pace = pace
        self._speed, self._batch = speed, batch
        self._count: _Count | None = None
        self._first_pass = ExitStack()
        self._is_recurrent = any(isinstance(module, torch.nn.RNNBase) for module in model.modules())
        self._handles = [model.register_forward_pre_hook(self._begin, with_kwargs=True)]
        for name, module in model.named_modules():
            self._handles.append(module.register_forward_pre_hook(partial(self._enter, name)))
            self._handles.append(module.register_forward_hook(partial(self._leave, name), always_call=True))
        self._handles.append(model.register_forward_hook(self._end, always_call=True))

    def remove(self) -> None:
        """Lets the module take no time again."""
        for handle in self._handles:
            handle.remove()

    def _begin(self, _: object, words: Sequence[object], named: Mapping[str, object]) -> None:
        """Starts to count when the first pass begins."""
        if self.forward_s or self._count is not None:
            return
        real_samples = next((len(tensor) for tensor in _tensors((words, dict(named))) if tensor.dim()), 0)
        if not real_samples:
            raise InputFault(
                "takes_time_of: the module was called without a tensor, so its number of samples is not known"
            )
        self._count = _Count(real_samples)
        self._first_pass.enter_context(self._count)
        if self._is_recurrent:
            # oneDNN's LSTM is one operation, for which torch has no formula; without oneDNN, it is matrix products.
            self._first_pass.enter_context(torch.backends.mkldnn.flags(enabled=False))

    def _enter(self, name: str, *_: object) -> None:
        if self._count is not None:
            self._count.enter(name)

    def _leave(self, name: str, module: torch.nn.Module, words: object, output: object) -> None:
        """Takes the layer's forward time, and makes its backward pass take its own."""
        if self._count is not None:
            self._count.leave(name, module, words, output)
        else:
            self.pace.compute(self.forward_s.get(name, 0.0))
        if self._count is not None or name in self.backward_s:
            _before_backward(output, lambda: self.pace.compute(self.backward_s.get(name, 0.0)))

    def _end(self, _: object, __: object, output: object) -> None:
        """Ends the first pass: from what was counted come all times."""
        if self._count is None:
            return
        count, self._count = self._count, None
        self._first_pass.close()
        if output is None:  # as always_call has it after an exception: the next pass is the first
            return
        self._decide(count)
        self.pace.compute(sum(self.forward_s[name] * count.calls[name] for name in self.forward_s))

    def _decide(self, count: _Count) -> None:
        total = sum(count.flops.values())
        if not total:
            raise InputFault(
                "takes_time_of: torch counts no FLOP in this module: it has no matrix product and no convolution, so "
                "no layer's share of the time is known"
            )
        samples = count.samples if self._batch is None else self._batch
        known = self._speed.device
        if known is not None and count.layers:
            profile = Profile("module", tuple(layer for _, layer in count.layers), samples, "counted by torch")
            if goes_by_kind(profile, known):
                self._take_kinds(count, profile, known)
                return
        forward_s, backward_s = self._speed.times(total / count.samples * samples, samples)
        for name, flops in count.flops.items():
            if flops:
                share = flops / total / count.calls[name]
                self.forward_s[name], self.backward_s[name] = forward_s * share, backward_s * share

    def _take_kinds(self, count: _Count, profile: Profile, device: Device) -> None:
        """Gives each layer the mean of its calls' times by kind."""
        assert device.roof is not None
        assert device.shares is not None
        passes = zip(*layer_times(profile, profile.batch, device.roof, device.shares), strict=True)
        for (name, _), (forward_s, backward_s) in zip(count.layers, passes, strict=True):
            self.forward_s[name] = self.forward_s.get(name, 0.0) + forward_s / count.calls[name]
            self.backward_s[name] = self.backward_s.get(name, 0.0) + backward_s / count.calls[name]


def takes_time_of(
    model: torch.nn.Module,
    device: str | None = None,
    *,
    batch: int | None = None,
    profile: str | None = None,
    iteration_s: float | None = None,
    pace: Pace = ONE_DEVICE,
) -> LayerTimes:
    """Makes each layer of `model` take the time that it takes on `device`; to be called before or after the model is
    wrapped (DDP).

    device: one of `gradwire devices`. Of those with a data sheet, such as `v100`, it is known how fast they train any
        module, and of `v100`, `a100`, `h100`, `h200` and `b200` with `-kernels`, what its kernels alone take. All
        others have times of some models:
        name the one that this is with `profile`.
    batch: samples that the device works on in one pass; by default as many as the module is given, by the first axis
        of its first tensor. Their real number changes no time, so that a script may be given one sample and take the
        time of 32.
    profile: the model as gradwire knows it, such as "resnet50" (`gradwire models`), whose time is divided among the
        layers.
    iteration_s: seconds of a forward and a backward pass together, a third of them forward, in place of a device.

    A module that is called several times in a pass takes as much each time. Where layers go by FLOPs, a backward pass
    takes twice those of the forward pass, as in gradwire's plans, also where a first or a frozen layer spares a part. The
    optimiser takes none. Raises InputFault for an unknown name, a device without a time for the model, or a profile of another model;
    and during the first pass, if nothing in it can be counted.
    """
    if not isinstance(model, torch.nn.Module):
        raise InputFault(f"takes_time_of: wants a torch.nn.Module, and got {type(model).__name__}")
    if hasattr(model, "_orig_mod"):
        raise InputFault(
            "takes_time_of: this is a compiled module, whose layers are gone; call it before torch.compile, or do not "
            "compile"
        )
    if batch is not None and batch < 1:
        raise InputFault(f"takes_time_of: batch={batch}: must be at least 1")
    return LayerTimes(model, _speed(model, device, profile, iteration_s), batch, pace)


def _speed(model: torch.nn.Module, device: str | None, profile: str | None, iteration_s: float | None) -> Speed:
    if (device is None) == (iteration_s is None):
        raise InputFault('takes_time_of: wants either a device, such as takes_time_of(model, "v100"), or iteration_s')
    if iteration_s is not None:
        if iteration_s <= 0:
            raise InputFault(f"takes_time_of: iteration_s={iteration_s}: must be above 0")
        forward_s = iteration_s / TRAINING_PER_FORWARD
        return Speed(None, lambda _: (forward_s, iteration_s - forward_s))
    assert device is not None
    listed = BUILT_IN.device(device)
    if profile is None:
        if listed.flops_per_s is None:
            models = sorted({fact.model for fact in listed.facts} | set(listed.alike))
            raise InputFault(
                f"takes_time_of: of '{device}' no rate is known, only the times of {', '.join(models)}; say which of "
                "them this model is, "
                f'such as profile="{models[0]}"'
            )
        return Speed(listed.flops_per_s * listed.efficiency, device=listed)
    known = BUILT_IN.model(profile)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if abs(parameters / known.parameters - 1) > PARAMETERS_TOLERANCE:
        raise InputFault(
            f"takes_time_of: this model has {parameters / 1e6:.1f} million parameters and profile '{profile}' has "
            f"{known.parameters / 1e6:.1f}; name the model that it is, or leave the profile out on a device with a rate"
        )
    compute_time(known, device)  # refuses a device that has no time for it now, and not during the first pass

    def passes_s(samples: int) -> tuple[float, float]:
        computed = compute_time(known, device, batch=samples)
        return sum(computed.forward_s), sum(computed.backward_s)

    return Speed(None, passes_s)


@dataclass
class _Running:
    """A module whose forward pass has begun and not ended."""

    name: str
    begin_flops: int
    #: FLOPs of the modules in it that have ended.
    inner_flops: int = 0
    #: Numbers that residual additions in it yielded, but not in modules in it.
    added: list[int] = field(default_factory=list)
    has_convolved: bool = False


class _Count(TorchDispatchMode):
    """Counts FLOPs as torch does while it is entered: by name of the module, without those of the modules in it. Keeps
    what each call does as layers of a profile, in the order in which they end."""

    def __init__(self, samples: int) -> None:
        super().__init__()
        self.samples = samples
        self.flops: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.layers: list[tuple[str, Layer]] = []
        self._total = 0
        self._running: list[_Running] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Carries out an operation, and adds what it takes if torch has a formula for it."""
        out = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            self._total += formula(*args, **(kwargs or {}), out_val=out)
        if self._running:
            if func._overloadpacket in CONVOLUTIONS:
                self._running[-1].has_convolved = True
            elif func._overloadpacket in ADDITIONS and _is_of_activations(args):
                self._running[-1].added.append(out.numel())
        return out

    def enter(self, name: str) -> None:
        """Notes that a module begins."""
        self._running.append(_Running(name, self._total))

    def leave(self, name: str, module: torch.nn.Module, words: object, output: object) -> None:
        """Notes that a module has ended, what it was given and what it yields."""
        ended = self._running.pop()
        assert ended.name == name, (ended.name, name)
        flops = self._total - ended.begin_flops
        self.flops[name] += flops - ended.inner_flops
        self.calls[name] += 1
        if self._running:
            self._running[-1].inner_flops += flops
        read, yielded = (sum(tensor.numel() for tensor in _tensors(each)) / self.samples for each in (words, output))
        kind = _kind(module, flops - ended.inner_flops, has_convolved=ended.has_convolved)
        if kind is not None:
            own = (flops - ended.inner_flops) / self.samples
            operations = _pooled(module, read, yielded) if kind is LayerKind.POOL else own
            self.layers.append((name, _layer(name, module, kind, operations, read, yielded)))
        for numbers in ended.added:
            each = numbers / self.samples
            addition = Layer(name, LayerKind.OTHER, (), each, (), elements_in=each, elements_out=each)
            self.layers.insert(0, (name, addition))  # not last, where a model has its loss


def _is_of_activations(args: Sequence[object]) -> bool:
    """Returns whether two tensors of one shape are added that have axes for samples, channels and places."""
    both = [each for each in args if isinstance(each, torch.Tensor)]
    return len(both) == 2 and both[0].shape == both[1].shape and both[0].dim() >= IMAGE_AXES


def _kind(module: torch.nn.Module, own_flops: float, *, has_convolved: bool) -> LayerKind | None:
    """Kind of the layer that a module is itself, without the modules in it. None for a module that takes no time or is
    timed with another layer, as activations are with the layer before them."""
    if isinstance(module, torch.nn.modules.batchnorm._NormBase | torch.nn.LayerNorm | torch.nn.GroupNorm):
        return LayerKind.NORM
    if isinstance(module, POOLS._MaxPoolNd | POOLS._AvgPoolNd | POOLS._AdaptiveAvgPoolNd | POOLS._AdaptiveMaxPoolNd):
        return LayerKind.POOL
    if not own_flops:
        return None
    return LayerKind.CONV if has_convolved else LayerKind.FC


def _pooled(module: torch.nn.Module, read: float, yielded: float) -> float:
    """Numbers that the windows of a pooling read."""
    window = getattr(module, "kernel_size", None)
    if window is None:
        return read
    axes = 1 if isinstance(module, torch.nn.MaxPool1d | torch.nn.AvgPool1d) else 2
    axes = 3 if isinstance(module, torch.nn.MaxPool3d | torch.nn.AvgPool3d) else axes
    return yielded * (math.prod(window) if isinstance(window, tuple) else window**axes)


def _layer(
    name: str, module: torch.nn.Module, kind: LayerKind, operations: float, read: float, yielded: float
) -> Layer:
    """The layer of a profile that takes as long as a call of this module without the modules in it."""
    tensors = tuple(
        Tensor(own, parameter.numel()) for own, parameter in module.named_parameters(recurse=False) if parameter.numel()
    )
    # Running means and variances tell normalisations of images from those of sequences.
    untrained = 2 if isinstance(module, torch.nn.modules.batchnorm._NormBase) else 0
    return Layer(name, kind, tensors, operations, (), untrained, elements_in=read, elements_out=yielded)


def _before_backward(output: object, compute: Callable[[], None]) -> None:
    """Has `compute` called when the backward pass comes to what a layer put out, once for one call of the layer.

    That is before the layer's own gradients are there. Those of the layers above are, and have been handed on: the
    autograd engine accumulates gradients before it continues with any other operation whose turn it could be.
    """
    operations = {tensor.grad_fn for tensor in _tensors(output) if tensor.grad_fn is not None}
    if len(operations) == 1:
        operations.pop().register_prehook(lambda _: compute())
        return
    begun: list[object] = []

    def once(_: object) -> None:
        if not begun:
            begun.append(True)
            compute()

    for operation in operations:
        operation.register_prehook(once)


def _tensors(value: object) -> Iterator[torch.Tensor]:
    """All tensors in a structure of tuples, lists and mappings."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _tensors(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)
