"""YOLO v1 (Redmon et al., 2016): 24 convolutions and two FC layers on 448 x 448 images."""

from __future__ import annotations

from gradwire.workloads.models.profile import Profile
from gradwire.workloads.models.shapes import Network

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
