"""Geryon: two (or more) flows of different priority between each worker and server, so that the network itself schedules.

Source: Geryon, section III. The urgency of layer l of L (counted from 1, layers with parameters only) is 1 - l/L.
Coarse rule (III-B): convolutional layers urgent, fully connected layers not. Threshold rule (III-C): urgent if the urgency is above
the threshold; thresholds are tried in turn during the first iterations and the fastest is kept. The second one is for models "where the
parameters of FC layers occupy only a small fraction of the total", such as ResNet-50 with 8 %.
With N priorities, N - 1 thresholds at equal steps divide the urgency range.
"""

from __future__ import annotations

from gradwire.workloads.engines.tensorflow import ClassOfLayer
from gradwire.workloads.models.profile import LayerKind, Profile


def urgencies(profile: Profile) -> dict[int, float]:
    """Urgency of each layer that has parameters, by layer index."""
    with_parameters = [index for index, layer in enumerate(profile.layers) if layer.tensors]
    return {index: 1 - (rank + 1) / len(with_parameters) for rank, index in enumerate(with_parameters)}


MOSTLY = 0.5
"""Of the parameters. The paper's other models have 78 % and more in fully connected layers, so any limit between is the same to them."""


def suits_coarse_rule(profile: Profile) -> bool:
    """Whether fully connected layers hold most of the parameters, so that convolutions alone are little to send first."""
    connected = (layer for layer in profile.layers if layer.kind is LayerKind.FC)
    return sum(tensor.parameters for layer in connected for tensor in layer.tensors) > MOSTLY * profile.parameters


def coarse_rule(profile: Profile) -> ClassOfLayer:
    """Fully connected layers go low (class 1), everything else high (class 0)."""
    return lambda layer: 1 if profile.layers[layer].kind is LayerKind.FC else 0


def threshold_rule(profile: Profile, thresholds: list[float]) -> ClassOfLayer:
    """Class k holds the layers whose urgency is above k of the thresholds counted from the highest; none above: the lowest class."""
    urgency = urgencies(profile)
    descending = sorted(thresholds, reverse=True)

    def class_of(layer: int) -> int:
        return next((k for k, threshold in enumerate(descending) if urgency[layer] > threshold), len(descending))

    return class_of
