"""Convolutional networks: AlexNet in the three variants of the papers, which differ by a fifth in size; VGG-16 and
VGG-19 (Simonyan and Zisserman, 2014, configurations D and E); YOLO v1 (Redmon et al., 2016), 24 convolutions and two
FC layers; and bottleneck ResNets.

ResNets of versions 1 and 2 are those that tf_cnn_benchmarks, TF-slim and torchvision build (He et al., 2015 and 2016).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gradwire.workloads.models.profile import Profile
from gradwire.workloads.models.shapes import Network, Node


def _convolutions(net: Network, *, groups: int, norm: bool) -> Node:
    """The five convolutions of Krizhevsky et al. (2012).

    `groups` is 2 for the original's split over two GPUs, 1 without it.
    """

    def conv(x: Node, index: int, out: int, kernel: int, stride: int, padding: int, split: int) -> Node:
        x = net.conv(x, out, kernel, stride, padding, bias=True, groups=split, name=f"conv{index}")
        return net.norm(x, f"conv{index}/norm") if norm else x

    x = conv(net.sample, 1, 96, 11, 4, 0, 1)
    x = net.pool(x, 3, 2)
    x = conv(x, 2, 256, 5, 1, 2, groups)
    x = net.pool(x, 3, 2)
    x = conv(x, 3, 384, 3, 1, 1, 1)
    x = conv(x, 4, 384, 3, 1, 1, groups)
    x = conv(x, 5, 256, 3, 1, 1, groups)
    return net.pool(x, 3, 2)


def _classifier(net: Network, x: Node) -> None:
    x = net.fc(x, 4096, name="fc6")
    x = net.fc(x, 4096, name="fc7")
    net.fc(x, 1000, name="fc8")


def alexnet() -> Profile:
    """Without channel groups: 62.378 M parameters, the only variant with Geryon's FC share of 93.99 % (Sec. III-B)."""
    net = Network(3, 227, 227)
    _classifier(net, _convolutions(net, groups=1, norm=False))
    return net.profile("alexnet", 512, "Geryon Sec. III-B and V-A; Krizhevsky et al. 2012, ungrouped")


def alexnet_bn() -> Profile:
    """Grouped, with batch normalisation after each convolution: GradientFlow's 60.9 M parameters in 26 tensors (Fig.
    5)."""
    net = Network(3, 227, 227, norm_tensors=("gamma", "beta"))
    _classifier(net, _convolutions(net, groups=2, norm=True))
    return net.profile("alexnet-bn", 128, "GradientFlow Fig. 5 and Sec. 2.3; Jia et al. 2018")


def alexnet_v2() -> Profile:
    """TF-slim's alexnet_v2 ("One weird trick", Krizhevsky 2014): 50.30 M parameters in 16 tensors (TicTac, Table 1)."""
    net = Network(3, 224, 224)
    x = net.conv(net.sample, 64, 11, 4, "valid", bias=True, name="conv1")
    x = net.pool(x, 3, 2)
    x = net.conv(x, 192, 5, bias=True, name="conv2")
    x = net.pool(x, 3, 2)
    x = net.conv(x, 384, 3, bias=True, name="conv3")
    x = net.conv(x, 384, 3, bias=True, name="conv4")
    x = net.conv(x, 256, 3, bias=True, name="conv5")
    _classifier(net, net.pool(x, 3, 2))
    return net.profile("alexnet-v2", 512, "TicTac Table 1; TF-slim alexnet_v2")


VGG16 = (2, 2, 3, 3, 3)
VGG19 = (2, 2, 4, 4, 4)
"""Convolutions in each of the five stages."""
VGG_WIDTHS = (64, 128, 256, 512, 512)


def _vgg(
    name: str, stages: tuple[int, ...], side: int, batch: int, source: str, *, normalised: bool = False
) -> Profile:
    """Stages of 3x3 convolutions, each of which ends with a pooling that halves the image, then three FC layers.

    `side` is the image's side in pixels. With `normalised`, convolutions have a batch normalisation (beta alone) in
    place of biases, which makes the same number of parameters.
    """
    net = Network(3, side, side, norm_tensors=("beta",))
    x = net.sample
    for stage, (convolutions, width) in enumerate(zip(stages, VGG_WIDTHS, strict=True), start=1):
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


GRID = 7
"""The image is cut into GRID x GRID cells, each predicting 2 boxes of 5 numbers and 20 classes (Pascal VOC)."""
POOL = (0, 0)
TRUNK = (
    [(192, 3), POOL]
    + [(128, 1), (256, 3), (256, 1), (512, 3), POOL]
    + [(256, 1), (512, 3)] * 4
    + [(512, 1), (1024, 3), POOL]
    + [(512, 1), (1024, 3)] * 2
    + [(1024, 3)]
)
"""(channels, kernel side) of the layers between the two convolutions of stride 2, Fig. 3 of the YOLO paper."""


def yolo_v1() -> Profile:
    """271.7 M parameters, 77.86 % of them in the FC layers (Geryon, Sec. III-B): convolutions have no biases, FC
    layers do."""
    net = Network(3, 448, 448)
    x = net.conv(net.sample, 64, 7, 2)
    x = net.pool(x, 2, 2)
    for channels, kernel in TRUNK:
        x = net.conv(x, channels, kernel) if channels else net.pool(x, 2, 2)
    x = net.conv(x, 1024, 3, 2)
    x = net.conv(x, 1024, 3)
    x = net.conv(x, 1024, 3)
    x = net.fc(x, 4096)
    net.fc(x, GRID * GRID * (2 * 5 + 20))
    return net.profile("yolo-v1", 64, "Geryon Sec. III-B and V-A; Redmon et al. 2016, Fig. 3")


RESNET_UNITS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3), 200: (3, 24, 36, 3)}
"""Residual units in each of the four blocks, by depth."""
RESNET_WIDTHS = (64, 128, 256, 512)
"""Bottleneck channels of each block; its units yield four times as many."""


@dataclass(frozen=True)
class Style:
    """The differences between the code bases."""

    #: Whether the first unit of blocks 2 to 4 halves the image, in its first 1x1 convolution (He et al. and
    #: tf_cnn_benchmarks) unless `halves_in_middle`; otherwise the last unit of blocks 1 to 3 does, in its 3x3
    #: convolution (TF-slim).
    stride_first: bool
    #: Trainable tensors of a normalisation. TF-slim as TicTac used it trains beta only, as its tensor counts show.
    norm_tensors: tuple[str, ...]
    #: Whether a batch normalisation follows the projection on a shortcut.
    shortcut_norm: bool = True
    #: Whether the projection on a shortcut is created and run after the three convolutions, so that its gradients come
    #: before theirs.
    shortcut_last: bool = False
    #: Whether a first unit halves the image in its 3x3 convolution.
    halves_in_middle: bool = False
    #: Groups of the 3x3 convolution, and its channels in each group of a unit of the first block (ResNeXt).
    groups: int = 1
    group_width: int = RESNET_WIDTHS[0]


TF_BENCHMARKS = Style(stride_first=True, norm_tensors=("beta", "gamma"))
TF_SLIM = Style(stride_first=False, norm_tensors=("beta",))
TF_SLIM_SCALED = Style(stride_first=False, norm_tensors=("beta", "gamma"))
"""TF-slim's own default for ResNets (resnet_arg_scope sets batch_norm_scale)."""
TORCHVISION = Style(stride_first=True, norm_tensors=("gamma", "beta"), shortcut_last=True, halves_in_middle=True)
"""https://github.com/pytorch/vision/blob/v0.20.0/torchvision/models/resnet.py, class Bottleneck: the stride is in the
3x3 convolution, and the shortcut's `downsample` runs last."""
RESNEXT_4, RESNEXT_8 = (replace(TORCHVISION, groups=32, group_width=width) for width in (4, 8))
"""Xie et al., Aggregated Residual Transformations for Deep Neural Networks, CVPR 2017: 32 groups of 4 or 8 channels."""
GRADIENTFLOW = Style(stride_first=True, norm_tensors=("gamma", "beta"), shortcut_norm=False)


def _unit_v1(net: Network, x: Node, width: int, stride: int, style: Style, name: str) -> Node:
    """1x1, 3x3 and 1x1 convolutions, each normalised, plus the shortcut, whose variables TensorFlow's code bases
    create first."""
    first, middle = (stride, 1) if style.stride_first and not style.halves_in_middle else (1, stride)
    shortcut = None if style.shortcut_last else _shortcut(net, x, width, stride, style, name)
    inner = width * style.group_width // RESNET_WIDTHS[0] * style.groups
    y = net.conv_norm(x, inner, 1, first, name=f"{name}/conv1")
    y = net.conv_norm(y, inner, 3, middle, groups=style.groups, name=f"{name}/conv2")
    y = net.conv_norm(y, 4 * width, 1, name=f"{name}/conv3")
    return net.add(shortcut or _shortcut(net, x, width, stride, style, name), y, f"{name}/add")


def _shortcut(net: Network, x: Node, width: int, stride: int, style: Style, name: str) -> Node:
    """The input itself where shapes agree; a projection, or a subsampling, where they do not."""
    if x.shape[0] != 4 * width:
        project = net.conv_norm if style.shortcut_norm else net.conv
        return project(x, 4 * width, 1, stride, name=f"{name}/shortcut")
    return x if stride == 1 else net.pool(x, 1, stride, name=f"{name}/subsample")


def _unit_v2(net: Network, x: Node, width: int, stride: int, style: Style, name: str) -> Node:
    """A unit that is normalised before its convolutions; the projection and the last convolution have biases instead
    (TF-slim)."""
    first, middle = (stride, 1) if style.stride_first else (1, stride)
    before = net.norm(x, f"{name}/preact")
    if x.shape[0] != 4 * width:
        shortcut = net.conv(before, 4 * width, 1, stride, bias=True, name=f"{name}/shortcut")
    else:
        shortcut = x if stride == 1 else net.pool(x, 1, stride, name=f"{name}/subsample")
    y = net.conv_norm(before, width, 1, first, name=f"{name}/conv1")
    y = net.conv_norm(y, width, 3, middle, name=f"{name}/conv2")
    y = net.conv(y, 4 * width, 1, bias=True, name=f"{name}/conv3")
    return net.add(shortcut, y, f"{name}/add")


def _strides(block: int, units: int, style: Style) -> list[int]:
    """Strides of the units of one block, 1 to 4. Together the blocks halve the image three times."""
    strides = [1] * units
    if style.stride_first and block > 1:
        strides[0] = 2
    if not style.stride_first and block < 4:
        strides[-1] = 2
    return strides


def _resnet(name: str, depth: int, version: int, style: Style, batch: int, source: str) -> Profile:
    """A ResNet of `depth` weight layers for 224 x 224 images and 1000 classes."""
    net = Network(3, 224, 224, norm_tensors=style.norm_tensors)
    unit = _unit_v1 if version == 1 else _unit_v2
    root = (
        net.conv_norm(net.sample, 64, 7, 2, name="conv1")
        if version == 1
        else net.conv(net.sample, 64, 7, 2, bias=True, name="conv1")
    )
    x = net.pool(root, 3, 2, "same", name="pool1")
    for block, (units, width) in enumerate(zip(RESNET_UNITS[depth], RESNET_WIDTHS, strict=True), start=1):
        for index, stride in enumerate(_strides(block, units, style), start=1):
            x = unit(net, x, width, stride, style, f"block{block}/unit{index}")
    if version == 2:
        x = net.norm(x, "postnorm")
    net.fc(net.global_pool(x, "pool5"), 1000, name="logits")
    return net.profile(name, batch, source)


def resnet50() -> Profile:
    """25.557 M parameters in 161 tensors, 8.02 % of them in the FC layer (Geryon, Sec. III-C)."""
    return _resnet("resnet50", 50, 1, TF_BENCHMARKS, 64, "Geryon Sec. III-C and V-A; He et al. 2015; tf_cnn_benchmarks")


def resnet50_torchvision() -> Profile:
    """ResNet-50 with its 161 tensors in torchvision's order: 25,557,032 parameters and 4.09 G multiply-adds, as its
    documentation prints.

    The order decides what PyTorch's DDP reduces together (workloads/strategies/ddp.py).
    """
    return _resnet("resnet50-torchvision", 50, 1, TORCHVISION, 64, "torchvision 0.20, models.resnet50; He et al. 2015")


def resnet101_torchvision() -> Profile:
    """44,549,160 parameters and 7.80 G multiply-adds, as torchvision's documentation prints."""
    return _resnet(
        "resnet101-torchvision", 101, 1, TORCHVISION, 64, "torchvision 0.20, models.resnet101; He et al. 2015"
    )


def resnext50() -> Profile:
    """ResNeXt-50 32x4d: 25,028,904 parameters and 4.23 G multiply-adds, as torchvision's documentation prints."""
    return _resnet("resnext50", 50, 1, RESNEXT_4, 64, "torchvision 0.20, models.resnext50_32x4d; Xie et al. 2017")


def resnext101() -> Profile:
    """ResNeXt-101 32x8d: 88,791,336 parameters and 16.41 G multiply-adds, as torchvision's documentation prints."""
    return _resnet("resnext101", 101, 1, RESNEXT_8, 64, "torchvision 0.20, models.resnext101_32x8d; Xie et al. 2017")


def resnext101_narrow() -> Profile:
    """ResNeXt-101 32x4d, which NVIDIA's DeepLearningExamples train: 44,177,704 parameters and 8.00 G multiply-adds."""
    return _resnet("resnext101-32x4d", 101, 1, RESNEXT_4, 64, "Xie et al. 2017, with 32 groups of 4 channels")


def resnet50_gradientflow() -> Profile:
    """GradientFlow's 153 tensors: the standard 161 less the normalisations of the 4 shortcuts.

    The paper prints only the count (153 in the text, 152 in Fig. 5's caption). That these 8 are the missing ones is
    inferred; they hold 15 thousand of the 25.5 M parameters.
    """
    return _resnet(
        "resnet50-gf", 50, 1, GRADIENTFLOW, 128, "GradientFlow Sec. 2.3; shortcut normalisation left out: inferred"
    )


def resnet50_slim() -> Profile:
    """TF-slim's resnet_v1_50 with beta alone: 108 tensors, 97.39 MiB (TicTac, Table 1)."""
    return _resnet("resnet50-slim", 50, 1, TF_SLIM, 32, "TicTac Table 1; TF-slim resnet_v1_50, beta only")


def resnet101() -> Profile:
    """TF-slim's resnet_v1_101 with beta alone: 210 tensors, 169.74 MiB (TicTac, Table 1)."""
    return _resnet("resnet101", 101, 1, TF_SLIM, 64, "TicTac Table 1; TF-slim resnet_v1_101, beta only")


def resnet101_netops() -> Profile:
    """TF-slim's resnet_v2_101: 1.426 Gb; NetOps (Table 2) prints 1.42. For version and variables, see `resnet200`."""
    return _resnet("resnet101-netops", 101, 2, TF_SLIM_SCALED, 32, "NetOps Table 2; TF-slim resnet_v2_101")


def resnet200() -> Profile:
    """TF-slim's resnet_v2_200: 2.071 Gb; NetOps (Table 2) prints 2.06.

    The paper does not name the version. With version 2, placing all variables round robin gives shares of 0.1655 to
    0.3305 on 4 servers (Table 7: 0.165, 0.33), and of 0.504 on 2 servers (Table 1's simulated 3.34 s are 0.505 of the
    bytes). Version 1 gives neither.
    """
    return _resnet("resnet200", 200, 2, TF_SLIM_SCALED, 32, "NetOps Table 2; TF-slim resnet_v2_200")


def resnet50_v2() -> Profile:
    """TF-slim's resnet_v2_50 with beta alone: 125 tensors, 97.45 MiB (TicTac, Table 1)."""
    return _resnet("resnet50-v2", 50, 2, TF_SLIM, 64, "TicTac Table 1; TF-slim resnet_v2_50, beta only")


def resnet101_v2() -> Profile:
    """TF-slim's resnet_v2_101 with beta alone: 244 tensors, 169.86 MiB (TicTac, Table 1)."""
    return _resnet("resnet101-v2", 101, 2, TF_SLIM, 32, "TicTac Table 1; TF-slim resnet_v2_101, beta only")


def resnet152_v2() -> Profile:
    """TF-slim's resnet_v2_152 with beta alone: 363 tensors, 229.5 MiB (TicTac, Sec. 2.2)."""
    return _resnet("resnet152-v2", 152, 2, TF_SLIM, 32, "TicTac Sec. 2.2; TF-slim resnet_v2_152, beta only")
