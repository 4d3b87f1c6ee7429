"""AlexNet in the three variants of the papers, which differ by a fifth in size."""

from __future__ import annotations

from gradwire.workloads.models.profile import Profile
from gradwire.workloads.models.shapes import Network, Node


def _convolutions(net: Network, *, groups: int, norm: bool) -> Node:
    """The five convolutions of Krizhevsky et al. (2012). `groups` is 2 for the original's split over two GPUs, 1
    without it."""

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
