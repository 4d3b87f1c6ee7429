"""VGG-16 and VGG-19 (Simonyan and Zisserman, 2014, configurations D and E)."""

from __future__ import annotations

from gradwire.workloads.models.profile import Profile
from gradwire.workloads.models.shapes import Network

VGG16 = (2, 2, 3, 3, 3)
VGG19 = (2, 2, 4, 4, 4)
"""Convolutions in each of the five stages."""
WIDTHS = (64, 128, 256, 512, 512)


def _vgg(
    name: str, stages: tuple[int, ...], side: int, batch: int, source: str, *, normalised: bool = False
) -> Profile:
    """Stages of 3x3 convolutions, each of which ends with a pooling that halves the image, then three FC layers.

    `side` is the image's side in pixels. With `normalised`, convolutions have a batch normalisation (beta alone) in
    place of biases, which makes the same number of parameters.
    """
    net = Network(3, side, side, norm_tensors=("beta",))
    x = net.sample
    for stage, (convolutions, width) in enumerate(zip(stages, WIDTHS, strict=True), start=1):
        for index in range(1, convolutions + 1):
            layer = f"conv{stage}_{index}"
            x = net.conv_norm(x, width, 3, name=layer) if normalised else net.conv(x, width, 3, bias=True, name=layer)
        x = net.pool(x, 2, 2, name=f"pool{stage}")
    x = net.fc(x, 4096, name="fc6")
    x = net.fc(x, 4096, name="fc7")
    net.fc(x, 1000, name="fc8")
    return net.profile(name, batch, source)


def vgg16() -> Profile:
    """138.36 M parameters in 32 tensors (TicTac, Table 1)."""
    return _vgg("vgg16", VGG16, 224, 32, "TicTac Table 1; Simonyan and Zisserman 2014, D")


def vgg16_299() -> Profile:
    """205.47 M parameters: NetOps' 6.58 Gb (Table 2) need images of 299 pixels, which make FC6 9 x 9 x 512 x 4096.

    Its convolutions are normalised: with four variables for each of them and two for each FC layer, placed round robin
    on 4 and 8 servers, all four shares of Table 7 come out as printed. With weights and biases alone, none does.
    """
    source = "NetOps Table 2; Simonyan and Zisserman 2014, D, on 299 x 299 images; normalised: inferred from Table 7"
    return _vgg("vgg16-299", VGG16, 299, 32, source, normalised=True)


def vgg19() -> Profile:
    """143.67 M parameters, 86.06 % of them in FC layers (Geryon, Sec. III-B)."""
    return _vgg("vgg19", VGG19, 224, 64, "Geryon Sec. III-B and V-A; Simonyan and Zisserman 2014, E")
