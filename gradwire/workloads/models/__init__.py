"""Models as written layer definitions, whose shapes give the counts of parameters and FLOPs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from gradwire.faults import InputFault
from gradwire.nearest_names import question
from gradwire.workloads.models import convolutional, inception, sequences, synthetic
from gradwire.workloads.models.profile import Profile
from gradwire.workloads.models.published_models import TRANSFORMERS

_MODELS: dict[str, Callable[[], Profile]] = {
    "alexnet": convolutional.alexnet,
    "alexnet-bn": convolutional.alexnet_bn,
    "alexnet-v2": convolutional.alexnet_v2,
    "vgg16": convolutional.vgg16,
    "vgg16-299": convolutional.vgg16_299,
    "vgg19": convolutional.vgg19,
    "inception-v1": inception.inception_v1,
    "inception-v2": inception.inception_v2,
    "inception-v3": inception.inception_v3,
    "inception-v3-mxnet": inception.inception_v3_mxnet,
    "inception-v3-netops": inception.inception_v3_netops,
    "inception-v3-with-head": inception.inception_v3_with_head,
    "resnet50": convolutional.resnet50,
    "resnet50-gf": convolutional.resnet50_gradientflow,
    "resnet50-slim": convolutional.resnet50_slim,
    "resnet50-torchvision": convolutional.resnet50_torchvision,
    "resnet50-v2": convolutional.resnet50_v2,
    "resnet101": convolutional.resnet101,
    "resnet101-netops": convolutional.resnet101_netops,
    "resnet101-torchvision": convolutional.resnet101_torchvision,
    "resnet101-v2": convolutional.resnet101_v2,
    "resnet152-v2": convolutional.resnet152_v2,
    "resnet200": convolutional.resnet200,
    "resnext50": convolutional.resnext50,
    "resnext101": convolutional.resnext101,
    "resnext101-32x4d": convolutional.resnext101_narrow,
    "yolo-v1": convolutional.yolo_v1,
    "sockeye": sequences.sockeye,
    **TRANSFORMERS,
}


@cache
def model(name: str) -> Profile:
    """Returns the built-in model called `name`, one of `model_names`, with the modules that a suffix such as
    `+25compute` adds.

    Raises InputFault, listing all names and the nearest one, if there is no such model.
    """
    return model_among(_MODELS, name)


def model_among(models: Mapping[str, Callable[[], Profile]], name: str) -> Profile:
    """Returns the one of these models that is called `name`. A suffix like `+25compute` or `+25network` adds modules;
    see `synthetic`.

    Raises InputFault, listing all names and the nearest one, if there is no such model.
    """
    base = synthetic.base_name(name)
    if base not in models:
        meant = question(base, models)
        hint = f"; {meant}" if meant else "."
        raise InputFault(f"model '{name}' is not known{hint} Known: {', '.join(models)}")
    profile = models[base]()
    for kind, count in synthetic.parse_added(name):
        profile = synthetic.add_modules(profile, kind, count)
    return profile


def model_names() -> list[str]:
    """Lists the names that `model` takes, without added modules."""
    return list(_MODELS)
