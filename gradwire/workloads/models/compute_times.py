"""Compute times: how long each layer of a model takes on a device, from printed single-GPU facts.

An iteration's time comes from a table of facts (workloads/models/device_facts.py). A model without a fact takes what its
layers take one by one (workloads/models/layer_times.py) where most of it are convolutions, or else the share of the peak
that trainings of transformers reach. A fact is divided among the layers in
proportion to their FLOPs, which recurrent layers execute at a lower rate. Real GPUs take less time per FLOP in wide,
small layers: GradientFlow measured 7.1 % of the backward time in the top 8 layers of AlexNet and 8.9 % in the top 20
of ResNet-50 (Fig. 13), where FLOPs suggest 8.1 % and about 16 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gradwire.faults import InputFault
from gradwire.workloads.models.catalogue import BUILT_IN, Catalogue
from gradwire.workloads.models.device_facts import ByKind, Device, Fact
from gradwire.workloads.models.layer_times import has_kinds, is_convolutional, layer_times
from gradwire.workloads.models.profile import LayerKind, Profile
from gradwire.workloads.models.synthetic import PREFIX, base_name

TRAINING_PER_FORWARD = 3
"""A training step costs as much as three forward passes: the backward pass computes two gradients, of inputs and of
weights."""
BY_KIND = "by kind of layer"
"""Beginning of the source of times that come from a device's layers one by one."""
RELATIVE_RATE = {LayerKind.LSTM: 1356 / 9900}
"""FLOP/s that layers of a kind reach, relative to the other kinds. A recurrent layer multiplies one token of each
sample at a time: cuBLAS on a Titan X (Pascal) reaches 1356 GFLOP/s for 32 rows by 2048 x 2048, and 9900 GFLOP/s for
7000 rows (measured by openai-gemm, fp32)."""


@dataclass(frozen=True)
class ComputeTime:
    """Seconds that each layer of a profile takes in one iteration, for the whole batch."""

    forward_s: tuple[float, ...]
    backward_s: tuple[float, ...]
    source: str
    #: The printed cell that the time was inferred from, which is therefore not predicted by it; None for independent
    #: facts.
    fitted_on: str | None = None

    @property
    def iteration_s(self) -> float:
        """Seconds of a whole iteration without any communication."""
        return sum(self.forward_s) + sum(self.backward_s)


def compute_time(
    profile: Profile,
    device: str,
    *,
    batch: int | None = None,
    iteration_s: float | None = None,
    forward_share: float = 1 / 3,
    forward_s: float | None = None,
    speedup: Mapping[LayerKind, float] | None = None,
    catalogue: Catalogue = BUILT_IN,
) -> ComputeTime:
    """Computes how long each layer of `profile` takes on `device` in an iteration of `batch` samples (by default the
    profile's own number).

    - `iteration_s` is the scenario's own time for this batch and replaces the facts of the device.
    - `forward_share` is the forward pass's share of the time where the source does not give both; 1:2, as P3's P4000
      shows.
    - `forward_s` is the time of the whole forward pass for these samples, in place of that share; the backward pass
      stays as it is.
    - `speedup` divides the times of a kind of layer (NetOps, Sec. 8.6, divides convolutions by 1 to 3).
    - `catalogue` has the device, and the models of its facts.

    Raises InputFault for an unknown device, a model that it has no time for, or a number out of range.
    """
    samples = profile.batch if batch is None else batch
    faster = speedup or {}
    _check(samples, iteration_s, forward_share, faster)
    if iteration_s is None:
        listed = catalogue.device_for(device, profile)
        known = _known_fact(profile, listed, samples, catalogue)
        if known is None and goes_by_kind(profile, listed):
            assert listed.roof is not None
            assert listed.shares is not None
            times = layer_times(profile, samples, listed.roof, listed.shares)
            return _by_kind(
                profile, times, f"{BY_KIND}, {listed.description}; {listed.shares.source}", forward_s, faster
            )
        fact = known or _fact_of_peak(profile, device, listed, samples, catalogue)
    else:
        fact = Fact(
            profile.name, samples, iteration_s, f"given by the scenario: {iteration_s:g} s for {samples} samples"
        )
    if isinstance(fact.seconds, tuple):
        forward, backward = fact.seconds
    else:
        forward, backward = fact.seconds * forward_share, fact.seconds * (1 - forward_share)
    if forward_s is not None:
        forward = forward_s
    return ComputeTime(
        _split(profile, forward, _forward_weights(profile), faster),
        _split(profile, backward, _backward_weights(profile, fact.first_backward_free), faster),
        fact.source,
        fact.fitted_on,
    )


def with_modules_of(base: ComputeTime, grown: Profile, added: ComputeTime) -> ComputeTime:
    """Combines the times of a model with added modules (workloads/models/synthetic.py) from two devices.

    The model's own layers take their times from `base`, which is of the model without modules. The modules take theirs
    from `added`, which is of the whole model `grown` on another device.
    """
    forward_s, backward_s = iter(base.forward_s), iter(base.backward_s)
    is_added = [layer.name.startswith(PREFIX) for layer in grown.layers]
    return ComputeTime(
        tuple(time if is_new else next(forward_s) for is_new, time in zip(is_added, added.forward_s, strict=True)),
        tuple(time if is_new else next(backward_s) for is_new, time in zip(is_added, added.backward_s, strict=True)),
        f"{base.source}; modules: {added.source}",
        base.fitted_on,
    )


def goes_by_kind(profile: Profile, listed: Device) -> bool:
    """Returns whether the times of a model without a fact on this device are those of its layers' kinds."""
    if listed.shares is None or listed.roof is None or not has_kinds(profile):
        return False
    return listed.by_kind is ByKind.ALL or is_convolutional(profile)


def _check(batch: int, iteration_s: float | None, forward_share: float, speedup: Mapping[LayerKind, float]) -> None:
    if batch < 1:
        raise InputFault(f"batch = {batch}: must be at least 1")
    if iteration_s is not None and iteration_s <= 0:
        raise InputFault(f"iteration time = {iteration_s} s: must be above 0")
    if not 0 < forward_share < 1:
        raise InputFault(f"forward_share = {forward_share}: must be above 0 and below 1 (a third is usual)")
    for kind, factor in speedup.items():
        if factor <= 0:
            raise InputFault(f"speedup of {kind} = {factor}: must be above 0 (2 halves its time)")


def _by_kind(
    profile: Profile,
    times: tuple[list[float], list[float]],
    source: str,
    forward_s: float | None,
    speedup: Mapping[LayerKind, float],
) -> ComputeTime:
    """The layers' own times, of which a scenario may say the forward pass's sum and some kinds' speed-ups."""
    forward, backward = times
    whole_forward_s = sum(forward) if forward_s is None else forward_s
    return ComputeTime(
        _split(profile, whole_forward_s, forward, speedup), _split(profile, sum(backward), backward, speedup), source
    )


def _known_fact(profile: Profile, listed: Device, batch: int, catalogue: Catalogue) -> Fact | None:
    """The time of `batch` samples, scaled from the nearest fact of the model or of one alike."""
    base = base_name(profile.name)
    for name in (base, listed.alike.get(base)):
        facts = [fact for fact in listed.facts if fact.model == name]
        if facts:
            nearest = min(facts, key=lambda fact: abs(math.log(fact.batch / batch)))
            return _transfer(nearest, profile, batch, catalogue)
    return None


def _fact_of_peak(profile: Profile, device: str, listed: Device, batch: int, catalogue: Catalogue) -> Fact:
    """The time of `batch` samples at the device's share of its peak rate."""
    if listed.flops_per_s is None:
        models = sorted({fact.model for fact in listed.facts} | set(listed.alike))
        raise InputFault(
            f"device '{device}' has no time for model '{profile.name}', only for {', '.join(models)}. "
            f"{catalogue.known_for(profile)}"
        )
    seconds = TRAINING_PER_FORWARD * profile.flops * batch / (listed.flops_per_s * listed.efficiency)
    source = f"{listed.efficiency:.0%} of {listed.description}: {listed.efficiency_source}"
    if is_convolutional(profile) and listed.shares is not None:
        source += (
            ". That is for transformers, and most convolutional models take longer: this one does not say how many "
            "numbers its layers move (elements_in, elements_out), so they have no times by kind"
        )
    return Fact(profile.name, batch, seconds, source)


def _transfer(fact: Fact, profile: Profile, batch: int, catalogue: Catalogue) -> Fact:
    """Scales a fact to another batch size, at the same rate, and to an alike or extended model, at the same seconds
    per FLOP."""
    source = fact.source
    forward_ratio = backward_ratio = batch / fact.batch
    if batch != fact.batch:
        source += f", batch {fact.batch} scaled to {batch}"
    if profile.name != fact.model:
        measured = catalogue.model(fact.model)
        free = fact.first_backward_free
        forward_ratio *= sum(_forward_weights(profile)) / sum(_forward_weights(measured))
        backward_ratio *= sum(_backward_weights(profile, free)) / sum(_backward_weights(measured, free))
        source += f", scaled by FLOPs from {fact.model}"
    seconds: float | tuple[float, float]
    if isinstance(fact.seconds, tuple):
        seconds = (fact.seconds[0] * forward_ratio, fact.seconds[1] * backward_ratio)
    else:
        seconds = fact.seconds * forward_ratio
    return replace(fact, model=profile.name, batch=batch, seconds=seconds, source=source)


def _forward_weights(profile: Profile) -> list[float]:
    """Weights to which the layers' forward times are proportional: their FLOPs, divided by the rate of their kind."""
    return [layer.flops / RELATIVE_RATE.get(layer.kind, 1.0) for layer in profile.layers]


def _backward_weights(profile: Profile, first_free: bool) -> list[float]:
    """Weights of the backward pass. With `first_free`, nothing before the first gradient takes any time."""
    last = profile.tensor_layer[-1]
    weights = _forward_weights(profile)
    return [0.0 if first_free and index >= last else weight for index, weight in enumerate(weights)]


def _split(
    profile: Profile, seconds: float, weights: list[float], speedup: Mapping[LayerKind, float]
) -> tuple[float, ...]:
    """Divides `seconds` among the layers in proportion to `weights`, then each layer's time by its kind's speed-up."""
    total = sum(weights)
    return tuple(
        seconds * weight / total / speedup.get(layer.kind, 1.0)
        for layer, weight in zip(profile.layers, weights, strict=True)
    )
