"""VGG-16 and VGG-19 (Simonyan and Zisserman, 2014, configurations D and E)."""

from __future__ import annotations

from workloads.profile import Profile
from workloads.shapes import Network

VGG16 = (2, 2, 3, 3, 3)
VGG19 = (2, 2, 4, 4, 4)
"""Convolutions in each of the five stages."""
WIDTHS = (64, 128, 256, 512, 512)


def _vgg(name: str, stages: tuple[int, ...], side: int, batch: int, source: str) -> Profile:
    """Stages of 3x3 convolutions, each halved by a pooling, then three FC layers; `side` is the image's in pixels."""
    net = Network(3, side, side)
    x = net.sample
    for stage, (convolutions, width) in enumerate(zip(stages, WIDTHS, strict=True), start=1):
        for index in range(1, convolutions + 1):
            x = net.conv(x, width, 3, bias=True, name=f"conv{stage}_{index}")
        x = net.pool(x, 2, 2, name=f"pool{stage}")
    x = net.fc(x, 4096, name="fc6")
    x = net.fc(x, 4096, name="fc7")
    net.fc(x, 1000, name="fc8")
    return net.profile(name, batch, source)


def vgg16() -> Profile:
    """138.36 M parameters in 32 tensors (TicTac, Table 1)."""
    return _vgg("vgg16", VGG16, 224, 32, "TicTac Table 1; Simonyan and Zisserman 2014, D")


def vgg16_299() -> Profile:
    """205.47 M parameters: NetOps' 6.58 Gb (Table 2) need images of 299 pixels, which make FC6 9 x 9 x 512 x 4096."""
    return _vgg("vgg16-299", VGG16, 299, 32, "NetOps Table 2; Simonyan and Zisserman 2014, D, on 299 x 299 images")


def vgg19() -> Profile:
    """143.67 M parameters, 86.06 % of them in FC layers (Geryon, Sec. III-B)."""
    return _vgg("vgg19", VGG19, 224, 64, "Geryon Sec. III-B and V-A; Simonyan and Zisserman 2014, E")
